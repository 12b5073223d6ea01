"""Scenes: which objects stand where, and which boxes a detector would propose for them.

Only positions and concepts; nothing here draws a pixel or asks a question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from benchmarks.worlds.digit_scenes.concepts import (
    ARRANGEMENTS,
    CANVAS,
    COLOUR_NAMES,
    DIGITS,
    FEWEST_OBJECTS,
    GROUND_NAMES,
    MOST_IN_A_LINE,
    MOST_OBJECTS,
    MOST_REGIONS,
    SIZE_NAMES,
    SIZES,
    TEXTURES,
    is_novel_pair,
)

Box = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels
BACKGROUND = -1  # the owner of a region that shows no object

# How often a scene has 4, 5, … 12 objects: mostly few, sometimes a crowd, so that every
# count from 0 to 12 occurs.
_CROWD_WEIGHTS = (4, 5, 5, 5, 5, 3, 2, 2, 2)
_DOMINANT_COLOUR, _DOMINANT_DIGIT = 0.7, 0.5  # share of scenes with one
_FOLLOWS_COLOUR, _FOLLOWS_DIGIT = 0.65, 0.45  # share of its objects that follow it
_APART = 22  # pixels between centres, so that large digits do not touch


@dataclass(frozen=True, slots=True)
class Thing:
    """One object: a handwritten digit with its look and its true box."""

    digit: int
    colour: int
    size: int
    texture: int
    image: int  # which handwritten image draws it
    box: Box

    @property
    def novel(self) -> bool:
        """Whether training never shows this digit in this colour."""
        return is_novel_pair(self.digit, self.colour)


@dataclass(frozen=True, slots=True)
class Scene:
    """The whole truth of one scene, and the boxes proposed for it."""

    things: tuple[Thing, ...]
    arrangement: int
    ground: int
    regions: tuple[Box, ...]
    owners: tuple[int, ...]  # which thing a region shows, or BACKGROUND

    def regions_of(self, thing: int) -> list[int]:
        """Return the indices of the regions that show this thing."""
        return [region for region, owner in enumerate(self.owners) if owner == thing]


def overlap(a: Box, b: Box) -> int:
    """Return the area in pixels that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0


def draw_scene(
    rng: Random, images: list[list[int]], *, duplicates: float, backgrounds: int, novel: bool
) -> Scene:
    """Draw one scene; ``images[d]`` are the handwritten images of digit d it may use.

    A novel scene has at least one digit in the colour that training never shows it in; any
    other scene has none.
    """
    count = rng.choices(range(FEWEST_OBJECTS, MOST_OBJECTS + 1), _CROWD_WEIGHTS)[0]
    kinds = ARRANGEMENTS if count <= MOST_IN_A_LINE else ARRANGEMENTS[2:]
    arrangement = ARRANGEMENTS.index(rng.choice(kinds))
    looks = _draw_looks(rng, count, novel)
    sides = [rng.choice(SIZES[SIZE_NAMES[size]]) for _, _, size, _ in looks]
    boxes = _place(rng, sides, ARRANGEMENTS[arrangement])
    things = tuple(
        Thing(digit, colour, size, texture, rng.choice(images[digit]), box)
        for (digit, colour, size, texture), box in zip(looks, boxes, strict=True)
    )
    regions, owners = _propose(rng, boxes, duplicates, backgrounds)
    return Scene(things, arrangement, rng.randrange(len(GROUND_NAMES)), regions, owners)


def _draw_looks(rng: Random, count: int, novel: bool) -> list[tuple[int, int, int, int]]:
    """Draw digit, colour, size and texture of each object, some scenes with a favourite."""
    colour = rng.randrange(len(COLOUR_NAMES)) if rng.random() < _DOMINANT_COLOUR else None
    digit = rng.randrange(len(DIGITS)) if rng.random() < _DOMINANT_DIGIT else None
    novel_things = set(rng.sample(range(count), rng.randint(1, 3))) if novel else set()
    looks = []
    for thing in range(count):
        c = colour if colour is not None and rng.random() < _FOLLOWS_COLOUR else None
        d = digit if digit is not None and rng.random() < _FOLLOWS_DIGIT else None
        pairs = [
            (dd, cc)
            for dd in ([d] if d is not None else range(len(DIGITS)))
            for cc in ([c] if c is not None else range(len(COLOUR_NAMES)))
            if is_novel_pair(dd, cc) == (thing in novel_things)
        ] or [
            (dd, cc)
            for dd in range(len(DIGITS))
            for cc in range(len(COLOUR_NAMES))
            if is_novel_pair(dd, cc) == (thing in novel_things)
        ]
        looks.append((*rng.choice(pairs), rng.randrange(len(SIZES)), rng.randrange(len(TEXTURES))))
    return looks


def _place(rng: Random, sides: list[int], arrangement: str) -> list[Box]:
    """Put squares of these sides on the canvas, apart from each other."""
    while True:
        boxes = _try_to_place(rng, sides, arrangement)
        if boxes is not None:
            return boxes


def _try_to_place(rng: Random, sides: list[int], arrangement: str) -> list[Box] | None:
    centres = _centres(rng, len(sides), arrangement)
    boxes: list[Box] = []
    for side, (x, y) in zip(sides, centres, strict=True):
        left, top = round(x - side / 2), round(y - side / 2)
        box = (left, top, left + side, top + side)
        if min(box) < 0 or max(box) > CANVAS or any(overlap(box, other) for other in boxes):
            return None
        boxes.append(box)
    return boxes


def _centres(rng: Random, count: int, arrangement: str) -> list[tuple[float, float]]:
    middle = CANVAS / 2
    if arrangement == "ring":
        radius, turn = rng.uniform(58, 80), rng.uniform(0, 2 * math.pi)
        angles = [turn + 2 * math.pi * (i + rng.uniform(-0.1, 0.1)) / count for i in range(count)]
        # Rounded: the last bits of sine and cosine differ between machines.
        spots = [
            (round(middle + radius * math.cos(a), 3), round(middle + radius * math.sin(a), 3))
            for a in angles
        ]
    elif arrangement == "scatter":
        spots = _scatter(rng, count)
    else:
        gap = (CANVAS - 2) / max(count, 5)
        start = middle - gap * (count - 1) / 2
        across = rng.uniform(50, CANVAS - 50)
        along = [(start + gap * i, across + rng.uniform(-5, 5)) for i in range(count)]
        spots = along if arrangement == "row" else [(y, x) for x, y in along]
    rng.shuffle(spots)
    return spots


def _scatter(rng: Random, count: int) -> list[tuple[float, float]]:
    """Draw spots a large digit apart that could not be taken for a row or a column."""
    while True:
        spots: list[tuple[float, float]] = []
        while len(spots) < count:
            x, y = rng.uniform(12, CANVAS - 12), rng.uniform(12, CANVAS - 12)
            if all(max(abs(x - a), abs(y - b)) >= _APART for a, b in spots):
                spots.append((x, y))
        xs, ys = zip(*spots, strict=True)
        if min(max(xs) - min(xs), max(ys) - min(ys)) > CANVAS / 2:
            return spots


def _propose(
    rng: Random, boxes: list[Box], duplicates: float, backgrounds: int
) -> tuple[tuple[Box, ...], tuple[int, ...]]:
    """Propose boxes as a detector would: objects, jittered duplicates, some background."""
    objects = [(_jitter(rng, box, 1), owner) for owner, box in enumerate(boxes)]
    again = [
        (_jitter(rng, box, (box[2] - box[0]) // 6), owner)
        for owner, box in enumerate(boxes)
        for _ in range(2)
        if rng.random() < duplicates / 2
    ]
    rng.shuffle(again)  # a crowd has no room for all: drop any, not always the last
    empty = [_background(rng, boxes) for _ in range(rng.randint(min(1, backgrounds), backgrounds))]
    proposals = objects + again[: MOST_REGIONS - backgrounds - len(boxes)]
    proposals += [(box, BACKGROUND) for box in empty if box is not None]
    rng.shuffle(proposals)
    return tuple(box for box, _ in proposals), tuple(owner for _, owner in proposals)


def _jitter(rng: Random, box: Box, most: int) -> Box:
    """Move each edge by up to so many pixels, inside the canvas."""
    x1, y1, x2, y2 = (edge + rng.randint(-most, most) for edge in box)
    return max(x1, 0), max(y1, 0), min(x2, CANVAS), min(y2, CANVAS)


def _background(rng: Random, boxes: list[Box]) -> Box | None:
    """Find a box that shows hardly anything of an object; None where the scene is too full."""
    for _ in range(20):
        width, height = rng.randint(12, 24), rng.randint(12, 24)
        left, top = rng.randint(0, CANVAS - width), rng.randint(0, CANVAS - height)
        box = (left, top, left + width, top + height)
        if all(overlap(box, other) * 10 < width * height for other in boxes):
            return box
    return None
