"""Gates: what they sum to, which are closed, and how gradient passes them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pmn_cl.modules.importance import Importance
from pmn_cl.modules.sizes import Gates

GROUPS = [["Ω", "rel"], ["obj", "att", "Δ", "cnt"]]
MAPS, TOLD = (0, 1), (2, 3, 4, 5)


def importance(gates: Gates, scores: list[float] | None = None) -> Importance:
    """G whose scores are the state itself, or are given."""
    made = Importance(6, GROUPS, gates)
    with torch.no_grad():
        made.scores.weight.copy_(torch.eye(6) if scores is None else torch.zeros(6, 6))
        made.scores.bias.copy_(torch.tensor(scores or [0.0] * 6))
    return made


def gates_of(gates: Gates, state: torch.Tensor) -> torch.Tensor:
    """The gates (B, 6) in the order of the groups."""
    found = importance(gates)(state)
    assert list(found) == [name for group in GROUPS for name in group]
    return torch.stack(list(found.values()), dim=1)


def states(seed: int = 0) -> torch.Tensor:
    return torch.randn(7, 6, generator=torch.Generator().manual_seed(seed)) * 2


def test_softmax_is_taken_within_each_group() -> None:
    x = states()
    found = gates_of(Gates(), x)
    for b in range(len(x)):
        for group in (MAPS, TOLD):
            total = sum(math.exp(x[b, k]) for k in group)
            expected = [math.exp(x[b, k]) / total for k in group]
            assert found[b, list(group)].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_score_of_one_group_does_not_move_the_other() -> None:
    x = states()
    changed = x.clone()
    changed[:, 0] += 3
    assert torch.equal(gates_of(Gates(), x)[:, 2:], gates_of(Gates(), changed)[:, 2:])


def test_sigmoid_gates_stand_each_for_itself() -> None:
    x = states()
    expected = [[1 / (1 + math.exp(-score)) for score in row] for row in x.tolist()]
    assert torch.allclose(gates_of(Gates(kind="sigmoid"), x), torch.tensor(expected), atol=1e-6)


def test_equal_gates_share_alike_whatever_the_state() -> None:
    expected = torch.tensor([1 / 2] * 2 + [1 / 4] * 4).expand(7, 6)
    assert torch.allclose(gates_of(Gates(kind="equal"), states()), expected)


def test_equal_gates_have_the_same_layers_as_others() -> None:
    """So that the paper's control differs in nothing but the choice."""
    shapes = [
        {name: p.shape for name, p in importance(Gates(kind=kind)).named_parameters()}
        for kind in ("equal", "softmax")
    ]
    assert shapes[0] == shapes[1]


@given(st.integers(0, 1000), st.integers(1, 6))
def test_of_hard_gates_the_widest_stay_open(seed: int, top: int) -> None:
    x = states(seed)
    found = gates_of(Gates(kind="hard", top=top), x)
    for b in range(len(x)):
        for group in (MAPS, TOLD):
            ranked = sorted(group, key=lambda k: -x[b, k].item())
            opened = ranked[:top]
            total = sum(math.exp(x[b, k]) for k in opened)
            for k in group:
                if k in opened:
                    assert found[b, k].item() == pytest.approx(math.exp(x[b, k]) / total, abs=1e-5)
                else:
                    assert found[b, k].item() == 0  # exactly: it decides who is asked


def test_a_threshold_closes_all_gates_below_it() -> None:
    # Softmax of the first group: 0.8, 0.2; of the second: 0.4, 0.3, 0.2, 0.1.
    scores = [math.log(p) for p in (0.8, 0.2, 0.4, 0.3, 0.2, 0.1)]
    made = importance(Gates(kind="hard", threshold=0.25), scores)
    found = torch.stack(list(made(torch.zeros(1, 6)).values()), dim=1)[0]
    assert found.tolist() == pytest.approx([1, 0, 4 / 7, 3 / 7, 0, 0], abs=1e-6)
    assert [k for k in range(6) if found[k] == 0] == [1, 4, 5]


def test_the_widest_gate_stays_open_below_the_threshold() -> None:
    scores = [math.log(p) for p in (0.6, 0.4, 0.3, 0.28, 0.22, 0.2)]
    made = importance(Gates(kind="hard", threshold=0.9), scores)
    found = torch.stack(list(made(torch.zeros(1, 6)).values()), dim=1)[0]
    assert found.tolist() == pytest.approx([1, 0, 1, 0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("hard", [Gates(kind="hard", top=2), Gates(kind="hard", threshold=0.3)])
def test_gradient_passes_hard_gates_as_if_they_were_soft(hard: Gates) -> None:
    weights = torch.randn(7, 6, generator=torch.Generator().manual_seed(5))
    gradients = []
    for gates in (hard, Gates()):
        x = states().requires_grad_()
        (gates_of(gates, x) * weights).sum().backward()
        gradients.append(x.grad)
    assert gradients[0].abs().sum() > 0
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6)


def test_an_empty_group_needs_no_gates() -> None:
    made = Importance(3, [["Ω"], []], Gates())
    assert made.scores.out_features == 1
    assert made(torch.randn(2, 3))["Ω"].tolist() == [1, 1]  # alone, it is all there is


@pytest.mark.parametrize("wrong", [{"kind": "soft"}, {"top": 0}, {"threshold": 1.0}, {"topp": 1}])
def test_gates_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Gates.model_validate(wrong)
