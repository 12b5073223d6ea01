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
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.folder import LEARNED, RESULT
from pmn_cl.results.result import Result
from pmn_cl.results.selection import find_run, kept
from pmn_cl.runs.execute import make_strategy
from pmn_cl.strategy.base import Strategy
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
    samples: Samples
    scenes: Scenes
    task_label: int

    @cached_property
    def batches(self) -> Batches:
        """Return the samples as batches."""
        from pmn_cl.data.loader import Batches

        return Batches(self.samples, self.scenes, self.task_label)


@dataclass(frozen=True)
class LearnedRun:
    """A completed run with what it learned."""

    result: Result
    store: Store
    strategy: Strategy
    places: dict[str, int]  # of the tasks in the stream
    calls: dict[str, tuple[str, ...]]

    @classmethod
    def open(
        cls,
        folder: Path,
        name: str,
        *,
        device: str = "cpu",
        cache: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> LearnedRun:
        """Find a run by its key, the beginning of it, or a strategy and a seed, and load it."""
        import torch

        from pmn_cl.data.loader import Scenes

        result = find_run(folder, name)
        place = folder / result.key
        if not kept(folder, result):
            raise UserError(
                f"{place}: has no folder {LEARNED!r}, expected what the run learned: move the run "
                "away, and `pmn-bench run` makes it again and keeps it"
            )
        spec = runnable(place / RESULT, result)
        torch.set_num_threads(spec.stream.threads)
        stream = Stream.open(spec.stream, spec.seed, cache=cache, progress=progress)
        if stream.store.digest != result.data:
            raise UserError(
                f"{place}: learned from data {result.data[:12]}, but the world is now "
                f"{stream.store.digest[:12]}; prepare it as it was then, or run the stream again"
            )
        scenes = Scenes(stream.store, "train")
        experiences: list[Any] = [
            PlainExperience(e.task, e.calls, e.splits["train"], scenes, label)
            for label, e in enumerate(stream.tasks)
        ]
        strategy = make_strategy(spec, experiences, device=device)
        strategy.load(place / LEARNED, experiences)
        return cls(
            result,
            stream.store,
            strategy,
            {experience.task.name: experience.task_label for experience in experiences},
            {experience.task.name: experience.calls for experience in experiences},
        )

    def predict(self, task: Task, samples: Samples, scenes: Scenes) -> NDArray[Any]:
        """Return the run's predictions for some samples."""
        experience: Any = PlainExperience(
            task, self.calls[task.name], samples, scenes, self.places[task.name]
        )
        return self.strategy.predict(experience)
