"""The stream: one task after another, each with its data. From a checked spec to samples.

Reading a stream needs neither torch nor Avalanche; ``Stream.as_avalanche`` makes it the
benchmark that Avalanche's strategies go through.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pmn_cl.config.names import call_lists, make_world, task_class
from pmn_cl.config.spec import PROBE, EvaluateSpec, StreamSpec, TaskSpec
from pmn_cl.data.curriculum import Curriculum, rows_of_stage
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
    curriculum: Curriculum = ()


@dataclass(frozen=True)
class Stream:
    """The tasks in their order, all on one world."""

    name: str
    world: World
    store: Store
    tasks: tuple[StreamTask, ...]

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
        world = make_world(spec.world)
        store = world.prepare(cache, progress)
        calls = call_lists(spec).values()
        tasks = tuple(
            _with_probe(_stream_task(item, called, spec.fraction, seed, world, store), spec)
            for item, called in zip(spec.tasks, calls, strict=True)
        )
        return cls(spec.name, world, store, tasks)

    @property
    def splits(self) -> list[str]:
        """Return the splits of the store, and the probe where there is one."""
        return list(dict.fromkeys([*self.store.splits, *(s for t in self.tasks for s in t.splits)]))

    def as_avalanche(self, *, in_memory: bool | None = None) -> CLScenario:
        """Return the stream as an Avalanche benchmark whose experiences give TensorDicts."""
        from benchmarks.avalanche_stream import make_benchmark

        return make_benchmark(self, in_memory=in_memory)


def _stream_task(
    item: TaskSpec, calls: list[str], fraction: float, seed: int, world: World, store: Store
) -> StreamTask:
    task = task_class(item.task)()
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
    stages = tuple((s.until, rows_of_stage(splits["train"], s)) for s in item.curriculum)
    return StreamTask(task, tuple(calls), percent, splits, stages)


def _with_probe(task: StreamTask, spec: StreamSpec) -> StreamTask:
    """Move the samples that are scored inside tasks out of the validation split."""
    if spec.evaluate_every is None:
        return task
    probe, validation = probe_of(task.splits["val"], spec.evaluate_every)
    return replace(task, splits={**task.splits, "val": validation, PROBE: probe})


def probe_of(validation: Samples, every: EvaluateSpec) -> tuple[Samples, Samples]:
    """Return the probe and what is left: the same for every seed, and kinds in their shares."""
    count = min(every.probe, len(validation) // 2)
    if count == 0:
        raise UserError(
            f"evaluate_every: the task {validation.task.name!r} has {len(validation)} validation "
            "samples, too few for a probe of its own; leave evaluate_every out"
        )
    return validation.apart(count)
