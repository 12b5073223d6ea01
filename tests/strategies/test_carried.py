"""What a task carries on from before learns slowly at first: rates by group, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from baselines.hard_sharing import HardSharing, HardSharingJoint
from baselines.multinet import Multinet
from baselines.options import HeadsOptions, MultinetOptions
from baselines.pnn import PnnOptions, ProgressiveColumns
from strategies.options import PmnOptions
from strategies.pmn import Progressive

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "cnt", "vqa"]
RATE, SHARE, REST = 0.01, 0.2, 0.25
TRAINING = {
    task: {
        **{"epochs": 1, "learning_rate": RATE, "carried_lr": SHARE, "carried_rest": REST},
        **{"schedule": "constant", "warmup": 0, "batch_size": 30},
    }
    for task in TASKS
}


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, 10.0)


class Rates:
    """Writes down for each task what is carried, and the learning rates of every step."""

    def __init__(self, strategy: Any) -> None:
        self.carried: dict[str, set[int]] = {}
        self.new: dict[str, set[int]] = {}
        self.steps: dict[str, list[dict[bool, float]]] = {}
        strategy.on_step = self
        self._strategy = strategy

    def __call__(self) -> None:
        groups = self._strategy.optimizer.param_groups
        task = self._strategy.current_experience().task.name
        for share, found in ((True, self.carried), (False, self.new)):
            some = [p for group in groups if group["carried"] == share for p in group["params"]]
            found[task] = {id(p) for p in some}
        rates = {group["carried"]: group["lr"] for group in groups}
        self.steps.setdefault(task, []).append(rates)


def carry(strategy: Any, experiences: Experiences, tasks: list[str] = TASKS) -> Rates:
    rates = Rates(strategy)
    train, val = ([experiences[split][task] for task in tasks] for split in ("train", "val"))
    strategy.learn_all(train, val)
    return rates


def assert_slow_then_rising(found: list[dict[bool, float]]) -> None:
    """Nothing for a quarter of the steps, then from 0.2 of the rate to all after the last step."""
    steps = len(found)
    assert steps >= 4
    assert [rates[False] for rates in found] == [RATE] * steps
    carried = [rates[True] for rates in found]
    resting = [step for step in range(steps) if step < REST * steps]
    assert resting and carried[: len(resting)] == [0.0] * len(resting)
    expected = [
        RATE * (0.2 + 0.8 * (step / steps - 0.25) / 0.75) for step in range(len(resting), steps)
    ]
    assert carried[len(resting) :] == pytest.approx(expected)
    assert carried[-1] == pytest.approx(RATE * (1 - 0.8 / (0.75 * steps)))


def pmn(**options: Any) -> Progressive:
    return Progressive(options=PmnOptions.model_validate({"training": TRAINING, **options}))


def ids(parts: Any) -> set[int]:
    return {id(p) for p in parts.parameters()}


def test_m_vqa_carries_what_it_copied_from_m_cnt(experiences: Experiences) -> None:
    strategy = pmn(asking="copies")
    found, vqa = carry(strategy, experiences), strategy.network["vqa"]
    assert found.carried["vqa"] == ids(vqa.asking)  # type: ignore[attr-defined]
    assert found.carried["vqa"] | found.new["vqa"] == ids(vqa)
    assert not found.carried["obj"] and not found.carried["cnt"]
    assert_slow_then_rising(found.steps["vqa"])


def test_an_m_vqa_that_learns_to_ask_by_itself_carries_nothing(experiences: Experiences) -> None:
    found = carry(pmn(asking="own"), experiences)
    assert not any(found.carried.values())
    assert found.steps["vqa"] == [{False: RATE}] * len(found.steps["vqa"])


@pytest.mark.parametrize(("kind", "options"), [(HardSharing, {}), (Multinet, {"passes": 1})])
def test_a_shared_network_carries_what_was_there_before_a_task(
    kind: type[HardSharing], options: dict[str, Any], experiences: Experiences
) -> None:
    model = MultinetOptions if options else HeadsOptions
    given = model.model_validate({"training": TRAINING, **options})
    strategy: Any = kind(options=given)
    found = carry(strategy, experiences)
    network = strategy.network
    assert not found.carried["obj"]  # all of it is new, the trunk too
    assert found.new["obj"] >= ids(network.trunk.regions.first) | ids(network.heads["obj"])
    assert found.carried["cnt"] == found.new["obj"]
    assert found.new["cnt"] >= ids(network.heads["cnt"]) | ids(network.trunk.readers["question"])
    assert found.carried["vqa"] == found.new["obj"] | found.new["cnt"]
    assert_slow_then_rising(found.steps["cnt"])


def test_tasks_that_are_learned_at_once_carry_nothing(experiences: Experiences) -> None:
    strategy = HardSharingJoint(options=HeadsOptions.model_validate({"training": TRAINING}))
    found = carry(strategy, experiences)
    assert not any(found.carried.values())
    assert {rate for rates in found.steps["vqa"] for rate in rates.values()} == {RATE}


def test_a_column_carries_nothing(experiences: Experiences) -> None:
    strategy = ProgressiveColumns(options=PnnOptions.model_validate({"training": TRAINING}))
    found = carry(strategy, experiences)
    assert not any(found.carried.values())
