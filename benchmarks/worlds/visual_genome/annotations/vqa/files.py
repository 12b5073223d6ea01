"""VQA 2.0's questions, and what the official evaluation gives each answer to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.records import image_of, whole_number
from benchmarks.worlds.visual_genome.annotations.tally import Tally
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.metrics import vqa_accuracy
from pmn_cl.tasks.text import normalise_answer, strip_answer

ANSWER_TYPES = ("yes/no", "number", "other")


class Truth(NamedTuple):
    """What people answered."""

    scores: tuple[tuple[str, float], ...]  # of each answer that someone gave, as it is compared
    as_written: bool  # all agree: answers are compared without being normalised
    usual: str  # the commonest answer, normalised
    kind: int  # of ``ANSWER_TYPES``


class PublishedQuestion(NamedTuple):
    """A question about an image; without truth where none is published."""

    id: int
    image: int
    text: str
    truth: Truth | None = None


def read_questions(
    path: Path, subset: str, tally: Tally, progress: ProgressCallback
) -> dict[int, PublishedQuestion]:
    """Read the questions of train2014, val2014 or test2015, by their ids."""
    found: dict[int, PublishedQuestion] = {}
    others: dict[str, Any] = {}
    damaged = f"damaged records in {path.name}: left out"
    for record in records(path, "questions", progress=progress, others=others):
        number = whole_number(record.get("question_id")) if isinstance(record, dict) else None
        image, text = image_of(record), record.get("question") if number is not None else None
        if number is None or image is None or not isinstance(text, str):
            tally.note(damaged, "" if number is None else number)
        elif number in found:
            tally.note(f"questions twice in {path.name}: the first counts", number)
        else:
            found[number] = PublishedQuestion(number, image, text)
    _check_subset(path, others, subset)
    if not found:
        raise UserError(f"{path}: no question with question_id, image_id and question")
    return found


def read_answered(
    path: Path,
    questions: dict[int, PublishedQuestion],
    subset: str,
    tally: Tally,
    progress: ProgressCallback,
) -> list[PublishedQuestion]:
    """Return the questions with the truth that an annotation file has for them."""
    found: dict[int, PublishedQuestion] = {}
    others: dict[str, Any] = {}
    strangers = 0
    damaged = f"damaged records in {path.name}: left out"
    for record in records(path, "annotations", progress=progress, others=others):
        number = whole_number(record.get("question_id")) if isinstance(record, dict) else None
        given = _answers(record) if number is not None else []
        if number is None or not given:
            tally.note(damaged, "" if number is None else number)
        elif number not in questions:
            strangers += 1
            tally.note(f"annotations in {path.name} of no question: left out", number)
        elif image_of(record) not in (None, questions[number].image):
            tally.note(f"annotations in {path.name} of another image: left out", number)
        elif number in found:
            tally.note(f"annotations twice in {path.name}: the first counts", number)
        else:
            truth = truth_of(given, record.get("multiple_choice_answer"), record.get("answer_type"))
            found[number] = questions[number]._replace(truth=truth)
    _check_subset(path, others, subset)
    unanswered = questions.keys() - found.keys()
    if not found:
        raise UserError(
            f"{path}: none of its {strangers:,} question ids is one of the {len(questions):,} "
            "questions; do both files belong to the same part of VQA 2.0?"
        )
    for number in sorted(unanswered):
        tally.note(f"questions without an annotation in {path.name}: left out", number)
    return list(found.values())


def _answers(record: dict[str, Any]) -> list[str]:
    answers = record.get("answers")
    if not isinstance(answers, list):
        return []
    given = [item.get("answer") if isinstance(item, dict) else item for item in answers]
    return [answer for answer in given if isinstance(answer, str)]


def _check_subset(path: Path, others: dict[str, Any], subset: str) -> None:
    """Refuse a file about other images than its name."""
    found = others.get("data_subtype")
    if isinstance(found, str) and found != subset and not found.startswith("test"):
        raise UserError(f"{path}: its data_subtype is {found!r:.40}, expected {subset!r}")


def truth_of(answers: Sequence[str], usual: object = None, kind: object = None) -> Truth:
    """Return what the official evaluation would give for each of the answers that people gave."""
    stripped = [strip_answer(answer) for answer in answers]
    as_written = len(set(stripped)) == 1
    counts = Counter(stripped if as_written else map(_normalised, stripped))
    scores = tuple((answer, _score(count, len(stripped))) for answer, count in counts.items())
    if not isinstance(usual, str):
        usual = counts.most_common(1)[0][0]
    named = ANSWER_TYPES.index(kind) if kind in ANSWER_TYPES else len(ANSWER_TYPES) - 1
    return Truth(scores, as_written, _normalised(usual), named)


@lru_cache(maxsize=1 << 16)
def _normalised(answer: str) -> str:
    """Normalise an answer; most of them come again and again."""
    return normalise_answer(answer)


@lru_cache
def _score(same: int, all_given: int) -> float:
    """Return the score of an answer that so many of all annotators gave."""
    return vqa_accuracy("x", ["x"] * same + ["y"] * (all_given - same))


class Answers:
    """The answers that can be given: those that are the commonest of enough questions."""

    def __init__(self, truths: Sequence[Truth], at_least: int) -> None:
        counts = Counter(truth.usual for truth in truths if truth.usual)
        often = [(answer, count) for answer, count in counts.items() if count >= at_least]
        self.names = [answer for answer, _ in sorted(often, key=lambda pair: (-pair[1], pair[0]))]
        if not self.names:
            raise UserError(
                f"no answer is the commonest of at least {at_least} training questions; "
                "let --min-answers be smaller"
            )
        self._as_written = {name: number for number, name in enumerate(self.names)}
        # The evaluation normalises what it is given, too: two names may count as one answer.
        self._normalised: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            self._normalised.setdefault(normalise_answer(name), []).append(number)

    def __len__(self) -> int:
        return len(self.names)

    def targets(self, truth: Truth) -> list[tuple[int, float]]:
        """Return every answer that the official evaluation gives something, with how much."""
        found: list[tuple[int, float]] = []
        for answer, score in truth.scores:
            if truth.as_written:
                number = self._as_written.get(answer)
                found += [] if number is None else [(number, score)]
            else:
                found += [(number, score) for number in self._normalised.get(answer, ())]
        return sorted(((n, s) for n, s in found if s > 0), key=lambda pair: (-pair[1], pair[0]))
