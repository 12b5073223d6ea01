"""Questions with exact answers: what is asked, the program that answers it, what it is about.

A ``Question`` is still free of wording: ``families`` makes it, ``phrasing`` puts it into
English. ``ask`` draws one question of a kind that suits the split: training, validation and
test never need a novel composition, every question of the novel split does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.digit_scenes.concepts import ARRANGEMENTS, GROUND_NAMES, is_novel_relation
from benchmarks.digit_scenes.descriptions import VALUES, Description, Index
from benchmarks.digit_scenes.phrasing import PHRASINGS, RELATION_PHRASES, with_article
from benchmarks.digit_scenes.relations import Related, related
from benchmarks.digit_scenes.scenes import Scene

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
    about: frozenset[int]  # the things that one has to look at
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

    def needs_novel(self, question: Question) -> tuple[bool, bool]:
        """Tell whether it needs a novel digit-colour pair, and a novel relation-colour pair."""
        pair = any(self.things[t].novel for t in question.about) or any(
            d.novel for d in question.mentions
        )
        anchor, relation = question.anchor_description, question.relation
        if anchor is None or relation is None or anchor.colour is None:
            return pair, False
        return pair, is_novel_relation(relation, anchor.colour)


Maker = Callable[[View, Random], Question | None]
_TRIES = 60


def ask(
    view: View, rng: Random, makers: Sequence[Maker], last_resort: Maker, *, novel: bool
) -> Question:
    """Draw a question by one of these makers that does (or does not) need what is novel.

    A maker may fail by bad luck or because the scene does not allow its question: each gets
    many tries before the next, so that the families stay as balanced as scenes allow.
    """
    for make in (*rng.sample(makers, len(makers)), last_resort):
        for _ in range(_TRIES):
            question = make(view, rng)
            if question is not None and any(view.needs_novel(question)) == novel:
                return question
    raise AssertionError(f"no question can be asked about {view.scene}")
