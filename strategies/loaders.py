"""The batches that a task is learned from, and the seeds that decide their order."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from tensordict import LazyStackedTensorDict
from torch import Tensor

from pmn_cl.data.loader import BatchLoader
from pmn_cl.data.samples import Rows
from pmn_cl.strategy.base import Experience


@dataclass(frozen=True)
class EpochBatches:
    """The samples of a task in batches, epoch after epoch; seed, task and epoch decide the order.

    The task counts by its name: where it stands in the stream changes nothing.
    """

    experience: Experience
    batch_size: int
    seed: int
    by_scene: bool = False
    rows: Rows | None = None  # of its samples; None: all

    def epoch(self, number: int, start: int = 0) -> BatchLoader:
        """Return the batches of an epoch, from 0, or those from one of them on."""
        seed = task_seed(self.seed, self.experience.task.name)
        return BatchLoader(
            self.experience.batches,
            self.batch_size,
            seed=seed,
            epoch=number,
            start=start,
            by_scene=self.by_scene,
            rows=self.rows,
        )

    @cached_property
    def _count(self) -> int:
        return len(self.epoch(0))

    def __len__(self) -> int:
        return self._count

    def from_step(self, step: int) -> Iterator[list[Any]]:
        """Yield batches without end, from a step on: where it starts costs nothing."""
        first, start = divmod(step, len(self))
        for number in itertools.count(first):
            yield from labelled(self.epoch(number, start))
            start = 0


@dataclass(frozen=True)
class StagedBatches:
    """The batches of a task with a curriculum: from a step on, the next stage's."""

    whole: EpochBatches  # after the last stage; an epoch is as long as this has it
    stages: tuple[tuple[int, EpochBatches], ...]  # each with the step at which it ends

    @classmethod
    def of(cls, whole: EpochBatches, steps: int) -> StagedBatches:
        """Return the stages of an experience that is learned in so many steps."""
        stages = [
            (round(steps * until / 100), replace(whole, rows=rows))
            for until, rows in whole.experience.curriculum
        ]
        return cls(whole, tuple(stages))

    @property
    def experience(self) -> Experience:
        """Return what the batches are of."""
        return self.whole.experience

    def __len__(self) -> int:
        return len(self.whole)

    def from_step(self, step: int) -> Iterator[list[Any]]:
        """Yield batches without end, from a step on."""
        begin = 0
        for end, batches in self.stages:
            if step < end:
                yield from itertools.islice(batches.from_step(step - begin), end - step)
                step = end
            begin = max(begin, end)
        yield from self.whole.from_step(step - begin)


@dataclass(frozen=True)
class EpochLoader:
    """The batches of the epoch that Avalanche's clock shows; the last may be cut short."""

    batches: EpochBatches | StagedBatches
    clock: Any
    steps: int  # of the whole task

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[Any]]:
        end = min(self.steps, (self.clock.train_exp_epochs + 1) * len(self))
        done = self.clock.train_exp_iterations  # more than the epochs have, where a run was cut
        return itertools.islice(self.batches.from_step(done), end - done)


def labelled(loader: BatchLoader) -> Iterator[list[Any]]:
    """Yield batches with their task labels, as Avalanche's loaders do."""
    for x, y in loader:
        yield [x, y, y["task"]]


def task_seed(seed: int, task: str) -> int:
    """Return a seed of its own for a task."""
    name = zlib.crc32(task.encode())
    return int(np.random.SeedSequence([seed, name]).generate_state(1)[0])


def mixes_tasks(x: Any) -> bool:
    """Whether the samples of a batch are of several tasks, whose columns may be alike or not.

    Only loaders of Avalanche's mix, whose samples bring their targets along.
    """
    if isinstance(x, LazyStackedTensorDict):
        return True
    return "y" in x and bool((x["y", "task"] != x["y", "task"][0]).any())


def rows_of(y: Any, rows: Tensor) -> Any:
    """Return samples of one task out of a batch that mixes several."""
    return LazyStackedTensorDict.maybe_dense_stack([y[int(row)] for row in rows])
