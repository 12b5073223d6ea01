"""The operations of programs, typed; from their text in the store and back to it.

A program is nested calls, such as ``query(colour, unique(relate(left, unique(large seven))))``:
``families`` writes it as text, ``parse`` reads it, ``str`` gives the same text again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from benchmarks.worlds.digit_scenes.concepts import RELATIONS
from benchmarks.worlds.digit_scenes.descriptions import PROPERTIES, VALUES, Description
from pmn_cl.errors import UserError

# --- which things ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Find:
    """The things that a description fits."""

    description: Description

    def __str__(self) -> str:
        return f"find({self.description.text()})"


@dataclass(frozen=True, slots=True)
class Relate:
    """The things that stand in a relation to a thing."""

    relation: int
    anchor: Unique

    def __str__(self) -> str:
        return f"relate({RELATIONS[self.relation]}, {self.anchor})"


@dataclass(frozen=True, slots=True)
class Filter:
    """Those of related things that a description fits."""

    description: Description
    related: Relate

    def __str__(self) -> str:
        return f"filter({self.description.text()}, {self.related})"


@dataclass(frozen=True, slots=True)
class Unique:
    """The one thing of its kind; what it is found by has no ``find`` around it."""

    of: Find | Relate

    def __str__(self) -> str:
        meant = self.of.description.text() if isinstance(self.of, Find) else self.of
        return f"unique({meant})"


# --- what is asked about them ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exist:
    """Whether there is such a thing."""

    of: Find | Filter

    def __str__(self) -> str:
        return f"exist({self.of})"


@dataclass(frozen=True, slots=True)
class Verify:
    """Whether a thing has this value of a property."""

    prop: str
    value: int
    thing: Unique

    def __str__(self) -> str:
        return f"verify({self.prop}, {VALUES[self.prop][self.value]}, {self.thing})"


@dataclass(frozen=True, slots=True)
class Same:
    """Whether two things have the same value of a property."""

    prop: str
    one: Unique
    other: Unique

    def __str__(self) -> str:
        return f"same({self.prop}, {self.one}, {self.other})"


@dataclass(frozen=True, slots=True)
class More:
    """Whether there are more of these than of those."""

    these: Find
    those: Find

    def __str__(self) -> str:
        return f"more({self.these}, {self.those})"


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are."""

    of: Find | Relate

    def __str__(self) -> str:
        return f"count({self.of})"


@dataclass(frozen=True, slots=True)
class Query:
    """Which value of a property a thing has."""

    prop: str
    thing: Unique

    def __str__(self) -> str:
        return f"query({self.prop}, {self.thing})"


@dataclass(frozen=True, slots=True)
class Majority:
    """Which value of a property most things have."""

    prop: str

    def __str__(self) -> str:
        return f"majority({self.prop})"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What all things form together."""

    def __str__(self) -> str:
        return "arrangement()"


@dataclass(frozen=True, slots=True)
class Ground:
    """What the things lie on: nothing that is seen of the things says it."""

    def __str__(self) -> str:
        return "ground()"


Program: TypeAlias = Exist | Verify | Same | More | Count | Query | Majority | Arrangement | Ground

# --- from text ---------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Program:
    """Return the program that a text of the store stands for."""
    match _call(text):
        case "exist", [of]:
            return Exist(_filter(of) if of.startswith("filter(") else _find(of))
        case "verify", [prop, value, thing]:
            return Verify(_prop(prop), _place(value, VALUES[_prop(prop)]), _unique(thing))
        case "same", [prop, one, other]:
            return Same(_prop(prop), _unique(one), _unique(other))
        case "more", [these, those]:
            return More(_find(these), _find(those))
        case "count", [of]:
            return Count(_relate(of) if of.startswith("relate(") else _find(of))
        case "query", [prop, thing]:
            return Query(_prop(prop), _unique(thing))
        case "majority", [prop]:
            return Majority(_prop(prop))
        case "arrangement", []:
            return Arrangement()
        case "ground", []:
            return Ground()
    raise _no_program(text, "a question")


def _find(text: str) -> Find:
    match _call(text):
        case "find", [description]:
            return Find(_description(description))
    raise _no_program(text, "find(description)")


def _relate(text: str) -> Relate:
    match _call(text):
        case "relate", [relation, anchor]:
            return Relate(_place(relation, RELATIONS), _unique(anchor))
    raise _no_program(text, "relate(relation, unique(…))")


def _filter(text: str) -> Filter:
    match _call(text):
        case "filter", [description, related]:
            return Filter(_description(description), _relate(related))
    raise _no_program(text, "filter(description, relate(…))")


def _unique(text: str) -> Unique:
    match _call(text):
        case "unique", [of]:
            return Unique(_relate(of) if "(" in of else Find(_description(of)))
    raise _no_program(text, "unique(…)")


def _description(text: str) -> Description:
    """Read for example ``large red seven``; "symbol" leaves the digit open."""
    named: dict[str, int] = {}
    for word in text.removesuffix("symbol").split():
        prop = next((p for p in PROPERTIES if word in VALUES[p]), None)
        if prop is None or prop in named:
            raise _no_program(text, "a description such as 'large red seven'")
        named[prop] = VALUES[prop].index(word)
    return Description(**named)


def _prop(text: str) -> str:
    return PROPERTIES[_place(text, PROPERTIES)]


def _place(text: str, known: Sequence[str]) -> int:
    if text not in known:
        raise _no_program(text, f"one of {', '.join(known)}")
    return known.index(text)


def _call(text: str) -> tuple[str, list[str]]:
    """Return the name of a call, and its arguments as text."""
    name, _, rest = text.partition("(")
    if not rest.endswith(")"):
        raise _no_program(text, "name(…)")
    arguments, depth = [""], 0
    for letter in rest[:-1]:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return name, [a.strip() for a in arguments] if rest != ")" else []


def _no_program(text: str, expected: str) -> UserError:
    return UserError(f"a program has {text!r}, expected {expected}; the store was changed")
