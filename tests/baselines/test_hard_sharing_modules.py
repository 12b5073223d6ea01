"""Hard sharing with PMN's base modules: what is shared, how each works, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from baselines.hard_sharing_modules import HardSharingModules
from baselines.options import ModulesOptions
from pmn_cl.modules.places import observed
from pmn_cl.modules.runtime.environment import Environment

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "rel", "cap", "cnt", "vqa"]


@pytest.fixture(scope="module")
def few(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, fraction=10)


def make(**options: Any) -> HardSharingModules:
    return HardSharingModules(options=ModulesOptions.model_validate(options), seed=1, budget=30)


@pytest.fixture(scope="module")
def learned(few: Experiences) -> Any:
    """Return a strategy after all tasks, with what was there after each of them."""
    at_once = {"carried_rest": 0.0, "carried_lr": 1.0}  # tasks take few steps here
    strategy: Any = make(training=dict.fromkeys(TASKS, at_once))
    strategy.trunks, strategy.modules_of_rel = [], []
    for task in TASKS:
        strategy.learn(few["train"][task], few["val"][task])
        strategy.trunks.append(strategy.network.regions.first.weight.clone())
        if task != "obj":
            strategy.modules_of_rel.append(strategy.network["rel"].look[0].weight.clone())
    return strategy


def test_every_task_changes_the_trunk_and_leaves_the_modules_of_others(learned: Any) -> None:
    for before, after in zip(learned.trunks, learned.trunks[1:], strict=False):
        assert not torch.equal(before, after)
    first, *later = learned.modules_of_rel
    assert all(torch.equal(first, weight) for weight in later)


def test_count_and_answer_share_what_reads_questions_and_nobody_is_called(learned: Any) -> None:
    network = learned.network
    assert network["vqa"].asking is network["cnt"].asking
    assert all(not network[task].callees for task in TASKS)
    with network.attention_seen("vqa") as maps, torch.no_grad():
        learned.predict(learned.experiences[max(learned.experiences)])
    assert maps
    with network.attention_seen("obj") as maps:
        pass
    assert maps == []


@pytest.mark.parametrize("task", TASKS)
def test_a_module_answers_as_pmns_about_what_the_trunk_sees(
    learned: Any, few: Experiences, task: str
) -> None:
    network, samples = learned.network.eval(), few["val"][task]
    x, _ = samples.batches[torch.arange(6).numpy()]
    env = Environment.of(x, task=task)
    trunk = network.regions
    seen = torch.relu(observed(env.scenes) @ trunk.first.weight.T + trunk.first.bias)
    seen = torch.relu(seen @ trunk.second.weight.T + trunk.second.bias)
    by_hand = Environment.of({**dict(x.items()), "regions": env.of_samples(seen)}, task=task)
    module = network[task]
    with torch.no_grad():
        expected = module.outputs(module(module.own_query(by_hand), by_hand), by_hand)
        found = network(x, task)
    assert torch.allclose(found, expected, atol=1e-5)


def test_it_has_no_query_that_could_be_supervised() -> None:
    with pytest.raises(ValidationError, match="put no query"):
        make(supervise=["cnt"])
