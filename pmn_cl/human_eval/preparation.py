"""From two models that explain their answers to a round, and a folder of pages for its judges."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pmn_cl.claims.evidence import Group
from pmn_cl.errors import UserError
from pmn_cl.explaining.records.explanation import ATTEND, CAPTION, RELATION, Explanation
from pmn_cl.explaining.records.sentence import call_of, named, place_of
from pmn_cl.files import storing
from pmn_cl.human_eval.pages import page_of, picture_uri
from pmn_cl.human_eval.rounds import (
    GradedQuestion,
    Round,
    ShownExplanation,
    assign,
    counted,
    draw,
    groups_of,
    sheets_of,
)
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.result import Result
from pmn_cl.results.selection import BASELINE, baseline_of, find_run, usual_run

_AT_ONCE = 100  # questions explained between two reports of progress


class Explains(Protocol):
    """What a model must offer: ``pmn_cl.explaining.explainer.Explainer`` does."""

    def answers(self, split: str) -> tuple[list[str], NDArray[np.bool_]]:
        """Return the answers to all questions of a split, and whether they are right."""

    def explain(self, ids: Sequence[int], split: str) -> list[Explanation]:
        """Explain questions by their rows in the split's table."""

    def picture(self, split: str, scene: int) -> NDArray[np.uint8]:
        """Return what people see of a scene (H, W, 3)."""


@dataclass(frozen=True)
class RoundPlan:
    """What a round is to be like."""

    folder: Path  # of the results
    pmn: str  # keys of the two runs
    baseline: str
    split: str = "test"
    questions: int = 1600
    judges: int = 3
    per_question: int = 3  # or all, where there are fewer
    stratify: bool = False
    seed: int = 0


def runs_to_judge(folder: Path, pmn: str | None, baseline: str | None) -> tuple[Result, Result]:
    """Return the two runs of a folder that are meant; those that are not named are the usual."""
    ours = usual_run(folder) if pmn is None else find_run(folder, pmn)
    theirs = baseline_of(folder, ours) if baseline is None else find_run(folder, baseline)
    if theirs is None:
        raise UserError(
            f"{folder}: no completed run of {BASELINE!r} with the seed, data and training of "
            f"{ours.key} that kept what it learned; run it, or name another by --baseline"
        )
    if theirs.key == ours.key or theirs.data != ours.data:
        what = "the same run" if theirs.key == ours.key else "another world"
        raise UserError(
            f"--baseline {theirs.key}: is {what}; expected another run on the same data"
        )
    return ours, theirs


def who_is_right(pmn: Explains, baseline: Explains, split: str) -> list[Group]:
    """Have both models answer all questions of a split."""
    (_, ours), (_, theirs) = pmn.answers(split), baseline.answers(split)
    return groups_of(ours.tolist(), theirs.tolist())


def make_round(
    plan: RoundPlan,
    groups: Sequence[Group],
    pmn: Explains,
    baseline: Explains,
    progress: ProgressCallback,
) -> Round:
    """Draw the questions, have both models explain them, and share them out to the judges.

    ``groups`` has for every question who was right.
    """
    # A stream of its own for each choice: another number of judges keeps the questions.
    drawing, sharing = (np.random.default_rng([plan.seed, stage]) for stage in (0, 1))
    rows = draw(groups, plan.questions, stratify=plan.stratify, rng=drawing)
    total, explained = 2 * len(rows), []
    for number, model in enumerate((pmn, baseline)):
        explanations: list[Explanation] = []
        for first in range(0, len(rows), _AT_ONCE):
            explanations += model.explain(rows[first : first + _AT_ONCE], plan.split)
            progress(number * len(rows) + len(explanations), total)
        explained.append(explanations)
    questions = [
        GradedQuestion(
            id=f"q{number:04d}",
            row=row,
            scene=ours.scene,
            text=ours.question,
            group=groups[row],
            pmn=as_shown(ours),
            baseline=as_shown(theirs),
        )
        for number, (row, ours, theirs) in enumerate(zip(rows, *explained, strict=True), start=1)
    ]
    for_each = min(plan.per_question, plan.judges)
    given = assign([q.group for q in questions], plan.judges, for_each, sharing)
    return Round(
        folder=str(plan.folder.resolve()),
        split=plan.split,
        pmn=plan.pmn,
        baseline=plan.baseline,
        seed=plan.seed,
        stratified=plan.stratify,
        population=counted(groups),
        questions=questions,
        sheets=sheets_of([q.id for q in questions], given, plan.judges, sharing),
    )


def as_shown(explanation: Explanation) -> ShownExplanation:
    """Return an explanation as judges see it: nothing that tells the model by its name."""
    return ShownExplanation(
        sentence=explanation.sentence,
        answer=explanation.answer,
        boxes=[(number, explanation.boxes[number]) for number in named_boxes(explanation)],
    )


def named_boxes(explanation: Explanation) -> list[int]:
    """Return the boxes that the sentence names, in its order."""
    boxes: list[int] = []
    seen: int | None = None  # the box named last, which may be "it" then
    for part in named(explanation):
        step = explanation.steps[part.step - 1]
        if part.callee == RELATION:
            call = call_of(explanation, RELATION, part.step)
            if call is not None and call.query.boxes and call.query.chances:
                boxes += place_of(explanation, call.query.boxes).boxes
        if part.callee in ("cnt", CAPTION):  # which speak of the whole scene
            continue
        looked = part.callee in (ATTEND, RELATION)
        place = place_of(explanation, step.maps[part.callee] if looked else step.attended)
        if looked or place.boxes[0] != seen:
            boxes += place.boxes
        seen = place.boxes[0]
    return list(dict.fromkeys(boxes))


def write_folder(key: Round, out: Path, model: Explains, progress: ProgressCallback) -> list[Path]:
    """Write the key and a page for each judge into a new folder, all or none; return the pages."""
    scenes = sorted({question.scene for question in key.questions})
    pictures = {}
    for done, scene in enumerate(scenes, start=1):
        pictures[scene] = picture_uri(model.picture(key.split, scene))
        progress(done, len(scenes))
    pages = {f"judge-{sheet.judge}.html": page_of(key, sheet, pictures) for sheet in key.sheets}
    with storing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as place:
            whole = Path(place) / "whole"
            whole.mkdir()
            for name, page in pages.items():
                (whole / name).write_text(page, "utf-8")
            key.write(whole)
            os.rename(whole, out)  # an empty folder may be there
    return [out / name for name in pages]


def refuse_what_is_there(out: Path) -> None:
    """Refuse a folder with anything in it: judges may have pages of its round in their hands."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out}: is there already, expected a new or empty folder")


def size_of(paths: Iterable[Path]) -> float:
    """Return the largest file's size in MB."""
    return max(path.stat().st_size for path in paths) / 1e6
