"""The stream: one task after another, each with its data. From a checked spec to samples.

Reading a stream needs neither torch nor Avalanche; ``Stream.as_avalanche`` makes it the
benchmark that Avalanche's strategies go through.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pmn_cl import registry
from pmn_cl.config.stream import StreamSpec, TaskSpec
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.data.world import World
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.base import Task

if TYPE_CHECKING:
    from avalanche.benchmarks import CLScenario


@dataclass(frozen=True)
class StreamTask:
    """One step of the stream: a task to learn, what its module may call, and its samples."""

    task: Task
    calls: tuple[str, ...]
    fraction: float  # percent of the training samples; other splits stay whole
    splits: dict[str, Samples]


@dataclass(frozen=True)
class Stream:
    """The experiences in their order, all on one world."""

    name: str
    world: World
    store: Store
    experiences: tuple[StreamTask, ...]

    @classmethod
    def open(
        cls,
        spec: StreamSpec,
        seed: int,
        *,
        cache: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> Stream:
        """Open the world (built first where needed) and choose each task's samples.

        The seed decides which samples a fraction keeps: the same for every strategy.
        """
        world = spec.make_world()
        store = world.prepare(cache, progress)
        experiences: list[StreamTask] = []
        for item in spec.tasks:
            learned = [experience.task for experience in experiences]
            experiences.append(_experience(item, spec.fraction, seed, world, store, learned))
        return cls(spec.name, world, store, tuple(experiences))

    def as_avalanche(self, *, in_memory: bool | None = None) -> CLScenario:
        """Return the stream as an Avalanche benchmark whose experiences give TensorDicts."""
        from benchmarks.avalanche_stream import make_benchmark

        return make_benchmark(self, in_memory=in_memory)


def _experience(
    item: TaskSpec, fraction: float, seed: int, world: World, store: Store, learned: list[Task]
) -> StreamTask:
    task: Task = registry.find(item.task, registry.TASKS, "task", Task)()
    lower = [other.name for other in learned if other.level < task.level]
    usual = [name for name in task.calls if name in lower]
    splits = {
        split: Samples.whole(store, split, task)
        for split in store.splits
        if task.table_name in store.tasks(split)
    }
    for needed in ("train", "val", "test"):
        if needed not in splits:
            raise UserError(f"{store.path}: no {needed!r} samples of the task {task.name!r}")
    if item.extra is not None:
        world.check_extra(task.name, item.extra)
        more = world.extra_samples(store, task.name, item.extra)
        splits["train"] = splits["train"].adding(more)
    percent = fraction if item.fraction is None else item.fraction
    splits["train"] = splits["train"].fraction(percent, seed)
    return StreamTask(task, tuple(usual if item.calls is None else item.calls), percent, splits)
