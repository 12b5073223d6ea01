"""Executes programs on the things that classifiers see. Nothing is learned here.

``ground`` alone is not executed: no label of a region says what the things lie on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.concepts import ARRANGEMENTS, DIRECTIONS
from benchmarks.worlds.digit_scenes.descriptions import VALUES, Description
from benchmarks.worlds.digit_scenes.phrasing import (
    LONGEST_QUESTION,
    PHRASINGS,
    question_vocabulary,
)
from benchmarks.worlds.digit_scenes.programs.arrangements import arrangement_of
from benchmarks.worlds.digit_scenes.programs.operations import (
    Arrangement,
    Count,
    Exist,
    Filter,
    Find,
    Ground,
    Majority,
    More,
    Program,
    Query,
    Relate,
    Same,
    Unique,
    Verify,
    parse,
)
from benchmarks.worlds.digit_scenes.programs.things import SeenScenes, SeenThings
from benchmarks.worlds.digit_scenes.questions import ANSWERS, MOST_COUNTED
from pmn_cl.data.programs import NOT_EXECUTED, Oracle, ProgramExecutor, SeenRegions
from pmn_cl.tasks.base import Columns

_ANSWER_IDS = {answer: number for number, answer in enumerate(ANSWERS)}
_SURE = 0.5  # from which probability on a thing counts as related


class _NothingSeenError(Exception):
    """A program asks for a thing, but no region seems to show one."""


class DigitExecutor(ProgramExecutor):
    """Answers counting and other questions by their programs, and finds related boxes."""

    tasks = ("rel", "cnt", "vqa")

    def __init__(self) -> None:
        # What was seen is asked about again and again, for each task after each experience.
        self._scenes: WeakKeyDictionary[SeenRegions, SeenScenes] = WeakKeyDictionary()

    def executes(self, task: str, columns: Columns) -> NDArray[np.bool_]:
        """Return which samples can be answered: all but questions about the ground."""
        if task == "rel":
            return np.ones(len(columns["scene"]), bool)
        return np.array([not isinstance(p, Ground) for p in _programs(columns)], bool)

    def predict(
        self, task: str, columns: Columns, seen: SeenRegions, oracle: Oracle
    ) -> NDArray[np.int64]:
        """Return the number of a box, a count, or the number of an answer."""
        scenes = self._scenes.setdefault(seen, SeenScenes(seen))
        if task == "rel":
            names = ("scene", "box", "relation", "direction")
            asked = zip(*(columns[name].tolist() for name in names), strict=True)
            return np.array([_related_region(scenes, *sample) for sample in asked], np.int64)
        samples = zip(
            _programs(columns),
            columns["scene"].tolist(),
            columns["question"].tolist(),
            strict=True,
        )
        answers = (
            Execution(scenes[scene], oracle, scene, question).answer(program)
            for program, scene, question in samples
        )
        return np.array([_number(task, answer) for answer in answers], np.int64)


def _programs(columns: Columns) -> Iterator[Program]:
    return (parse(text.decode()) for text in columns["program"].tolist())


def _number(task: str, answer: str | None) -> int:
    if answer is None:
        return NOT_EXECUTED
    return int(answer) if task == "cnt" else _ANSWER_IDS[answer]


def _related_region(scenes: SeenScenes, scene: int, box: int, relation: int, direction: int) -> int:
    """Return a region of the thing that stands in a relation to the one that a region shows."""
    things = scenes[scene]
    given = things.shown_by(box)
    if given is None:  # taken for background: but relations are asked of things alone
        things = scenes.things(scene, known=box)
        given = things.shown_by(box)
        assert given is not None
    related = things.related[relation]
    sought = related[given] if DIRECTIONS[direction] == "subject" else related[:, given]
    return things.regions[int(sought.argmax())][0]


@dataclass(frozen=True)
class Execution:
    """One program, executed on the things of a scene."""

    things: SeenThings
    oracle: Oracle
    scene: int  # as the oracle knows it
    question: Sequence[int]  # the program in words, as their numbers

    def answer(self, program: Program) -> str | None:
        """Return the answer; None where the things do not say it."""
        try:
            return self._answer(program)
        except _NothingSeenError:
            return None

    def _answer(self, program: Program) -> str | None:
        match program:
            case Exist(of):
                return _yes(self._found(of).any())
            case Verify(prop, value, thing):
                return _yes(self._value(prop, thing) == value)
            case Same(prop, one, other):
                return _yes(self._value(prop, one) == self._value(prop, other))
            case More(these, those):
                asked = (self._count(of, count_question(of.description)) for of in (these, those))
                return _yes(next(asked) > next(asked))
            case Count(of):
                return str(min(self._count(of, self.question), MOST_COUNTED))
            case Query(prop, thing):
                return VALUES[prop][self._value(prop, thing)]
            case Majority(prop):
                values = self._seen().values(prop)
                return VALUES[prop][np.bincount(values).argmax()]
            case Arrangement():
                return ARRANGEMENTS[arrangement_of(self._seen().boxes)]
            case Ground():
                return None

    def _seen(self) -> SeenThings:
        if not len(self.things):
            raise _NothingSeenError
        return self.things

    def _found(self, of: Find | Relate | Filter) -> NDArray[np.bool_]:
        """Return which things are meant (K,)."""
        match of:
            case Find(description):
                return self.things.fit(description)
            case Relate():
                return np.asarray(self._related(of) >= _SURE)
            case Filter(description, related):
                return self._found(related) & self.things.fit(description)

    def _one(self, unique: Unique) -> int:
        """Return the thing that is meant: the likeliest, whether or not it looks as it should."""
        things = self._seen()
        if isinstance(unique.of, Find):
            return things.best_fit(unique.of.description)
        return int(self._related(unique.of).argmax())

    def _related(self, relate: Relate) -> NDArray[Any]:
        """Return how surely each thing stands in the relation (K,)."""
        anchor = self._one(relate.anchor)
        regions = self.things.regions
        said = self.oracle.related(self.scene, regions[anchor][0], relate.relation)
        if said is None:
            return np.asarray(self.things.related[relate.relation, anchor])
        found = np.array([said[list(own)].max() for own in regions])
        found[anchor] = -1  # nothing is related to itself
        return found

    def _value(self, prop: str, unique: Unique) -> int:
        return int(self.things.values(prop)[self._one(unique)])

    def _count(self, of: Find | Relate, question: Sequence[int]) -> int:
        said = self.oracle.counted(self.scene, question)
        return int(self._found(of).sum()) if said is None else said


@cache
def count_question(description: Description) -> tuple[int, ...]:
    """Return "how many red symbols are there" as a row of the store has it."""
    words = PHRASINGS["count"][0].format(P=description.text(plural=True)).split()
    numbers = [_vocabulary()[word] for word in words]
    return (*numbers, *[0] * (LONGEST_QUESTION - len(numbers)))


@cache
def _vocabulary() -> dict[str, int]:
    return {word: number for number, word in enumerate(question_vocabulary())}


def _yes(holds: bool | np.bool_) -> str:
    return "yes" if holds else "no"
