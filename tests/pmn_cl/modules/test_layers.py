"""The small layers against the paper's equations in numpy, and the numbers that they learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.layers import (
    GatedTanh,
    QuestionEncoder,
    ScaledLinear,
    SoftAttention,
    perceptron,
    receiver,
    singular_of,
    start_scaled,
)
from pmn_cl.modules.runtime.environment import Environment

Equations = Callable[[nn.Module], Any]
WORDS = ["", *"abcdefgh"]  # nine, the first of them padding


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def alone(rows: int) -> Environment:
    """An environment of so many samples, each of a scene of its own."""
    return Environment(torch.zeros(rows, 1, 1), torch.zeros(rows, 1, 4), torch.ones(rows, 1) > 0)


def inside(layer: nn.Module) -> nn.Module:
    """The layer as part `x` of a module, so that its weights have a name."""
    return nn.ModuleDict({"x": layer})


@pytest.mark.parametrize("hidden", [4, 300])  # narrow and wide ones are multiplied differently
def test_soft_attention_is_z_of_f_times_g(hidden: int, equations: Equations) -> None:
    torch.manual_seed(0)
    layer = SoftAttention(key=3, data=5, hidden=hidden)
    key, data = drawn(2, 3), drawn(2, 6, 5, seed=1)
    found = layer(key, data, alone(2))
    assert found.shape == (2, 6)
    expected = [
        equations(inside(layer)).attention("x", k.double().numpy(), d.double().numpy())
        for k, d in zip(key, data, strict=True)
    ]
    assert np.allclose(found.detach(), expected, atol=1e-5)


def test_soft_attention_by_hand() -> None:
    """f(k) = max(2·k₁ − k₂, 0), g(d) = max(d, 0), z(x) = 3x + 1: two numbers and a clipped one."""
    layer = SoftAttention(key=2, data=1, hidden=1)
    values = [[[2.0, -1.0]], [0.0], [[1.0]], [0.0], [[3.0]], [1.0]]
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), values, strict=True):
            parameter.copy_(torch.tensor(value))
    key, data = torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[[0.5], [-4.0]]] * 2)
    found = layer(key, data, alone(2))
    assert found.tolist() == [[3 * 3 * 0.5 + 1, 1], [1, 1]]


def test_comparing_with_what_was_projected_before_is_the_same() -> None:
    layer = SoftAttention(key=3, data=5, hidden=4)
    key, data = drawn(2, 3), drawn(2, 6, 5)
    env = alone(2)
    assert torch.equal(layer.compare(key, layer.project(data), env), layer(key, data, env))


def test_without_data_of_its_own_attention_compares_with_what_another_projected(
    equations: Equations,
) -> None:
    torch.manual_seed(0)
    both = nn.ModuleDict({"x": SoftAttention(3, 5, 4), "y": SoftAttention(3, None, 4)})
    key, data = drawn(2, 3), drawn(2, 6, 5)
    found = both["y"].compare(key, both["x"].project(data), alone(2))
    expected = [
        equations(both).attention("y", k.double().numpy(), d.double().numpy(), shared="x")
        for k, d in zip(key, data, strict=True)
    ]
    assert np.allclose(found.detach(), expected, atol=1e-5)


def test_gradient_of_soft_attention_is_that_of_finite_differences() -> None:
    torch.manual_seed(1)
    layer = SoftAttention(key=3, data=5, hidden=4).double()
    key, data = drawn(2, 3).double().requires_grad_(), drawn(2, 6, 5).double().requires_grad_()
    env = alone(2)
    assert torch.autograd.gradcheck(lambda k, d: layer(k, d, env), (key, data))


def test_a_receiver_is_linear_then_batch_norm_then_tanh(equations: Equations) -> None:
    layer = receiver(3, 4).eval()
    with torch.no_grad():
        layer[1].running_mean.copy_(drawn(4))
        layer[1].running_var.copy_(drawn(4).abs() + 0.5)
    x = drawn(5, 3)
    expected = [equations(inside(layer)).receiver("x", row.double().numpy()) for row in x]
    assert np.allclose(layer(x).detach(), expected, atol=1e-5)


def test_a_receiver_normalises_over_the_batch_while_it_learns() -> None:
    layer = receiver(3, 4)
    x = drawn(50, 3)
    z = layer[0](x)
    normal = (z - z.mean(0)) / (z.var(0, unbiased=False) + 1e-5).sqrt()
    assert torch.allclose(layer(x), normal.tanh(), atol=1e-5)


def test_a_perceptron_has_one_hidden_layer_with_relu(equations: Equations) -> None:
    layer = perceptron(3, 4, 2)
    x = drawn(5, 3)
    expected = [equations(inside(layer)).mlp("x", row.double().numpy()) for row in x]
    assert np.allclose(layer(x).detach(), expected, atol=1e-5)


def test_gated_tanh_is_tanh_times_sigmoid(equations: Equations) -> None:
    layer = GatedTanh(3, 4)
    x = drawn(5, 3)
    expected = [equations(inside(layer)).gated_tanh("x", row.double().numpy()) for row in x]
    assert np.allclose(layer(x).detach(), expected, atol=1e-5)


def test_layers_learn_as_many_numbers_as_their_formulas_say(
    learns: Any, parameters: Callable[[nn.Module], int]
) -> None:
    assert parameters(SoftAttention(3, 5, 4)) == learns.attention(3, 5, 4)
    assert parameters(SoftAttention(3, None, 4)) == learns.attention(3, None, 4)
    assert parameters(receiver(3, 4)) == learns.receiver(3, 4)
    assert parameters(perceptron(3, 4, 2)) == learns.mlp(3, 4, 2)
    assert parameters(GatedTanh(3, 4)) == 2 * learns.linear(3, 4)
    assert parameters(QuestionEncoder(WORDS, 3, 4)) == 9 * 3 + learns.gru(3, 4)


# Where layers start.


def scales(layer: SoftAttention, key: int, data: int) -> float:
    """The standard deviation of logits for keys and data of variance 1."""
    logits = layer(drawn(400, key), drawn(400, 20, data, seed=1), alone(400))
    return float(logits.detach().std())


@pytest.mark.parametrize(
    ("key", "data", "hidden"), [(64, 128, 128), (64, 448, 128), (128, 128, 256)]
)
def test_attention_starts_at_the_scale_of_its_input(key: int, data: int, hidden: int) -> None:
    """Measured: a standard deviation of 0.86 to 0.92; 0.09 by torch's own start."""
    torch.manual_seed(0)
    layer = SoftAttention(key, data, hidden)
    own = scales(layer, key, data)
    start_scaled(layer.modules())
    scaled = scales(layer, key, data)
    assert own < 0.1
    assert 0.7 < scaled < 1.4
    assert not any(value.any() for name, value in layer.named_parameters() if "bias" in name)


@pytest.mark.parametrize("width", [64, 128, 256])
def test_the_product_before_answers_starts_at_a_scale_that_can_be_learned_from(width: int) -> None:
    """M_vqa multiplies two gated tanh. Measured: 0.15 to 0.16; 0.06 by torch's own start."""
    torch.manual_seed(0)
    first, second = GatedTanh(width, 128), GatedTanh(128, 128)
    x, y = drawn(400, width), drawn(400, 128, seed=1)
    own = float((first(x) * second(y)).detach().std())
    start_scaled([*first.modules(), *second.modules()])
    scaled = float((first(x) * second(y)).detach().std())
    assert own < 0.08
    assert 0.12 < scaled < 0.25
    assert first.gate.bias.any()  # gates stay as they were


def test_a_scaled_layer_keeps_what_a_relu_lets_through_as_large_as_it_was() -> None:
    """He et al. (ICCV 2015), eq. 10: E[relu(Wx)²] = E[x²]."""
    torch.manual_seed(0)
    layer, x = ScaledLinear(300, 400), drawn(500, 300)
    start_scaled([layer])
    assert float(layer(x).relu().square().mean().detach()) == pytest.approx(1, abs=0.1)
    assert float(layer.weight.detach().var()) == pytest.approx(2 / 300, rel=0.05)


def test_layers_that_are_not_multiplied_start_as_torch_has_it() -> None:
    both = nn.ModuleList([nn.Linear(3, 4), receiver(3, 4), nn.GRUCell(3, 4)])
    before = {name: value.clone() for name, value in both.state_dict().items()}
    start_scaled(both.modules())
    assert all(torch.equal(value, before[name]) for name, value in both.state_dict().items())


# Words.


def test_singulars_by_hand() -> None:
    words = ["", "one", "ones", "seven", "sevens", "six", "sixes"]
    # No plurals, whatever is left of them without their ending: short words, and the empty one.
    words += ["a", "as", "i", "is", "do", "does", "s", "es", "this", "cross", "nines"]
    found = {word: words[number] for word, number in zip(words, singular_of(words), strict=True)}
    plurals = {"ones": "one", "sevens": "seven", "sixes": "six"}
    assert found == {**{word: word for word in words}, **plurals}
    # Without their singulars in the list, words stay as they are.
    assert singular_of(["", "sevens", "is", "this"]) == [0, 1, 2, 3]


def test_a_plural_has_the_vector_of_its_singular(
    batch: Callable[..., dict[str, Tensor]],
) -> None:
    words = ["", "many", "seven", "sevens", "is"]
    torch.manual_seed(0)
    plain, alike = (QuestionEncoder(words, 3, 4, singulars=given) for given in (False, True))
    one, many = asked(batch(), [[1, 2, 4]]), asked(batch(), [[1, 3, 4]])
    assert torch.equal(alike(one), alike(many))
    assert not torch.allclose(plain(one), plain(many), atol=1e-3)
    alike(many).sum().backward()
    grad = alike.words.weight.grad
    assert grad is not None and grad[2].any() and not grad[3].any()  # it learns for both


def asked(batch: dict[str, Tensor], question: list[list[int]]) -> Environment:
    """An environment with these questions, padded."""
    longest = max(map(len, question))
    rows = [words + [0] * (longest - len(words)) for words in question]
    scenes = {name: value[: len(rows)] for name, value in batch.items()}
    return Environment.of({**scenes, "question": torch.tensor(rows)})


def test_a_question_is_the_gru_state_after_its_last_word(
    batch: Callable[..., dict[str, Tensor]], equations: Equations
) -> None:
    torch.manual_seed(2)
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    questions = [[4, 2, 8, 1], [7], [3, 3]]
    found = encoder(asked(batch(), questions))
    expected = [equations(inside(encoder)).sentence("x", words) for words in questions]
    assert found.shape == (3, 4)
    assert np.allclose(found.detach(), expected, atol=1e-5)


def test_a_question_is_the_same_beside_longer_ones_and_with_more_padding(
    batch: Callable[..., dict[str, Tensor]],
) -> None:
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    alone = encoder(asked(batch(), [[5, 6]]))
    beside = encoder(asked(batch(), [[5, 6], [1, 2, 3, 4, 5]]))
    padded = encoder(asked(batch(), [[5, 6, 0, 0, 0, 0]]))
    assert torch.allclose(alone[0], beside[0], atol=1e-6)
    assert torch.allclose(alone, padded, atol=1e-6)


def test_an_empty_question_is_a_finite_vector_that_padding_does_not_change(
    batch: Callable[..., dict[str, Tensor]],
) -> None:
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    short, long = encoder(asked(batch(), [[0]])), encoder(asked(batch(), [[0, 0, 0], [1, 2, 3]]))
    assert short.isfinite().all()
    assert torch.allclose(short[0], long[0], atol=1e-6)


def test_the_vector_of_padding_stays_zero(batch: Callable[..., dict[str, Tensor]]) -> None:
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    encoder(asked(batch(), [[5, 0], [1, 2]])).sum().backward()
    assert encoder.words.weight[0].tolist() == [0, 0, 0]
    assert encoder.words.weight.grad is not None
    assert encoder.words.weight.grad[0].tolist() == [0, 0, 0]


def test_a_batch_without_a_question_is_refused(batch: Callable[..., dict[str, Tensor]]) -> None:
    silent = {name: value for name, value in batch().items() if name != "question"}
    with pytest.raises(UserError, match=r"no field 'question'; it has regions, boxes, mask"):
        QuestionEncoder(WORDS, word=3, hidden=4)(Environment.of(silent))
