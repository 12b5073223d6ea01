"""Where things go on a scene of the preview: labels and the arrow of a relation, none crossing.

Nothing here draws; ``preview`` does. Lengths are pixels of a scene enlarged by ``SCALE``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from benchmarks.worlds.digit_scenes.concepts import (
    CANVAS,
    COLOUR_NAMES,
    DIGITS,
    SIZE_NAMES,
    TEXTURES,
)
from benchmarks.worlds.digit_scenes.scenes import BACKGROUND, Scene

SCALE = 3
SIDE = SCALE * CANVAS
FONT, LABEL_SIZE = "DejaVu Sans", 13  # the font that matplotlib brings along

_LINE = LABEL_SIZE * 1.25
_SHORTEST_ARROW = 40
_HINTING = 1.03  # letters fitted to pixels are a little wider than those measured

Rect = tuple[float, float, float, float]  # x1, y1, x2, y2
Point = tuple[float, float]
Arrow = tuple[Point, Point]


@dataclass(frozen=True, slots=True)
class Link:
    """A relation to be drawn, from one thing to another."""

    name: str
    given: int
    sought: int


@dataclass(frozen=True, slots=True)
class Note:
    """A text on a scene and its middle."""

    text: str
    at: Point
    thing: int | None  # which thing it describes; None for the name of the relation


def wrap(text: str, width: float, size: float) -> list[str]:
    """Break a text between words into lines no wider than this."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if longer == word or text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def text_width(text: str, size: float) -> float:
    """Return how wide the widest line of a text is."""
    space = _word_width("a b", size) - _word_width("ab", size)
    lines = [line.split(" ") for line in text.split("\n")]
    return max(sum(_word_width(w, size) + space for w in line) - space for line in lines)


@cache
def _word_width(word: str, size: float) -> float:
    font = FontProperties(family=FONT, size=size)
    width, _, _ = TextToPath().get_text_width_height_descent(word, font, ismath=False)
    return float(width) * _HINTING


def lay_out(scene: Scene, link: Link | None) -> tuple[Arrow | None, tuple[Note, ...]]:
    """Place arrow, its name and labels; what would cross something else is left out."""
    frames = [_around(scene, thing) for thing in range(len(scene.things))]
    taken = list(frames)
    notes: list[Note] = []
    arrow = None if link is None else _arrow(frames, link.given, link.sought)
    if link is not None and arrow is not None:
        taken += [(x - 5, y - 5, x + 5, y + 5) for x, y in _along(arrow)]
        _add(notes, taken, link.name, None, _beside(arrow, _extent(link.name)))
    for (x1, y1, x2, y2), owner in zip(scene.regions, scene.owners, strict=True):
        if owner == BACKGROUND:
            taken.append((x1 * SCALE, y1 * SCALE, x2 * SCALE, y2 * SCALE))
    for number, thing in enumerate(scene.things):
        first = f"{SIZE_NAMES[thing.size]} {TEXTURES[thing.texture]}"
        text = f"{first}\n{COLOUR_NAMES[thing.colour]} {DIGITS[thing.digit]}"
        _add(notes, taken, text, number, _spots(frames[number], _extent(text)))
    return arrow, tuple(notes)


def _extent(text: str) -> Point:
    """Return width and height of a note with a little air around it."""
    return text_width(text, LABEL_SIZE) + 6, _LINE * (1 + text.count("\n")) + 6


def _add(
    notes: list[Note], taken: list[Rect], text: str, thing: int | None, spots: Iterator[Point]
) -> None:
    """Put a note on the first spot that is free, if any."""
    width, height = _extent(text)
    for x, y in spots:
        place = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        if min(place) >= 0 and max(place) <= SIDE and not any(_cross(place, t) for t in taken):
            notes.append(Note(text, (x, y), thing))
            taken.append(place)
            return


def _cross(a: Rect, b: Rect) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _spots(frame: Rect, extent: Point) -> Iterator[Point]:
    """Yield middles for a label: below or above its thing, then beside it."""
    (x1, y1, x2, y2), (width, height) = frame, (extent[0] + 3, extent[1] + 3)
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    for shift in (0, 0.2, -0.2, 0.4, -0.4):
        yield x + shift * width, y2 + height / 2
        yield x + shift * width, y1 - height / 2
    for shift in (0, 0.3, -0.3):
        yield x2 + width / 2, y + shift * height
        yield x1 - width / 2, y + shift * height


def _arrow(frames: list[Rect], anchor: int, sought: int) -> Arrow | None:
    """Return a straight arrow from frame to frame; None where it is hidden or crosses others."""
    (ax, ay), (bx, by) = (
        ((f[0] + f[2]) / 2, (f[1] + f[3]) / 2) for f in (frames[anchor], frames[sought])
    )
    dx, dy = bx - ax, by - ay
    # The share of the way that lies inside each frame.
    inside = [
        min(
            ((f[2] - f[0]) / 2 + 2) / max(abs(dx), 1e-9),
            ((f[3] - f[1]) / 2 + 2) / max(abs(dy), 1e-9),
        )
        for f in (frames[anchor], frames[sought])
    ]
    if (1 - sum(inside)) * math.hypot(dx, dy) < _SHORTEST_ARROW:
        return None
    arrow = (
        (ax + inside[0] * dx, ay + inside[0] * dy),
        (bx - inside[1] * dx, by - inside[1] * dy),
    )
    others = [frame for i, frame in enumerate(frames) if i not in (anchor, sought)]
    hits = any(_cross((x - 4, y - 4, x + 4, y + 4), f) for x, y in _along(arrow) for f in others)
    return None if hits else arrow


def _along(arrow: Arrow) -> list[Point]:
    """Return points along an arrow."""
    (x1, y1), (x2, y2) = arrow
    return [(x1 + (x2 - x1) * t / 64, y1 + (y2 - y1) * t / 64) for t in range(65)]


def _beside(arrow: Arrow, extent: Point) -> Iterator[Point]:
    """Yield middles for the arrow's name, to either side of its shaft."""
    (x1, y1), (x2, y2) = arrow
    length = math.hypot(x2 - x1, y2 - y1)
    across = (y1 - y2) / length, (x2 - x1) / length
    away = 8 + abs(across[0]) * extent[0] / 2 + abs(across[1]) * extent[1] / 2
    points = _along(arrow)
    for at in (32, 22, 42, 12, 52):
        for side in (away, -away):
            yield points[at][0] + side * across[0], points[at][1] + side * across[1]


def _around(scene: Scene, thing: int) -> Rect:
    """Return the smallest frame around all boxes proposed for a thing."""
    x1s, y1s, x2s, y2s = zip(*(scene.regions[r] for r in scene.regions_of(thing)), strict=True)
    return min(x1s) * SCALE, min(y1s) * SCALE, max(x2s) * SCALE, max(y2s) * SCALE
