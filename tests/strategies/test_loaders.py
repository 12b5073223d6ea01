"""Batches of a task, epoch after epoch: from wherever a training goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from strategies.loaders import EpochBatches, EpochLoader, task_seed

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


def test_seeds_differ_by_task_and_by_seed() -> None:
    assert len({task_seed(seed, task) for seed in (0, 1) for task in ("obj", "att")}) == 4
    assert task_seed(0, "obj") == task_seed(0, "obj")
