"""A training that was cut off goes on as if nothing had happened, whatever the strategy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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


def steps_of(name: str, experiences: Experiences) -> tuple[Strategy, int]:
    """Learn without a break; return how many steps there were."""
    strategy, taken = make(name, experiences), 0

    def count() -> None:
        nonlocal taken
        taken += 1

    strategy.on_step = count
    learn(strategy, experiences, TASKS)
    return strategy, taken


# What a plugin of somebody else's remembers is not known: such a run starts over.
NAMES = [name for name in registry.STRATEGIES if name not in ("constant", "plugin")]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_training_is_the_same_to_the_bit(name: str, experiences: Experiences) -> None:
    whole, steps = steps_of(name, experiences)
    # Late enough that a task came before, whose plugins remember something.
    step = int(np.random.default_rng(len(name)).integers(steps // 2, steps))
    state = cut_at(make(name, experiences), experiences, step)
    resumed = make(name, experiences)
    done = [] if resumed.at_once else TASKS[: TASKS.index(state.facts["task"])]
    resumed.restore(state, [experiences["train"][task] for task in done])
    learn(resumed, experiences, TASKS[len(done) :])
    assert resumed.digest() == whole.digest()
    assert resumed.samples_seen == whole.samples_seen
    assert resumed.details() == whole.details()
    for task in TASKS:
        assert resumed.score(experiences["val"][task]) == whole.score(experiences["val"][task])


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("joint")])
def test_a_training_resumed_between_two_tasks_is_the_same_to_the_bit(
    name: str, experiences: Experiences
) -> None:
    whole, cut = make(name, experiences), make(name, experiences)
    learn(cut, experiences, TASKS[:2])
    state = cut.state()
    assert state is not None and state.facts["task"] is None
    resumed = make(name, experiences)
    resumed.restore(
        State(load(save(state.tensors)), state.facts), [experiences["train"][t] for t in TASKS[:2]]
    )
    assert resumed.digest() == cut.digest()
    learn(resumed, experiences, TASKS[2:])
    learn(whole, experiences, TASKS)
    assert resumed.digest() == whole.digest()
    assert resumed.details() == whole.details()
