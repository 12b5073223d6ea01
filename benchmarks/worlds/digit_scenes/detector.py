"""The "detector": turns each proposed box into a feature vector, as Faster R-CNN would.

What a box shows is taken apart into ink (where something differs from the ground), its colour,
the ground and the box's size, and a fixed random network mixes these. It is never trained; its
noise, an option of the world, sets how hard it is to read.

All sums run over whole numbers that a float32 holds exactly, so their order does not matter
and every machine computes the same features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.render import Pixels

GLIMPSE = 12  # a box is seen as so many pixels on a side
_HIDDEN = 512
_REPEATS = {"colour": 8, "ground": 4, "size": 8}  # how often each is given, against 144 of ink
_INPUTS = GLIMPSE * GLIMPSE + 3 * _REPEATS["colour"] + 3 * _REPEATS["ground"] + 2 * _REPEATS["size"]
_FAINTEST = 60  # ink is stretched to full contrast, but not where there is none

Whole = NDArray[np.int32]


class Detector:
    """Fixed random features of boxes."""

    def __init__(self, seed: int, *, width: int, noise: float) -> None:
        rng = np.random.default_rng([seed, 2])
        self._first = rng.integers(-7, 8, (_INPUTS, _HIDDEN)).astype(np.float32)
        self._second = rng.integers(-7, 8, (_HIDDEN, width)).astype(np.float32)
        self._noise = noise

    def __call__(
        self, canvas: Pixels, boxes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float16]:
        """Return the features (n, width) of boxes (n, 4) on one canvas."""
        seen = _take_apart(glimpse(canvas, boxes).astype(np.int32), boxes).astype(np.float32)
        hidden = np.clip(np.floor(seen @ self._first / 16), 0, 4095)  # whole numbers again
        out = hidden @ self._second / np.float32(1 << 14)
        out = out / (1 + np.abs(out))
        noise = rng.standard_normal(out.shape, dtype=np.float32) * np.float32(self._noise)
        return np.asarray(out + noise, dtype=np.float16)


def glimpse(canvas: Pixels, boxes: NDArray[np.int64]) -> Pixels:
    """Look into boxes (n, 4): the nearest pixels on a regular grid (n, GLIMPSE, GLIMPSE, 3)."""
    steps = 2 * np.arange(GLIMPSE) + 1
    lengths = boxes[:, 2:] - boxes[:, :2]
    at = boxes[:, :2, None] + lengths[:, :, None] * steps // (2 * GLIMPSE)  # (n, 2, GLIMPSE)
    looked: Pixels = canvas[at[:, 1, :, None], at[:, 0, None, :]]
    return looked


def _take_apart(seen: Whole, boxes: NDArray[np.int64]) -> Whole:
    """Return what the network is given for each box (n, _INPUTS), in whole numbers."""
    n = len(seen)
    border = np.concatenate([seen[:, 0], seen[:, -1], seen[:, 1:-1, 0], seen[:, 1:-1, -1]], axis=1)
    ground = np.partition(border, border.shape[1] // 2, axis=1)[:, border.shape[1] // 2]  # (n, 3)
    difference = seen - ground[:, None, None]
    ink = np.abs(difference).max(axis=3)
    strongest = np.maximum(ink.max(axis=(1, 2)), _FAINTEST)
    ink = ink * 255 // strongest[:, None, None] - 64
    colour = difference.sum(axis=(1, 2)) * 4 // (GLIMPSE * GLIMPSE)
    size = (boxes[:, 2:] - boxes[:, :2]) * 16 - 256
    parts = (
        ink.reshape(n, -1),
        colour.repeat(_REPEATS["colour"], axis=1),
        ((ground - 128) // 2).repeat(_REPEATS["ground"], axis=1),
        size.repeat(_REPEATS["size"], axis=1),
    )
    return np.concatenate(parts, axis=1).astype(np.int32)
