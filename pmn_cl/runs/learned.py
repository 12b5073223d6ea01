"""From a record back to its run: to run it again, or to use what it has learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from pydantic import ValidationError

from benchmarks.stream import Stream
from pmn_cl.config.names import make_world, options_of, task_class
from pmn_cl.config.spec import RunSpec
from pmn_cl.data.curriculum import Curriculum
from pmn_cl.data.samples import Samples
from pmn_cl.data.world import World
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.folder import LEARNED, RESULT
from pmn_cl.results.result import Result
from pmn_cl.results.selection import find_run, kept
from pmn_cl.runs.execute import make_strategy
from pmn_cl.tasks.base import Task

if TYPE_CHECKING:
    from pmn_cl.data.loader import Batches, Scenes


def runnable(path: Path, result: Result) -> RunSpec:
    """Return the run that a result is the record of; refuse what cannot be run from here."""
    if result.status != "completed":
        raise UserError(
            f"{path}: the run is {result.status}, and only a completed one can be run again; "
            "`pmn-bench run` goes on with it"
        )
    if result.incomplete is not None:
        raise UserError(
            f"{path}: cannot be run again: the record lacks {result.incomplete}; run its stream"
        )
    run = result.run
    try:
        make_world(run.stream.world)
        for task in run.stream.tasks:
            task_class(task.task)
        options_of(run.strategy)
    except UserError as error:
        raise UserError(
            f"{path}: {error}; code of your own is found in the working directory, or where "
            "PYTHONPATH says"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: cannot be run again: {where}: {first['msg']}; it was changed, or made by "
            "code with other options"
        ) from None
    return run


@dataclass(eq=False)
class PlainExperience:
    """A task with samples, whose columns are read when batches are asked for, and not before."""

    task: Task
    calls: tuple[str, ...]
    world: World
    samples: Samples
    scenes: Scenes
    task_label: int
    curriculum: Curriculum = ()  # nothing is learned from it

    @cached_property
    def batches(self) -> Batches:
        """Return the samples as batches."""
        from pmn_cl.data.loader import Batches

        return Batches(self.samples, self.scenes, self.task_label)


class LearnedRun:
    """A completed run with what it learned.

    ``name`` is a key or its unique beginning, or a strategy and a seed ("pmn 0"). The world is
    built first where it is not in the cache.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        device: str = "cpu",
        cache: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        import torch

        self.result = find_run(folder, name)
        place = folder / self.result.key
        if not kept(folder, self.result):
            raise UserError(
                f"{place}: has no folder {LEARNED!r}, expected what the run learned: move the run "
                "away, and `pmn-bench run` makes it again and keeps it"
            )
        run = runnable(place / RESULT, self.result)
        torch.set_num_threads(run.stream.threads)
        # Without a probe: what is asked now is any question of a split, by its place in the store.
        whole = run.stream.model_copy(update={"evaluate_every": None})
        self.stream = Stream.open(whole, run.seed, cache=cache, progress=progress)
        self.store = self.stream.store
        if self.store.digest != self.result.data:
            raise UserError(
                f"{place}: learned from data {self.result.data[:12]}, but the world is now "
                f"{self.store.digest[:12]}; prepare it as it was then, or run the stream again"
            )
        self._scenes: dict[str, Scenes] = {}
        training: list[Any] = [
            self.experience(task.task.name, "train") for task in self.stream.tasks
        ]
        self.strategy = make_strategy(run, training, device=device)
        self.strategy.load(place / LEARNED, training)

    @property
    def tasks(self) -> list[str]:
        """Return the tasks that it has learned."""
        return [task.task.name for task in self.stream.tasks]

    def scenes(self, split: str) -> Scenes:
        """Return the scenes of a split, opened once."""
        from pmn_cl.data.loader import Scenes

        if split not in self._scenes:
            self._scenes[split] = Scenes(self.store, split)
        return self._scenes[split]

    def experience(self, task: str, split: str) -> PlainExperience:
        """Return a task of the stream with the samples of a split."""
        label = self.tasks.index(task)
        of = self.stream.tasks[label]
        samples, scenes = of.splits[split], self.scenes(split)
        return PlainExperience(of.task, of.calls, self.stream.world, samples, scenes, label)

    def predict(self, task: Task, samples: Samples, scenes: Scenes) -> NDArray[Any]:
        """Return the predictions for some samples of a task that is like one it has learned."""
        label = self.tasks.index(task.name)
        calls = self.stream.tasks[label].calls
        world = self.stream.world
        experience: Any = PlainExperience(task, calls, world, samples, scenes, label)
        return self.strategy.predict(experience)
