"""What ``pmn-bench answers`` does: completed runs answer a split, in the form that others evaluate.

VQA's evaluation server takes ``[{"question_id": 1, "answer": "yes"}, …]``, COCO's caption
evaluation ``[{"image_id": 1, "caption": "a dog"}, …]``. Several runs answer questions together, by
the mean of the chances that they give to each answer. Questions need no answers in the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.stream import Stream
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import SCENES, MappedArray, Store
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.files import write_whole
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.folder import LEARNED, RESULT
from pmn_cl.results.result import Result
from pmn_cl.results.selection import find_run, kept
from pmn_cl.runs.execute import make_strategy
from pmn_cl.runs.verify import run_of
from pmn_cl.runs.worker import chosen_device
from pmn_cl.strategy.base import Strategy
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.captions import CaptionTask, words_to_text

if TYPE_CHECKING:
    from torch import Tensor

    from pmn_cl.data.loader import Batches, Scenes

QUESTIONS, CAPTIONS = "vqa", "cap"
_AT_ONCE = 4096  # samples: the chances of all answers for so many fit in memory


class _Asked(AnswerTask):
    """Questions alone, whether or not the store has their answers."""

    target: ClassVar[Any] = ()


class _Chances(_Asked):
    """The same; a prediction is the chance of every answer."""

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """Return σ of the outputs, with enough digits that those near 1 stay apart."""
        return np.asarray(outputs.double().sigmoid().cpu().numpy())


class _Described(CaptionTask):
    """Scenes alone, whether or not the store has captions of them."""

    target: ClassVar[Any] = ()
    scored: ClassVar[Any] = ()


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
        spec = run_of(place / RESULT, result)
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
            for label, e in enumerate(stream.experiences)
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


def pieces(samples: Samples) -> Iterator[Samples]:
    """Yield samples in their order, so many at a time."""
    for start in range(0, len(samples.rows), _AT_ONCE):
        yield replace(samples, rows=samples.rows[start : start + _AT_ONCE])


def answer(
    runs: Sequence[LearnedRun], split: str, progress: ProgressCallback | None = None
) -> NDArray[np.int64]:
    """Return the number of the answer to every question of a split.

    One run answers as it does when it is scored. Of several, the answer with the highest mean
    chance is taken.
    """
    from pmn_cl.data.loader import Scenes

    store, together = runs[0].store, len(runs) > 1
    task = _Chances() if together else _Asked()
    samples, scenes = Samples.whole(store, split, task), Scenes(store, split)
    given: list[NDArray[Any]] = []
    for number, some in enumerate(pieces(samples), start=1):
        said = [run.predict(task, some, scenes) for run in runs]
        for run, chances in zip(runs, said, strict=True):
            if together and chances.ndim != 2:
                raise UserError(
                    f"{run.result.key}: {run.result.strategy!r} gives answers but no chances, so "
                    "that it cannot answer together with others; leave it out"
                )
        given.append(np.mean(said, axis=0).argmax(axis=1) if together else said[0])
        if progress is not None:
            progress(min(number * _AT_ONCE, len(samples)), len(samples))
    return np.concatenate(given)


def describe(
    run: LearnedRun, split: str, progress: ProgressCallback | None = None
) -> tuple[NDArray[Any], list[str]]:
    """Return every scene of a split that has captions, once, and the run's caption of it."""
    from pmn_cl.data.loader import Scenes

    store, task = run.store, _Described()
    every, scenes = Samples.whole(store, split, task), Scenes(store, split)
    _, first = np.unique(every.columns["scene"], return_index=True)
    samples = replace(every, rows=np.sort(first))
    words = store.names["caption words"]
    told: list[str] = []
    for some in pieces(samples):
        told += [words_to_text(row, words) for row in run.predict(task, some, scenes)]
        if progress is not None:
            progress(len(told), len(samples))
    return samples.columns["scene"], told


def question_ids(store: Store, split: str) -> tuple[NDArray[np.int64], bool]:
    """Return the questions' published ids, and whether there are any; else their rows."""
    return _ids(store.table(split, QUESTIONS).get("question_id"), store, split)


def _ids(column: MappedArray | None, store: Store, split: str) -> tuple[NDArray[np.int64], bool]:
    if column is None:
        return np.arange(len(store.table(split, QUESTIONS)["scene"])), False
    found = column.load().astype(np.int64)
    known, counts = np.unique(found, return_counts=True)
    if len(known) < len(found):
        raise UserError(
            f"{store.path.parent}: the question {known[counts.argmax()]} is {counts.max()} times "
            f"in {split!r}, expected every question once; prepare it again"
        )
    return found, True


def image_ids(store: Store, split: str, scenes: NDArray[Any]) -> tuple[NDArray[np.int64], bool]:
    """Return the published ids of scenes' images, and whether there are any; else their numbers."""
    images = store.table(split, SCENES).get("image")
    if images is None or len(images.shape) != 1:  # the digit world has pictures of digits there
        return scenes.astype(np.int64), False
    return images.array[scenes].astype(np.int64), True


def answers_command(
    folder: Path,
    *,
    runs: Sequence[str],
    split: str,
    task: str,
    out: Path,
    device: str,
    cache: Path | None,
    console: Console,
    progress: ProgressCallback | None,
) -> int:
    """Write the file of a split's answers or captions; return the exit code."""
    if not out.parent.is_dir():  # before any waiting
        raise UserError(f"{out}: there is no folder {out.parent} to write it to")
    if task == CAPTIONS and len(runs) > 1:
        raise UserError(
            f"--run is given {len(runs)} times, but captions are those of one run; only questions "
            "are answered together"
        )
    where = chosen_device(device)
    opened = [LearnedRun.open(folder, name, device=where, cache=cache) for name in runs]
    for run in opened:
        _check(run, opened[0], task, split)
    store = opened[0].store
    if task == CAPTIONS:
        scenes, told = describe(opened[0], split, progress)
        ids, known = image_ids(store, split, scenes)
        lines = [
            {"image_id": image, "caption": caption}
            for image, caption in zip(ids.tolist(), told, strict=True)
        ]
    else:
        numbers = answer(opened, split, progress)
        ids, known = question_ids(store, split)
        names = store.names["answers"]
        lines = [
            {"question_id": question, "answer": names[number]}
            for question, number in zip(ids.tolist(), numbers.tolist(), strict=True)
        ]
    write_whole(out, json.dumps(lines))
    what = "captions" if task == CAPTIONS else "answers"
    whose = opened[0].result.key if len(opened) == 1 else f"{len(opened)} runs by mean chances"
    console.print(f"wrote {out}: {len(lines):,} {what} to {split} of {whose}", soft_wrap=True)
    if not known:
        console.print("this world has no published ids: they are the numbers of its rows")
    if task == QUESTIONS and split in store.splits:
        columns = Samples.whole(store, split, AnswerTask()).columns
        scores = AnswerTask().score(numbers, columns, store.names)
        console.print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    return 0


def _check(run: LearnedRun, first: LearnedRun, task: str, split: str) -> None:
    """Refuse what a run has not learned, a split that has no samples, and runs that differ."""
    if task not in run.places:
        raise UserError(f"{run.result.key}: has not learned {task!r}, only {', '.join(run.places)}")
    if run.store.digest != first.store.digest:
        raise UserError(
            f"{run.result.key}: learned from other data than {first.result.key}; only runs on the "
            "same data answer together"
        )
    splits = [s for s in (*run.store.splits, "server") if task in run.store.tasks(s)]
    if split not in splits:
        raise UserError(
            f"--split {split}: no samples of {task!r}, expected one of {', '.join(splits)}"
            f"{did_you_mean(split, splits)}"
        )
