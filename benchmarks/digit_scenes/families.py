"""The question families: each function tries to make one question about a scene, or says None.

Answers are balanced at the source: yes/no families are told the answer wanted, and counts are
drawn before what is counted. Programs are nested calls, such as
``query(colour, unique(relate(left, unique(large seven))))``.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

from benchmarks.digit_scenes.concepts import (
    ARRANGEMENTS,
    COLOUR_NAMES,
    GROUND_NAMES,
    NEAREST,
    RELATIONS,
    SAME_COLOUR,
    SAME_DIGIT,
)
from benchmarks.digit_scenes.descriptions import (
    PROPERTIES,
    TELLING_KINDS,
    VALUES,
    Description,
    describe,
    draw_description,
)
from benchmarks.digit_scenes.questions import Question, View

# What a relation gives away about the thing found, and so is no use asking of it.
_GIVEN_AWAY = {SAME_DIGIT: "digit", SAME_COLOUR: "colour"}
_ASKED_PROPERTIES = ("colour", "colour", "digit", "digit", "size", "texture")  # by weight


def exist(view: View, rng: Random, answer: str) -> Question | None:
    """Is there a red seven?"""
    kind = rng.choice(TELLING_KINDS)
    asked = describe(rng.choice(view.things), kind)
    found = view.index.find(asked)
    for _ in range(20 if answer == "no" else 0):  # of one kind, so that length tells nothing
        asked = draw_description(rng, kind)
        found = view.index.find(asked)
        if not found:
            break
    if bool(found) != (answer == "yes"):
        return None
    text = asked.text()
    return Question(
        "exist", f"exist(find({text}))", answer, frozenset(found), (asked,), {"A": text}
    )


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
        (unique, unique.adding(prop, value)),
        {"D": text, "v": v},
    )


def same(view: View, rng: Random, answer: str) -> Question | None:
    """Do the seven and the large blue symbol have the same texture?"""
    prop = rng.choice(PROPERTIES)
    one, other = rng.sample(range(len(view.things)), 2)
    if (getattr(view.things[one], prop) == getattr(view.things[other], prop)) != (answer == "yes"):
        return None
    first = view.index.unique(rng, one, without=(prop,))
    second = view.index.unique(rng, other, without=(prop,))
    if first is None or second is None:
        return None
    return Question(
        "same",
        f"same({prop}, unique({first.text()}), unique({second.text()}))",
        answer,
        frozenset((one, other)),
        (first, second),
        {"D": first.text(), "D2": second.text(), "attr": prop},
    )


def more(view: View, rng: Random, answer: str) -> Question | None:
    """Are there more red symbols than blue symbols?"""
    prop = rng.choice(("colour", "digit"))
    first = describe(rng.choice(view.things), (prop,))
    second = draw_description(rng, (prop,))
    if answer == "no":
        first, second = second, first
    ours, theirs = view.index.find(first), view.index.find(second)
    if first == second or (len(ours) > len(theirs)) != (answer == "yes"):
        return None
    return Question(
        "more",
        f"more(find({first.text()}), find({second.text()}))",
        answer,
        frozenset((*ours, *theirs)),
        (first, second),
        {"P": first.text(plural=True), "P2": second.text(plural=True)},
    )


def exist_related(view: View, rng: Random, answer: str) -> Question | None:
    """Is there a red symbol left of the seven?"""
    relation, anchor = rng.randrange(len(RELATIONS)), rng.randrange(len(view.things))
    subjects = view.subjects[relation][anchor]
    unique = view.index.unique(rng, anchor)
    if not subjects or unique is None:
        return None
    prop = rng.choice([p for p in ("colour", "digit") if p != _GIVEN_AWAY.get(relation)])
    # A "no" names something of the scene too, where it can: merely seeing it must not be enough.
    source = view.things[rng.choice(subjects)] if answer == "yes" else rng.choice(view.things)
    asked = describe(source, (prop,)) if rng.random() < 0.8 else draw_description(rng, (prop,))
    if any(asked.fits(view.things[s]) for s in subjects) != (answer == "yes"):
        return None
    if getattr(unique, prop) == getattr(asked, prop):  # "a red one left of the red one"
        return None
    text, of = asked.text(), unique.text()
    return Question(
        "exist_related",
        f"exist(filter({text}, relate({RELATIONS[relation]}, unique({of}))))",
        answer,
        frozenset((anchor, *subjects)),
        (asked, unique),
        {"A": text, "D": of},
        anchor,
        unique,
        relation,
    )


def count(view: View, rng: Random) -> Question:
    """How many red symbols are there?"""
    by_count: defaultdict[int, list[Description]] = defaultdict(list)
    for description, found in view.index.fitting.items():
        by_count[len(found)].append(description)
    kind = rng.choice(TELLING_KINDS[:6])
    absent = draw_description(rng, kind)
    if not view.index.find(absent):
        by_count[0].append(absent)
    asked = rng.choice(by_count[rng.choice(sorted(by_count))])
    found = view.index.find(asked)
    return Question(
        "count",
        f"count(find({asked.text()}))",
        str(len(found)),
        frozenset(found),
        (asked,),
        {"P": asked.text(plural=True)},
    )


def count_related(view: View, rng: Random) -> Question | None:
    """How many symbols are left of the seven?"""
    by_count: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for relation, of_relation in enumerate(view.subjects):
        if relation != NEAREST:  # whose count is known beforehand
            for anchor, subjects in enumerate(of_relation):
                by_count[len(subjects)].append((relation, anchor))
    relation, anchor = rng.choice(by_count[rng.choice(sorted(by_count))])
    unique = view.index.unique(rng, anchor)
    if unique is None:
        return None
    subjects, text = view.subjects[relation][anchor], unique.text()
    return Question(
        "count_related",
        f"count(relate({RELATIONS[relation]}, unique({text})))",
        str(len(subjects)),
        frozenset((anchor, *subjects)),
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
        (unique,),
        {"D": text, "attr": prop},
    )


def query_related(view: View, rng: Random) -> Question | None:
    """What colour is the symbol left of the seven?"""
    relation, anchor = rng.randrange(len(RELATIONS)), rng.randrange(len(view.things))
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
    everything = frozenset(range(len(view.things)))
    family = rng.choice(("arrangement", "majority", "ground"))
    if family == "arrangement":
        return Question(family, "arrangement()", ARRANGEMENTS[view.scene.arrangement], everything)
    if family == "ground":
        return Question(family, "ground()", GROUND_NAMES[view.scene.ground], everything)
    colour = majority_colour(view)
    if colour is None:
        return None
    return Question(family, "majority(colour)", COLOUR_NAMES[colour], everything)
