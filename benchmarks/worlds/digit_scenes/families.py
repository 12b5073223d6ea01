"""The question families: each function tries to make one question about a scene, or returns None.

Answers are balanced at the source: yes/no families receive the answer wanted, and counts are
drawn before what is counted. Programs are nested calls, such as
``query(colour, unique(relate(left, unique(large seven))))``.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

from benchmarks.worlds.digit_scenes.concepts import (
    ARRANGEMENTS,
    COLOUR_NAMES,
    GROUND_NAMES,
    RELATIONS,
    SAME_COLOUR,
    SAME_DIGIT,
)
from benchmarks.worlds.digit_scenes.descriptions import (
    DISTINCTIVE_KINDS,
    PROPERTIES,
    VALUES,
    Description,
    describe,
    draw_description,
)
from benchmarks.worlds.digit_scenes.questions import Question, View

# What a relation gives away about the thing found, and so is no use asking of it.
_GIVEN_AWAY = {SAME_DIGIT: "digit", SAME_COLOUR: "colour"}
_ASKED_PROPERTIES = ("colour", "colour", "digit", "digit", "size", "texture")  # by weight
_COMPOSED = ("colour", "digit")  # what novel compositions are made of


def _recognised(
    anchor: int, unique: Description, subjects: list[int], relation: int, asked: str | None = None
) -> frozenset[int]:
    """Return the things of a relational question whose digit or colour has to be recognised."""
    compared = relation in _GIVEN_AWAY
    things = {anchor} if compared or unique.distinctive else set()
    return frozenset(things | set(subjects) if compared or asked in _COMPOSED else things)


def exist(view: View, rng: Random, answer: str) -> Question | None:
    """Is there a red seven?"""
    kind = rng.choice(DISTINCTIVE_KINDS)
    asked = describe(rng.choice(view.things), kind)
    found = view.index.find(asked)
    for _ in range(20 if answer == "no" else 0):  # of one kind, so that length gives nothing away
        asked = draw_description(rng, kind)
        found = view.index.find(asked)
        if not found:
            break
    if bool(found) != (answer == "yes"):
        return None
    text, things = asked.text(), frozenset(found)
    return Question("exist", f"exist(find({text}))", answer, things, things, (asked,), {"A": text})


def verify(view: View, rng: Random, answer: str) -> Question | None:
    """Is the large seven red?"""
    thing = rng.randrange(len(view.things))
    prop = rng.choice(("colour", "size", "texture"))
    unique = view.index.unique(rng, thing, without=(prop,))
    value = getattr(view.things[thing], prop)
    if unique is None:
        return None
    if answer == "no":
        value = rng.choice([v for v in range(len(VALUES[prop])) if v != value])
    text, v = unique.text(), VALUES[prop][value]
    return Question(
        "verify",
        f"verify({prop}, {v}, unique({text}))",
        answer,
        frozenset((thing,)),
        frozenset((thing,) if prop in _COMPOSED or unique.distinctive else ()),
        (unique, unique.adding(prop, value)),
        {"D": text, "v": v},
    )


def same(view: View, rng: Random, answer: str) -> Question | None:
    """Do the seven and the large blue symbol have the same texture?"""
    prop = rng.choice(PROPERTIES)
    pairs = [
        (one, other)
        for one, other in permutations(range(len(view.things)), 2)
        if (getattr(view.things[one], prop) == getattr(view.things[other], prop))
        == (answer == "yes")
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    first = view.index.unique(rng, one, without=(prop,))
    second = view.index.unique(rng, other, without=(prop,))
    if first is None or second is None:
        return None
    composed = prop in _COMPOSED
    return Question(
        "same",
        f"same({prop}, unique({first.text()}), unique({second.text()}))",
        answer,
        frozenset((one, other)),
        frozenset(t for t, d in ((one, first), (other, second)) if composed or d.distinctive),
        (first, second),
        {"D": first.text(), "D2": second.text(), "attr": prop},
    )


def more(view: View, rng: Random, answer: str) -> Question | None:
    """Are there more red symbols than blue symbols?"""
    prop = rng.choice(_COMPOSED)
    first = describe(rng.choice(view.things), (prop,))
    second = draw_description(rng, (prop,))
    if answer == "no":
        first, second = second, first
    ours, theirs = view.index.find(first), view.index.find(second)
    if first == second or (len(ours) > len(theirs)) != (answer == "yes"):
        return None
    things = frozenset((*ours, *theirs))
    return Question(
        "more",
        f"more(find({first.text()}), find({second.text()}))",
        answer,
        things,
        things,
        (first, second),
        {"P": first.text(plural=True), "P2": second.text(plural=True)},
    )


def exist_related(view: View, rng: Random, answer: str) -> Question | None:
    """Is there a red symbol left of the seven?"""
    relation = rng.randrange(len(RELATIONS))
    anchors = [a for a, subjects in enumerate(view.subjects[relation]) if subjects]
    if not anchors:
        return None
    anchor = rng.choice(anchors)
    subjects = view.subjects[relation][anchor]
    unique = view.index.unique(rng, anchor)
    if unique is None:
        return None
    prop = rng.choice([p for p in _COMPOSED if p != _GIVEN_AWAY.get(relation)])
    # A "no" names something of the scene too, where it can: merely seeing it must not be enough.
    source = view.things[rng.choice(subjects)] if answer == "yes" else rng.choice(view.things)
    asked = describe(source, (prop,)) if rng.random() < 0.8 else draw_description(rng, (prop,))
    if any(asked.fits(view.things[s]) for s in subjects) != (answer == "yes"):
        return None
    if getattr(unique, prop) == getattr(asked, prop):  # "a red one left of the red one"
        return None
    text, of = asked.text(), unique.text()
    # "A red symbol with the same digit as the zero" is a red zero in other words.
    shared = _GIVEN_AWAY.get(relation)
    meant = asked.adding(shared, getattr(view.things[anchor], shared)) if shared else asked
    return Question(
        "exist_related",
        f"exist(filter({text}, relate({RELATIONS[relation]}, unique({of}))))",
        answer,
        frozenset((anchor, *subjects)),
        _recognised(anchor, unique, subjects, relation, prop),
        (asked, unique, meant),
        {"A": text, "D": of},
        anchor,
        unique,
        relation,
    )


def count(view: View, rng: Random) -> Question:
    """How many red symbols are there?"""
    absent = draw_description(rng, rng.choice(DISTINCTIVE_KINDS[:6]))
    numbers = sorted(view.by_count)
    if not view.index.find(absent):
        numbers.append(0)
    # Every scene has small counts to ask for, few have large ones: prefer these.
    number = rng.choices(numbers, [1 + n * n / 4 for n in numbers])[0]
    return count_of(view, rng.choice(view.by_count[number]) if number else absent)


def count_of(view: View, asked: Description) -> Question:
    """Ask how many things fit a description."""
    found = view.index.find(asked)
    return Question(
        "count",
        f"count(find({asked.text()}))",
        str(len(found)),
        frozenset(found),
        frozenset(found if asked.distinctive else ()),
        (asked,),
        {"P": asked.text(plural=True)},
    )


def count_related(view: View, rng: Random) -> Question | None:
    """How many symbols are left of the seven?"""
    number = rng.choice(sorted(view.by_related_count))
    relation, anchor = rng.choice(view.by_related_count[number])
    unique = view.index.unique(rng, anchor)
    if unique is None:
        return None
    subjects, text = view.subjects[relation][anchor], unique.text()
    return Question(
        "count_related",
        f"count(relate({RELATIONS[relation]}, unique({text})))",
        str(len(subjects)),
        frozenset((anchor, *subjects)),
        _recognised(anchor, unique, subjects, relation),
        (unique,),
        {"D": text},
        anchor,
        unique,
        relation,
    )


def query(view: View, rng: Random) -> Question | None:
    """What colour is the large seven?"""
    thing, prop = rng.randrange(len(view.things)), rng.choice(_ASKED_PROPERTIES)
    unique = view.index.unique(rng, thing, without=(prop,))
    if unique is None:
        return None
    text = unique.text()
    return Question(
        "query",
        f"query({prop}, unique({text}))",
        VALUES[prop][getattr(view.things[thing], prop)],
        frozenset((thing,)),
        frozenset((thing,) if prop in _COMPOSED or unique.distinctive else ()),
        (unique,),
        {"D": text, "attr": prop},
    )


def query_related(view: View, rng: Random) -> Question | None:
    """What colour is the symbol left of the seven?"""
    relation, anchor = rng.randrange(len(RELATIONS)), rng.randrange(len(view.things))
    return query_related_to(view, rng, relation, anchor)


def query_related_to(view: View, rng: Random, relation: int, anchor: int) -> Question | None:
    """Ask for a property of the only thing that stands in this relation to that one."""
    subjects = view.subjects[relation][anchor]
    prop = rng.choice([p for p in _ASKED_PROPERTIES if p != _GIVEN_AWAY.get(relation)])
    unique = view.index.unique(rng, anchor)
    if len(subjects) != 1 or unique is None:
        return None
    text = unique.text()
    return Question(
        "query_related",
        f"query({prop}, unique(relate({RELATIONS[relation]}, unique({text}))))",
        VALUES[prop][getattr(view.things[subjects[0]], prop)],
        frozenset((anchor, *subjects)),
        _recognised(anchor, unique, subjects, relation, prop),
        (unique,),
        {"D": text, "attr": prop},
        anchor,
        unique,
        relation,
    )


def majority_colour(view: View) -> int | None:
    """Return the colour that more than half of the things have, if any."""
    for colour in range(len(COLOUR_NAMES)):
        if 2 * sum(thing.colour == colour for thing in view.things) > len(view.things):
            return colour
    return None


def overall(view: View, rng: Random) -> Question | None:
    """What do the symbols form? What colour are most of them? What do they lie on?"""
    everything, nothing = frozenset(range(len(view.things))), frozenset[int]()
    family = rng.choice(("arrangement", "majority", "ground"))
    if family == "arrangement":
        return Question(
            family, "arrangement()", ARRANGEMENTS[view.scene.arrangement], everything, nothing
        )
    if family == "ground":
        return Question(family, "ground()", GROUND_NAMES[view.scene.ground], everything, nothing)
    colour = majority_colour(view)
    if colour is None:
        return None
    return Question(family, "majority(colour)", COLOUR_NAMES[colour], everything, everything)
