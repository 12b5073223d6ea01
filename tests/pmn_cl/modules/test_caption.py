"""M_cap against appendix A.2: its equations in numpy, and how sentences end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.modules.caption import END, GREEDY, PROBABILITIES, START, soft_sentence
from pmn_cl.modules.places import positions
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import SIZES, Departures
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
WORDS, LONGEST = 6, 16  # of the tiny world; of the paper


@pytest.mark.parametrize("query", [PROBABILITIES, GREEDY])
def test_shapes(query: str, plan: Plans, modules: Modules, batch: Batch) -> None:
    cap, env = modules(plan())["cap"], Environment.of(batch())
    assert cap(query, env).shape == (3, LONGEST, WORDS)
    assert cap.own_query(env) == GREEDY


@pytest.mark.parametrize("size", ["paper", "small"])
def test_it_learns_the_layers_of_the_appendix(
    size: str,
    plan: Plans,
    modules: Modules,
    learns: Any,
    parameters: Callable[[nn.Module], int],
) -> None:
    with torch.device("meta"):
        made = modules(plan(SIZES[size], region=2048), weights=False)
    own = SIZES[size]
    width, word, terminal, attention = (
        (1000, 300, 300, 512)
        if size == "paper"
        else (own.caption, own.word, own.terminal, own.attention)
    )
    expected = (
        learns.linear(width, 4)  # G: for the four modules in L_cap
        + learns.attention(width, 2048, attention)  # Ω
        + learns.mlp(2048, width, width)  # Δ
        + 2 * learns.receiver(terminal, width)  # R for M_obj and M_att
        + learns.receiver(width, width)  # R for Δ
        + WORDS * word
        + learns.gru(2048 + word + width, width)  # mean X, last word, h₂
        + learns.gru(width + width, width)  # h₁, ρ
        + learns.linear(width, WORDS)  # Ψ
    )
    assert parameters(made["cap"]) == expected


def sentence_of(
    made: dict[str, Any],
    equations: Any,
    x: dict[str, Tensor],
    b: int,
    following: Callable[[int, Any], Any],
) -> Any:
    """Appendix A.2 for one sample; `following` gives the input after step t, as weights of words.

    Sentences that ended are not cut here.
    """
    obj, att, cap = (equations(made[name]) for name in ("obj", "att", "cap"))
    X = x["regions"][b, x["mask"][b]].double().numpy()
    known = X  # by Ω, Δ and the first GRU layer
    if made["cap"].plan.departures.caption_positions:
        known = np.concatenate([X, positions(x["boxes"][b, x["mask"][b]].double()).numpy()], axis=1)
    width = cap.weights["speak.weight"].shape[1]
    h1, h2 = np.zeros(width), np.zeros(width)
    word, spoken = np.eye(WORDS)[START], []
    for t in range(LONGEST):
        g = cap.linear("G.scores", h1)  # Ω, obj, att, Δ
        p = cap.softmax(cap.attention("attention", h1, known))
        seen = sum(p[i] * X[i] for i in range(len(X)))
        looked = sum(p[i] * known[i] for i in range(len(X)))
        v_obj = cap.receiver("R.obj", np.tanh(obj.linear("project", seen)))
        v_att = cap.receiver("R.att", np.tanh(att.linear("project", seen)))
        v_delta = cap.receiver("R.residual", cap.mlp("delta", looked))
        gates = cap.softmax(g[1:])
        rho = gates[0] * v_obj + gates[1] * v_att + gates[2] * v_delta
        last = word @ cap.weights["words.weight"]
        h1 = cap.gru("first", np.concatenate([known.mean(0), last, h2]), h1)
        h2 = cap.gru("second", np.concatenate([h1, rho]), h2)
        spoken.append(cap.linear("speak", h2))
        word = following(t, spoken[-1])
    return np.array(spoken)


def cut(spoken: Any) -> Any:
    """Zero all scores after the end mark was the likeliest word."""
    kept = spoken.copy()
    ends = [t for t in range(len(kept)) if kept[t].argmax() == END]
    if ends:
        kept[ends[0] + 1 :] = 0
    return kept


@pytest.mark.parametrize("query", [PROBABILITIES, GREEDY])
@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_computes_the_equations_of_the_appendix(
    query: str,
    places: bool,
    seed: int,
    plan: Plans,
    modules: Modules,
    batch: Batch,
    equations: Any,
) -> None:
    """For another module the words' probabilities are the next input; else the likeliest word."""
    departures = Departures(caption_positions=places)
    made, x = modules(plan(departures=departures), seed=seed), batch(seed=seed)
    cap = made["cap"]
    found = cap(query, Environment.of(x))

    def following(t: int, scores: Any) -> Any:
        return np.eye(WORDS)[scores.argmax()] if query == GREEDY else softmax(scores)

    softmax = equations(cap).softmax
    for b in range(3):
        spoken = sentence_of(made, equations, x, b, following)
        expected = spoken if query == GREEDY else np.array([softmax(s) for s in spoken])
        assert np.allclose(found[b].detach(), cut(expected), atol=1e-5)


def sentences() -> Tensor:
    """Three sentences of different length, as the task has them: ended, then padded."""
    words = torch.zeros(3, LONGEST, dtype=torch.long)
    for b, said in enumerate([[3, 4, 5, 3, END], [5, END], [4, 4, 3, END]]):
        words[b, : len(said)] = torch.tensor(said)
    return words


def test_a_teachers_words_take_the_place_of_its_own(
    plan: Plans, modules: Modules, batch: Batch, equations: Any
) -> None:
    made, x, words = modules(plan()), batch(), sentences()
    env = Environment.of({**x, "words": words})
    cap = made["cap"]
    found = cap(cap.own_query(env), env)
    assert found.shape == (3, LONGEST, WORDS)
    for b in range(3):
        said = np.eye(WORDS)[words[b]]
        expected = sentence_of(made, equations, x, b, lambda t, _, said=said: said[t])
        longest = 5  # of the three; what stands beyond no loss asks for
        assert np.allclose(found[b, :longest].detach(), expected[:longest], atol=1e-5)
    assert (found[:, 5:] == 0).all()


def always(cap: Any, word: int, at: float = 50.0) -> None:
    """Make a module say one word only."""
    with torch.no_grad():
        cap.speak.weight.zero_()
        cap.speak.bias.zero_()
        cap.speak.bias[word] = at


def test_a_sentence_stops_at_the_end_mark(plan: Plans, modules: Modules, batch: Batch) -> None:
    cap = modules(plan())["cap"]
    always(cap, END)
    steps: list[Any] = []
    cap.speak.register_forward_hook(lambda *args: steps.append(args))
    found = cap(GREEDY, Environment.of(batch()))
    assert len(steps) == 1  # nothing is worked out for sentences that have all ended
    assert (found[:, 0].argmax(1) == END).all()
    assert (found[:, 1:] == 0).all()


def test_a_sentence_without_end_has_sixteen_words(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    cap = modules(plan())["cap"]
    always(cap, 3)
    found = cap(GREEDY, Environment.of(batch()))
    assert found.argmax(2).tolist() == [[3] * LONGEST] * 3


@pytest.mark.parametrize("query", [PROBABILITIES, GREEDY])
def test_a_sentence_is_zero_after_its_end_while_others_go_on(
    query: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Over many weights, so that sentences of a batch end at different steps."""
    different = 0
    for seed in range(8):
        cap = modules(plan(), seed=seed)["cap"]
        found = cap(query, Environment.of(batch(seed=seed)))
        ends = []
        for scores in found:
            end = [t for t in range(LONGEST) if int(scores[t].argmax()) == END]
            ends.append(end[0] if end else LONGEST)
            assert (scores[ends[-1] + 1 :] == 0).all()
            assert (scores[: ends[-1] + 1] != 0).any(1).all()
        different += len(set(ends)) > 1
    assert different > 0


def test_a_sentence_does_not_depend_on_others_in_the_batch(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    cap = modules(plan(), seed=1)["cap"]
    env = Environment.of(batch(seed=1))
    together = cap(GREEDY, env)
    for b in range(3):
        alone = cap(GREEDY, env.rows(torch.tensor([b])))
        assert torch.allclose(alone[0], together[b], atol=1e-5)


def test_soft_sentences_are_distributions_until_the_end_mark() -> None:
    scores = torch.zeros(2, 4, 4)
    for b, said in enumerate([[3, END, 0, 0], [3, 3, 3, 3]]):
        for t, word in enumerate(said):
            scores[b, t, word] = 2.0
    sure = np.exp(2) / (np.exp(2) + 3)
    found = soft_sentence(scores)
    assert found[0, 1, END].item() == pytest.approx(sure)  # the mark itself counts
    assert found.sum(2).tolist() == pytest.approx(np.array([[1, 1, 0, 0], [1, 1, 1, 1]]), abs=1e-6)
    assert found[1, :, 3].tolist() == pytest.approx([sure] * 4)


def test_padding_changes_nothing(
    plan: Plans, modules: Modules, batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    cap = modules(plan())["cap"]
    x = batch()
    for query in (PROBABILITIES, GREEDY, sentences()):
        usual, more = cap(query, Environment.of(x)), cap(query, Environment.of(padded(x)))
        assert torch.allclose(usual, more, atol=1e-5)


def test_gradient_of_soft_words_is_that_of_finite_differences(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Each word reaches the next step softly, through M_obj and M_att that are frozen."""
    made = modules(plan(), seed=2)
    for name in ("obj", "att", "cap"):
        made[name].double()
    for name in ("obj", "att"):
        made[name].freeze()
    cap, x = made["cap"], batch(there=(2,), asked=(1,), dtype=torch.float64)
    regions = x["regions"].requires_grad_()

    def tell(seen: Tensor) -> Tensor:
        return cap(PROBABILITIES, Environment.of({**x, "regions": seen}))

    assert torch.autograd.gradcheck(tell, (regions,))
    tell(regions).square().sum().backward()
    assert all(p.grad is None for name in ("obj", "att") for p in made[name].parameters())
    without = [name for name, p in cap.named_parameters() if p.grad is None]
    assert without == []
