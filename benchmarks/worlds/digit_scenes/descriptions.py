"""Descriptions of things, such as "large red seven", and which things of a scene they fit."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import NamedTuple

from benchmarks.worlds.digit_scenes.concepts import (
    COLOUR_NAMES,
    DIGITS,
    DIGITS_PLURAL,
    SIZE_NAMES,
    TEXTURES,
    is_novel_pair,
)
from benchmarks.worlds.digit_scenes.scenes import Scene, Thing

PROPERTIES = ("size", "texture", "colour", "digit")  # in the order English names them
VALUES: dict[str, tuple[str, ...]] = {
    "size": SIZE_NAMES,
    "texture": TEXTURES,
    "colour": COLOUR_NAMES,
    "digit": DIGITS,
}
Kind = tuple[str, ...]  # which properties a description names
KINDS: tuple[Kind, ...] = tuple(k for n in (1, 2, 3) for k in combinations(PROPERTIES, n))
# Size or texture alone fits something in nearly every scene: no use for asking whether or what.
DISTINCTIVE_KINDS = tuple(k for k in KINDS if "colour" in k or "digit" in k)


class Description(NamedTuple):
    """The properties named, None where a property is left open."""

    size: int | None = None
    texture: int | None = None
    colour: int | None = None
    digit: int | None = None

    @property
    def novel(self) -> bool:
        """Whether it names a digit with the colour that training never shows it in."""
        if self.digit is None or self.colour is None:
            return False
        return is_novel_pair(self.digit, self.colour)

    @property
    def distinctive(self) -> bool:
        """Whether one has to recognise a digit or a colour to know what it fits."""
        return self.digit is not None or self.colour is not None

    def fits(self, thing: Thing) -> bool:
        """Whether the thing has every property named."""
        named = zip(PROPERTIES, self, strict=True)
        return all(value is None or value == getattr(thing, prop) for prop, value in named)

    def adding(self, prop: str, value: int) -> Description:
        """Return this description with one more property."""
        return self._replace(**{prop: value})

    def text(self, *, plural: bool = False) -> str:
        """Return for example ``large red seven``, ``blue symbols``."""
        named = zip(PROPERTIES[:3], self[:3], strict=True)
        words = [VALUES[prop][value] for prop, value in named if value is not None]
        if self.digit is None:
            words.append("symbols" if plural else "symbol")
        else:
            words.append((DIGITS_PLURAL if plural else DIGITS)[self.digit])
        return " ".join(words)


def describe(thing: Thing, kind: Kind) -> Description:
    """Describe a thing by these of its properties."""
    return Description(**{prop: getattr(thing, prop) for prop in kind})


def draw_description(rng: Random, kind: Kind) -> Description:
    """Draw a description of this kind, whether or not anything fits it."""
    return Description(**{prop: rng.randrange(len(VALUES[prop])) for prop in kind})


class Index:
    """All descriptions that fit something in a scene, with the things that they fit."""

    def __init__(self, scene: Scene) -> None:
        self.fitting: dict[Description, list[int]] = {Description(): list(range(len(scene.things)))}
        self._of: list[list[Description]] = []
        for number, thing in enumerate(scene.things):
            own = [describe(thing, kind) for kind in KINDS]
            self._of.append(own)
            for description in own:
                self.fitting.setdefault(description, []).append(number)

    def find(self, description: Description) -> list[int]:
        """Return the things that a description fits."""
        return self.fitting.get(description, [])

    def unique(self, rng: Random, thing: int, without: tuple[str, ...] = ()) -> Description | None:
        """Draw a short description that fits this thing alone and leaves some properties open."""
        only = [
            (len(kind), description)
            for kind, description in zip(KINDS, self._of[thing], strict=True)
            if len(self.fitting[description]) == 1 and not any(p in kind for p in without)
        ]
        if not only:
            return None
        longest = only[0][0] + (rng.random() < 0.3)  # kinds come shortest first
        return rng.choice([description for length, description in only if length <= longest])
