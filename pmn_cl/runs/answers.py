"""What ``pmn-bench answers`` does: completed runs answer a split, in the form that others evaluate.

VQA's evaluation server takes ``[{"question_id": 1, "answer": "yes"}, …]``, COCO's caption
evaluation ``[{"image_id": 1, "caption": "a dog"}, …]``. Several runs answer questions together, by
the mean of the probabilities that they give to each answer. Questions need no answers in the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pmn_cl.data.samples import Samples
from pmn_cl.data.store import SCENES, MappedArray, Store
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.files import write_whole
from pmn_cl.progress import ProgressCallback
from pmn_cl.runs.learned import LearnedRun
from pmn_cl.runs.worker import chosen_device
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import LossTerms
from pmn_cl.tasks.captions import CaptionTask, words_to_text

if TYPE_CHECKING:
    from torch import Tensor


QUESTIONS, CAPTIONS = "vqa", "cap"
_AT_ONCE = 4096  # samples: the probabilities of all answers for so many fit in memory


class _Asked(AnswerTask):
    """Questions alone, whether or not the store has their answers."""

    target: ClassVar[Any] = ()


class _Probabilities(_Asked):
    """The same; a prediction is the probability of every answer."""

    def __init__(self, run: LearnedRun) -> None:
        settings = getattr(run.strategy, "settings", {})  # of one that trains a network
        self._terms = settings[QUESTIONS].loss if QUESTIONS in settings else LossTerms()

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """Return them with enough digits that those near 1 stay apart."""
        return self.probabilities(outputs.double(), self._terms).cpu().numpy()


class _Described(CaptionTask):
    """Scenes alone, whether or not the store has captions of them."""

    target: ClassVar[Any] = ()
    scored: ClassVar[Any] = ()


def pieces(samples: Samples) -> Iterator[Samples]:
    """Yield samples in their order, so many at a time."""
    for start in range(0, len(samples.rows), _AT_ONCE):
        yield replace(samples, rows=samples.rows[start : start + _AT_ONCE])


def answer(
    runs: Sequence[LearnedRun], split: str, progress: ProgressCallback | None = None
) -> NDArray[np.int64]:
    """Return the number of the answer to every question of a split.

    One run answers as it does when it is scored. Of several, the answer with the highest mean
    probability is taken.
    """
    store, together = runs[0].store, len(runs) > 1
    samples, scenes = Samples.whole(store, split, _Asked()), runs[0].scenes(split)
    given: list[NDArray[Any]] = []
    for number, some in enumerate(pieces(samples), start=1):
        said = [
            run.predict(_Probabilities(run) if together else _Asked(), some, scenes) for run in runs
        ]
        for run, given_by in zip(runs, said, strict=True):
            if together and given_by.ndim != 2:
                raise UserError(
                    f"{run.result.key}: {run.result.strategy!r} gives answers without "
                    "probabilities, so that it cannot answer together with others; leave it out"
                )
        given.append(np.mean(said, axis=0).argmax(axis=1) if together else said[0])
        if progress is not None:
            progress(min(number * _AT_ONCE, len(samples)), len(samples))
    return np.concatenate(given)


def describe(
    run: LearnedRun, split: str, progress: ProgressCallback | None = None
) -> tuple[NDArray[Any], list[str]]:
    """Return every scene of a split that has captions, once, and the run's caption of it."""
    store, task = run.store, _Described()
    every, scenes = Samples.whole(store, split, task), run.scenes(split)
    _, first = np.unique(every.columns["scene"], return_index=True)
    samples = replace(every, rows=np.sort(first))
    words = store.names["caption words"]
    captions: list[str] = []
    for some in pieces(samples):
        captions += [words_to_text(row, words) for row in run.predict(task, some, scenes)]
        if progress is not None:
            progress(len(captions), len(samples))
    return samples.columns["scene"], captions


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
    opened = [LearnedRun(folder, name, device=where, cache=cache) for name in runs]
    for run in opened:
        _check(run, opened[0], task, split)
    store = opened[0].store
    if task == CAPTIONS:
        scenes, captions = describe(opened[0], split, progress)
        ids, known = image_ids(store, split, scenes)
        lines = [
            {"image_id": image, "caption": caption}
            for image, caption in zip(ids.tolist(), captions, strict=True)
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
    whose = (
        opened[0].result.key if len(opened) == 1 else f"{len(opened)} runs by mean probabilities"
    )
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
    if task not in run.tasks:
        raise UserError(f"{run.result.key}: has not learned {task!r}, only {', '.join(run.tasks)}")
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
