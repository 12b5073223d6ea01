"""A training that was cut off goes on as if nothing had happened, whatever the strategy."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.torch import load, save

from pmn_cl import registry
from pmn_cl.strategy.base import State, Strategy

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "cnt"]
BUDGET = 4.0  # percent


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


def make(name: str, experiences: Experiences) -> Strategy:
    kind: type[Strategy] = registry.load(registry.STRATEGIES[name])
    strategy = kind(seed=3, budget=BUDGET)
    strategy.expect([experiences["train"][task] for task in TASKS])
    return strategy


class CutOffError(Exception):
    """The power fails."""


def learn(strategy: Strategy, experiences: Experiences, tasks: list[str]) -> None:
    train, val = ([experiences[split][task] for task in tasks] for split in ("train", "val"))
    if strategy.at_once:
        strategy.learn_all(train, val)
    else:
        for experience, validation in zip(train, val, strict=True):
            strategy.learn(experience, validation)


def cut_at(strategy: Strategy, experiences: Experiences, step: int) -> State:
    """Learn so many steps in all, and return the state of that moment."""
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1
        if taken == step:
            raise CutOffError

    strategy.on_step = count
    with pytest.raises(CutOffError):
        learn(strategy, experiences, TASKS)
    found = strategy.state()
    assert found is not None
    return State(load(save(found.tensors)), json.loads(json.dumps(found.facts)))  # as from a file


class Whole(NamedTuple):
    """A training without a break."""

    strategy: Strategy
    steps: list[int]  # that were taken when each task was learned, or all at once


@pytest.fixture(scope="module")
def whole_of(experiences: Experiences) -> Callable[[str], Whole]:
    """Learn with a strategy without a break, once for all tests."""

    @functools.cache
    def learned(name: str) -> Whole:
        strategy, taken, steps = make(name, experiences), [], []
        strategy.on_step = lambda: taken.append(1)
        for tasks in [TASKS] if strategy.at_once else [[task] for task in TASKS]:
            learn(strategy, experiences, tasks)
            steps.append(len(taken))
        return Whole(strategy, steps)

    return learned


# What a plugin of somebody else's remembers is not known: such a run starts over.
NAMES = [name for name in registry.STRATEGIES if name not in ("constant", "plugin")]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_training_is_the_same_to_the_bit(
    name: str, experiences: Experiences, whole_of: Callable[[str], Whole]
) -> None:
    whole, steps = whole_of(name)
    # In the second task: plugins remember the first, and what they learn of this one is used.
    begun, done = (steps[0] // 2, steps[0]) if whole.at_once else steps[:2]
    step = int(np.random.default_rng(len(name)).integers(begun + 1, done))
    state = cut_at(make(name, experiences), experiences, step)
    resumed = make(name, experiences)
    before = [] if resumed.at_once else TASKS[:1]
    assert state.facts["task"] == "att" or resumed.at_once
    resumed.restore(state, [experiences["train"][task] for task in before])
    learn(resumed, experiences, TASKS[len(before) :])
    assert resumed.digest() == whole.digest()
    assert resumed.samples_seen == whole.samples_seen
    assert resumed.details() == whole.details()
    for task in TASKS:
        assert resumed.score(experiences["val"][task]) == whole.score(experiences["val"][task])


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("joint")])
def test_a_training_resumed_between_two_tasks_is_the_same_to_the_bit(
    name: str, experiences: Experiences, whole_of: Callable[[str], Whole]
) -> None:
    whole, cut = whole_of(name).strategy, make(name, experiences)
    learn(cut, experiences, TASKS[:2])
    state = cut.state()
    assert state is not None and state.facts["task"] is None
    resumed = make(name, experiences)
    resumed.restore(
        State(load(save(state.tensors)), state.facts), [experiences["train"][t] for t in TASKS[:2]]
    )
    assert resumed.digest() == cut.digest()
    learn(resumed, experiences, TASKS[2:])
    assert resumed.digest() == whole.digest()
    assert resumed.details() == whole.details()
