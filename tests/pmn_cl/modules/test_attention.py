"""Where M_vqa and M_cnt look, as hooks see it: against their traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pmn_cl.modules.attention import AttentionMap, maps_seen
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]


@pytest.fixture
def network(plan: Plans, modules: Modules) -> ModuleNetwork:
    made = ModuleNetwork()
    for name, module in modules(plan()).items():
        made.add(name, module)
    return made


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    e = logits.exp() * mask
    return e / e.sum(1, keepdim=True)


def test_m_vqa_shows_the_mixed_map_of_each_step_and_not_its_callees(
    network: ModuleNetwork, batch: Batch
) -> None:
    x, trace = batch(), Trace()
    with torch.no_grad(), network.attention_seen("vqa") as maps:
        network(x, "vqa", trace=trace)
    own = [call for call in trace.calls if call.depth == 0]
    assert len(maps) == 2
    for step, seen in enumerate(maps, start=1):
        by_callee = {call.callee: call for call in own if call.step == step}
        mixed = sum(
            by_callee[k].gate[:, None] * softmax(by_callee[k].output, x["mask"])
            for k in ("Ω", "rel")
        )
        assert torch.allclose(seen, mixed, atol=1e-6)
        assert torch.allclose(seen.sum(1), torch.ones(3))


def test_m_cnt_shows_what_it_counts(network: ModuleNetwork, batch: Batch) -> None:
    x, trace = batch(), Trace()
    with torch.no_grad(), network.attention_seen("cnt") as maps:
        network(x, "cnt", trace=trace)
    calls = {call.callee: call for call in trace.calls if call.depth == 0}
    logits = sum(calls[k].gate[:, None] * calls[k].output for k in ("Ω", "rel"))
    [seen] = maps
    assert torch.allclose(seen, softmax(logits, x["mask"]), atol=1e-6)
    assert not seen[~x["mask"]].any()


def test_watching_changes_no_answer_and_ends(network: ModuleNetwork, batch: Batch) -> None:
    with torch.no_grad():
        before = network(batch(), "vqa")
        with network.attention_seen("vqa") as maps:
            assert torch.equal(network(batch(), "vqa"), before)
        network(batch(), "vqa")
    assert len(maps) == 2
    assert not list(AttentionMap().parameters())


def test_modules_that_show_nothing_are_not_watched(network: ModuleNetwork, batch: Batch) -> None:
    with network.attention_seen("obj") as maps:
        network(batch(), "obj")
    assert maps == []


def test_logits_are_seen_as_shares(batch: Batch) -> None:
    looks, env = AttentionMap(logits=True), Environment.of(batch())
    logits = torch.zeros(env.mask.shape)
    with maps_seen(looks) as maps:
        assert looks(logits, env) is logits
    assert maps[0][1].tolist() == pytest.approx([1 / 3] * 3 + [0, 0])
