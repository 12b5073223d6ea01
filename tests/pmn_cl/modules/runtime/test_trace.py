"""Traces: who asked whom, in which order, as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pmn_cl.modules.compositional import ATTEND, RESIDUAL
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.trace import Trace, plain
from pmn_cl.modules.task_module import ModulePlan


class Pair(NamedTuple):
    box: Tensor
    relation: Tensor


def test_depth_is_that_outside_of_what_is_entered() -> None:
    trace = Trace()
    with trace.inside() as outer, trace.inside() as inner:
        assert (outer, inner) == ((0, 1), (1, 2))  # depth, and number in the order of asking
    with trace.inside() as again:
        assert again == (0, 3)


def test_depth_is_right_again_after_an_error() -> None:
    trace = Trace()
    with pytest.raises(ValueError, match="lost"), trace.inside():
        raise ValueError("lost")
    with trace.inside() as (depth, _):
        assert depth == 0


def test_plain_data_is_one_samples() -> None:
    value = {"pair": Pair(torch.tensor([1.0, 2.0]), torch.tensor([[3], [4]])), "none": None}
    assert plain(value, 1) == {"pair": {"box": 2.0, "relation": [4]}, "none": None}
    assert plain([torch.tensor([True, False]), "greedy", 3], 0) == [True, "greedy", 3]


def test_plain_data_needs_no_gradient() -> None:
    assert plain(torch.tensor([1.0, 2.0], requires_grad=True), 0) == 1.0


@pytest.fixture
def traced(
    plan: Callable[..., ModulePlan],
    modules: Callable[..., dict[str, Any]],
    batch: Callable[..., dict[str, Tensor]],
) -> tuple[Trace, Tensor, Tensor]:
    """A trace of M_vqa, its answer, and the answer without a trace."""
    vqa = modules(plan())["vqa"]
    trace = Trace()
    env = Environment.of(batch(), trace=trace)
    answer = vqa(vqa.own_query(env), env)
    silent = Environment.of(batch())
    return trace, answer, vqa(vqa.own_query(silent), silent)


def test_a_trace_changes_no_bit_of_the_answer(traced: tuple[Trace, Tensor, Tensor]) -> None:
    assert torch.equal(traced[1], traced[2])


def test_the_papers_call_list_is_passed_over_twice(traced: tuple[Trace, Tensor, Tensor]) -> None:
    # Before the first step, Ω and Q→rel ask what M_obj and M_att say of all regions.
    calls = [call for call in traced[0].calls if call.depth == 0 and call.step > 0]
    papers = [ATTEND, "rel", "obj", "att", RESIDUAL, "cnt", "cap"]  # L_vqa of section 3.3
    assert [(call.step, call.callee) for call in calls] == [(t, k) for t in (1, 2) for k in papers]
    assert {call.caller for call in calls} == {"vqa"}


def test_calls_of_callees_stand_deeper_and_before_the_call_that_made_them(
    traced: tuple[Trace, Tensor, Tensor],
) -> None:
    found = [(call.caller, call.callee, call.depth) for call in traced[0].calls]
    counting = found.index(("cnt", "rel", 1))
    assert counting < found.index(("vqa", "cnt", 0))
    first = found.index(("vqa", "rel", 0))
    assert found[first - 3 : first] == [("rel", "obj", 1), ("rel", "att", 1), ("rel", RESIDUAL, 1)]


def test_gates_are_noted_and_sum_to_one_in_each_group(
    traced: tuple[Trace, Tensor, Tensor],
) -> None:
    for group in ((ATTEND, "rel"), ("obj", "att", RESIDUAL, "cnt", "cap")):
        for step in (1, 2):
            asked = [call for callee in group for call in traced[0].of("vqa", callee)]
            gates = [call.gate for call in asked if call.step == step]
            assert torch.allclose(torch.stack(gates).sum(0), torch.ones(3), atol=1e-6)
    assert traced[0].of("rel", "obj")[0].gate is None  # M_rel has no such choice


def test_a_samples_calls_survive_json(traced: tuple[Trace, Tensor, Tensor]) -> None:
    trace = traced[0]
    data = trace.sample(1)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert len(data) == len(trace.calls)
    asked = next(call for call in data if (call["caller"], call["callee"]) == ("vqa", "rel"))
    assert set(asked) == {
        *("caller", "callee", "step", "depth", "number"),
        *("gate", "query", "output"),
    }
    assert set(asked["query"]) == {"box", "relation"}
    assert sum(asked["query"]["box"]) == pytest.approx(1, abs=1e-5)
    expected = trace.of("vqa", "rel")[0].output[1].tolist()
    assert asked["output"] == expected


def test_without_a_trace_nothing_is_recorded(
    plan: Callable[..., ModulePlan],
    modules: Callable[..., dict[str, Any]],
    batch: Callable[..., dict[str, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Trace, "add", lambda self, *call: added.append(call))
    vqa = modules(plan())["vqa"]
    env = Environment.of(batch())
    vqa(vqa.own_query(env), env)
    assert added == []
