"""Questions as the rows of tables: words, counts and answers become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.genome.synthetic import Synthetic
from benchmarks.worlds.visual_genome.annotations.tally import Tally
from benchmarks.worlds.visual_genome.annotations.vocabularies import Words
from benchmarks.worlds.visual_genome.annotations.vqa.files import (
    ANSWER_TYPES,
    Answers,
    PublishedQuestion,
    Truth,
)
from pmn_cl.tasks.counts import UNKNOWN
from pmn_cl.tasks.text import normalise_answer, tokenize_caption

MOST_COUNTED = 12
COUNT_KINDS = ("natural", "plain", "relational")  # people's, then what is made of annotations
NATURAL, PLAIN, RELATIONAL = range(3)
_OTHER = ANSWER_TYPES.index("other")
_NO_KIND = 255  # of answers that are not published
_TARGETS = 10  # answers with a score: as many as people were asked

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Sample:
    """A question about a scene, as words."""

    scene: int
    words: list[str]
    truth: Truth | None  # None where it is not published
    id: int = -1
    image: int = -1  # COCO's id
    kind: int = NATURAL
    boxes: NDArray[np.bool_] | None = None  # b of the query [b, r]; None where it is not known
    relation: int = -1
    direction: int = -1

    @property
    def counts(self) -> bool:
        """Whether it asks how many, and there is something to learn from it."""
        learnable = self.truth is not None or self.boxes is not None
        return self.words[:2] == ["how", "many"] and learnable

    @property
    def count(self) -> int | None:
        """Return how many, where the answer is a whole number; UNKNOWN where that is not known."""
        if self.truth is None:
            return UNKNOWN
        usual = self.truth.usual
        return int(usual) if usual.isascii() and usual.isdecimal() and len(usual) < 10 else None

    @property
    def countable(self) -> bool:
        """Whether it can be a sample of cnt."""
        return self.counts and self.count is not None and self.count <= MOST_COUNTED


def natural(question: PublishedQuestion, scene: int) -> Sample:
    """Return a question that someone asked."""
    words = tokenize_caption(question.text)
    return Sample(scene, words, question.truth, question.id, question.image)


def synthetic(made: Synthetic, kind: int = NATURAL) -> Sample:
    """Return a question that was made; its answer, where it has one, is surely right."""
    truth = None
    if made.answer is not None:
        answer = normalise_answer(made.answer)
        truth = Truth(((answer, 1.0),), as_written=False, usual=answer, kind=_OTHER)
    return Sample(
        made.scene,
        tokenize_caption(made.question),
        truth,
        kind=kind,
        boxes=made.boxes,
        relation=made.relation,
        direction=made.direction,
    )


class Numbering:
    """Turns questions into the rows of tables."""

    def __init__(
        self, words: Words, answers: Answers, regions: int, longest: int, tally: Tally
    ) -> None:
        self._words, self._answers = words, answers
        self._regions, self._longest, self._tally = regions, longest, tally

    def counts(self, samples: Sequence[Sample]) -> Columns:
        """Return the questions that ask how many, with numbers up to twelve for answers."""
        asked = [sample for sample in samples if sample.counts]
        for sample in asked:
            if not sample.countable:
                why = "without a number" if sample.count is None else f"over {MOST_COUNTED}"
                usual = sample.truth.usual if sample.truth is not None else ""
                self._tally.note(f"questions how many, answers {why}: left out of cnt", usual)
        kept = [sample for sample in asked if sample.countable]
        return {
            **self._asked(kept),
            "count": np.array([sample.count for sample in kept], "i1"),
            "kind": np.array([sample.kind for sample in kept], "u1"),
        }

    def to_learn(self, samples: Sequence[Sample], what: str) -> Columns:
        """Return the questions that have an answer that can be given."""
        targets = [self._targets(sample) for sample in samples]
        kept = [place for place, target in enumerate(targets) if target]
        left = len(samples) - len(kept)
        self._tally.note(f"{what} without an answer that can be given: left out", times=left)
        return self._answered([samples[place] for place in kept], [targets[p] for p in kept])

    def to_evaluate(self, samples: Sequence[Sample], what: str) -> Columns:
        """Return all questions: where no answer that can be given is right, none scores."""
        targets = [self._targets(sample) for sample in samples]
        lost = sum(
            not target and sample.truth is not None
            for sample, target in zip(samples, targets, strict=True)
        )
        self._tally.note(f"{what} without a right answer that can be given: kept", times=lost)
        return self._answered(samples, targets)

    def _targets(self, sample: Sample) -> list[tuple[int, float]]:
        return [] if sample.truth is None else self._answers.targets(sample.truth)[:_TARGETS]

    def _answered(
        self, samples: Sequence[Sample], targets: Sequence[Sequence[tuple[int, float]]]
    ) -> Columns:
        numbers = np.zeros((len(samples), _TARGETS), "u2")
        scores = np.zeros((len(samples), _TARGETS), "f4")
        for row, found in enumerate(targets):
            for place, (answer, score) in enumerate(found):
                numbers[row, place], scores[row, place] = answer, score
        cut = sum(len(sample.words) > self._longest for sample in samples)
        self._tally.note(f"questions cut after {self._longest} words", times=cut)
        kinds = [_NO_KIND if sample.truth is None else sample.truth.kind for sample in samples]
        soft = {"answers": numbers, "scores": scores, "kind": np.array(kinds, "u1")}
        return {**self._asked(samples), **soft}

    def _asked(self, samples: Sequence[Sample]) -> Columns:
        """Return what tables of questions share."""
        rows = len(samples)
        words = [self._words.numbers(sample.words, self._longest) for sample in samples]
        boxes = np.zeros((rows, self._regions), bool)
        for row, sample in enumerate(samples):
            if sample.boxes is not None:
                boxes[row] = sample.boxes
        return {
            "scene": np.array([sample.scene for sample in samples], "i4"),
            "question": np.array(words, "u2").reshape(rows, self._longest),
            "ask_box": np.where(boxes.any(axis=1), boxes.argmax(axis=1), -1).astype("i1"),
            "ask_boxes": boxes,
            "ask_relation": np.array([sample.relation for sample in samples], "i1"),
            "ask_direction": np.array([sample.direction for sample in samples], "i1"),
            "question_id": np.array([sample.id for sample in samples], "i8"),
        }
