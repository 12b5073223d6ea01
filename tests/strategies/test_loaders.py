"""Batches of a task, epoch after epoch: from wherever a training goes on."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from strategies.loaders import EpochBatches, EpochLoader, StagedBatches, task_seed

Experiences = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def batches(open_stream: Callable[..., Experiences]) -> EpochBatches:
    return EpochBatches(open_stream(["obj"])["train"]["obj"], batch_size=70, seed=2)


def rows(some: Any) -> list[list[int]]:
    """The samples of each batch."""
    return [x["sample"].tolist() for x, *_ in some]


def test_an_epoch_has_every_sample_once(batches: EpochBatches) -> None:
    first = rows(batches.epoch(0))
    assert [len(batch) for batch in first] == [70, 70, 70, 70, 20]
    assert sorted(itertools.chain(*first)) == list(range(300))
    assert rows(batches.epoch(0)) == first != rows(batches.epoch(1))


@pytest.mark.parametrize("step", [0, 3, 5, 12])
def test_from_any_step_on_the_batches_are_the_same(batches: EpochBatches, step: int) -> None:
    whole = rows(itertools.islice(batches.from_step(0), 16))
    assert rows(itertools.islice(batches.from_step(step), 16 - step)) == whole[step:]


@pytest.mark.parametrize(
    ("epochs", "done", "taken"),
    [(0, 0, 5), (1, 5, 5), (1, 7, 3), (2, 10, 2), (2, 11, 1)],  # five in an epoch, twelve in all
)
def test_an_epoch_ends_where_the_steps_do(
    batches: EpochBatches, epochs: int, done: int, taken: int
) -> None:
    clock = SimpleNamespace(train_exp_epochs=epochs, train_exp_iterations=done)
    found = rows(EpochLoader(batches, clock, steps=12))
    assert found == rows(itertools.islice(batches.from_step(done), taken))


def test_stages_follow_one_another_and_then_all_samples(batches: EpochBatches) -> None:
    """Of twelve steps, three are learned from even samples, three from the first hundred."""
    even, low = np.arange(0, 300, 2), np.arange(100)
    experience = copy.copy(batches.experience)
    experience.curriculum = ((25.0, even), (50.0, low))
    staged = StagedBatches.of(replace(batches, experience=experience), steps=12)
    found = rows(itertools.islice(staged.from_step(0), 12))
    assert all(sample % 2 == 0 for batch in found[:3] for sample in batch)
    assert all(sample < 100 for batch in found[3:6] for sample in batch)
    assert found[6:] == rows(itertools.islice(batches.from_step(0), 6))
    assert len(staged) == len(batches)  # an epoch stays as long
    for step in (2, 3, 5, 6, 9):
        assert rows(itertools.islice(staged.from_step(step), 12 - step)) == found[step:]


def test_seeds_differ_by_task_and_by_seed() -> None:
    assert len({task_seed(seed, task) for seed in (0, 1) for task in ("obj", "att")}) == 4
    assert task_seed(0, "obj") == task_seed(0, "obj")
