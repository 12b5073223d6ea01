"""Draws scenes: real handwritten digits from scikit-learn, coloured, sized and textured.

Whole numbers throughout, so that every machine draws the same pixels.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.concepts import (
    CANVAS,
    COLOURS,
    GROUNDS,
    SIDES,
    TEXTURES,
)
from benchmarks.worlds.digit_scenes.scenes import Scene

Pixels = NDArray[np.uint8]
_RGB = np.array(list(COLOURS.values()), dtype=np.int32)


@cache
def handwriting() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 1,797 handwritten digits (n, 8, 8), ink from 0 to 16, and what they are (n,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.images.astype(np.int64), digits.target.astype(np.int64)


def split_handwriting(seed: int) -> dict[str, list[list[int]]]:
    """Share the images of each digit out to the splits: no image serves two of them.

    The novel split is a second test: it shares the test split's images.
    """
    _, labels = handwriting()
    rng = np.random.default_rng([seed, 1])
    shares: dict[str, list[list[int]]] = {"train": [], "val": [], "test": []}
    for digit in range(10):
        images = rng.permutation(np.flatnonzero(labels == digit)).tolist()
        first, second = len(images) * 6 // 10, len(images) * 7 // 10
        shares["train"].append(images[:first])
        shares["val"].append(images[first:second])
        shares["test"].append(images[second:])
    return {**shares, "novel": shares["test"]}


def _enlarge(images: NDArray[np.int64], side: int) -> NDArray[np.int32]:
    """Return digits enlarged to this side, opacity from 0 to 255 (n, side, side)."""
    # Bilinear, in fixed point: output pixel p lies at (2p + 1) * 8 / (2 side) - 1/2.
    twice = np.clip((2 * np.arange(side) + 1) * 8 - side, 0, 14 * side)  # 2 * side * position
    low = np.minimum(twice // (2 * side), 6)
    high_weight = twice - low * 2 * side
    low_weight = 2 * side - high_weight
    rows = images[:, low] * low_weight[:, None] + images[:, low + 1] * high_weight[:, None]
    both = rows[:, :, low] * low_weight + rows[:, :, low + 1] * high_weight
    # A little more ink than was scanned keeps thin strokes visible.
    ink: NDArray[np.int32] = np.minimum(both * 20 // (4 * side * side), 255).astype(np.int32)
    return ink


@cache
def _all_ink(side: int) -> NDArray[np.int32]:
    return _enlarge(handwriting()[0], side)


def _ink(image: int, side: int) -> NDArray[np.int32]:
    """Return one digit at this side; the sides that worlds are drawn with are worked out once."""
    known = side in SIDES
    ink = _all_ink(side)[image] if known else _enlarge(handwriting()[0][[image]], side)[0]
    return np.asarray(ink)


@cache
def _texture(side: int) -> NDArray[np.int32]:
    """Return each texture's share of ink, of 8 (textures, side, side)."""
    step = np.arange(side) * 8 // side  # eighths of the digit
    stripes = np.where(step % 2 == 0, 8, 4)[:, None] * np.ones(side, dtype=np.int64)
    dots = np.where((step[:, None] + step[None, :]) % 2 == 0, 8, 4)
    by_name = {"plain": np.full((side, side), 8), "striped": stripes, "dotted": dots}
    return np.stack([by_name[name] for name in TEXTURES]).astype(np.int32)


@cache
def _uneven_grounds() -> Pixels:
    """Return each ground, slightly uneven and larger than a canvas, to be cut from."""
    rng = np.random.default_rng(0)
    grain = rng.integers(-7, 8, (2 * CANVAS, 2 * CANVAS, 1))
    colours = np.array(list(GROUNDS.values()))
    return np.clip(colours[:, None, None] + grain, 0, 255).astype(np.uint8)


def draw(scene: Scene, scale: int = 1) -> Pixels:
    """Draw a scene (scale · CANVAS, scale · CANVAS, 3)."""
    # Where the ground is cut depends on the scene's content alone.
    x, y = scene.things[0].box[:2]
    canvas = _uneven_grounds()[scene.ground, y : y + CANVAS, x : x + CANVAS].copy()
    if scale > 1:
        canvas = canvas.repeat(scale, 0).repeat(scale, 1)
    for thing in scene.things:
        x1, y1, x2, y2 = (edge * scale for edge in thing.box)
        side = x2 - x1
        ink = _ink(thing.image, side) * _texture(side)[thing.texture] >> 3
        patch, opacity = canvas[y1:y2, x1:x2], ink[:, :, None]
        patch[:] = (patch * (255 - opacity) + _RGB[thing.colour] * opacity) // 255
    return canvas
