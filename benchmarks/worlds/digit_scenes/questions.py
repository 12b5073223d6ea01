"""Questions with exact answers: what is asked, the program that answers it, what it is about.

A ``Question`` is still free of wording: ``families`` makes it, ``phrasing`` puts it into
English. ``ask`` draws one question of a kind that suits the split: training, validation and
test never need a novel composition, every question of the novel split does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from benchmarks.worlds.digit_scenes.concepts import (
    ARRANGEMENTS,
    GROUND_NAMES,
    NEAREST,
    is_novel_relation,
)
from benchmarks.worlds.digit_scenes.descriptions import VALUES, Description, Index
from benchmarks.worlds.digit_scenes.phrasing import PHRASINGS, RELATION_PHRASES, with_article
from benchmarks.worlds.digit_scenes.relations import Related, related
from benchmarks.worlds.digit_scenes.scenes import Scene

MOST_COUNTED = 12
ANSWERS = (
    "yes",
    "no",
    *(str(n) for n in range(MOST_COUNTED + 1)),
    *VALUES["digit"],
    *VALUES["colour"],
    *VALUES["size"],
    *VALUES["texture"],
    *ARRANGEMENTS,
    *GROUND_NAMES,
)
ANSWER_TYPES = ("yes/no", "number", "other")


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one scene."""

    family: str
    program: str
    answer: str
    about: frozenset[int]  # the things that one has to look at …
    recognised: frozenset[int]  # … and those whose digit or colour one has to recognise
    mentions: tuple[Description, ...] = ()
    slots: dict[str, str] = field(default_factory=dict)  # what its phrasings are filled with
    anchor: int | None = None  # relational questions: the thing related to …
    anchor_description: Description | None = None  # … how it is described …
    relation: int | None = None  # … and by which relation

    @property
    def answer_type(self) -> str:
        """Return yes/no, number or other, as VQA 2.0 names them."""
        if self.answer in ("yes", "no"):
            return "yes/no"
        return "number" if self.answer.isdigit() else "other"

    def word(self, rng: Random, phrasing: int) -> str:
        """Put the question into English."""
        slots = dict(self.slots)
        if self.relation is not None:
            slots["r"] = rng.choice(RELATION_PHRASES[self.relation])
        if "A" in slots:
            slots["A"] = with_article(slots["A"])
        return PHRASINGS[self.family][phrasing].format_map(slots)


class View:
    """A scene with what question makers need to know about it, worked out once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.things = scene.things
        self.index = Index(scene)
        self.subjects: Related = related(scene)

    @cached_property
    def by_count(self) -> dict[int, list[Description]]:
        """Return the descriptions that fit one thing, two things, …

        In a scene with something novel, only those that need it: drawing from all and refusing
        the others would leave hardly a count but one.
        """
        novel = {number for number, thing in enumerate(self.things) if thing.novel}
        found: defaultdict[int, list[Description]] = defaultdict(list)
        for description, things in self.index.fitting.items():
            if not novel or (description.distinctive and novel.intersection(things)):
                found[len(things)].append(description)
        return dict(found)

    @cached_property
    def by_related_count(self) -> dict[int, list[tuple[int, int]]]:
        """Return the relations and anchors to which no thing, one thing, … is so related."""
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for relation, of_relation in enumerate(self.subjects):
            if relation != NEAREST:  # whose count is known beforehand
                for anchor, subjects in enumerate(of_relation):
                    found[len(subjects)].append((relation, anchor))
        return dict(found)

    def needs_novel(self, question: Question) -> tuple[bool, bool]:
        """Return whether it needs a novel digit-colour pair, and a novel relation-colour pair."""
        pair = any(self.things[t].novel for t in question.recognised) or any(
            d.novel for d in question.mentions
        )
        anchor, relation = question.anchor_description, question.relation
        if anchor is None or relation is None or anchor.colour is None:
            return pair, False
        return pair, is_novel_relation(relation, anchor.colour)


Maker = Callable[[View, Random], Question | None]
_TRIES, _LAST_TRIES = 60, 10_000


def ask(
    view: View, rng: Random, makers: Sequence[Maker], last_resort: Maker, *, novel: bool
) -> Question:
    """Draw a question by one of these makers that does (or does not) need what is novel.

    A maker may fail by bad luck or because the scene does not allow its question: each gets
    many tries before the next, so that the families stay as balanced as scenes allow. The last
    resort must be possible in every scene.
    """
    tries = [(make, _TRIES) for make in rng.sample(makers, len(makers))]
    for make, most in (*tries, (last_resort, _LAST_TRIES)):
        for _ in range(most):
            question = make(view, rng)
            if question is not None and any(view.needs_novel(question)) == novel:
                return question
    raise AssertionError(f"no question can be asked about {view.scene}")
