"""Boxes as shares of their image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
_OUTSIDE = 1e-6  # a rounding error reaches out of no image


class Fitted(NamedTuple):
    """Boxes (n, 4) as x1, y1, x2, y2 in 0 … 1, and what was found about each (n,)."""

    boxes: Floats
    usable: NDArray[np.bool_]  # with an area inside the image
    reaching_out: NDArray[np.bool_]  # and cut at the image's edge


def fit_to_image(pixels: ArrayLike, sizes: ArrayLike) -> Fitted:
    """Turn x, y, width, height in pixels (n, 4) of images of these sizes (n, 2) into shares."""
    given, size = np.asarray(pixels, np.float64).reshape(-1, 4), np.asarray(sizes, np.float64)
    size = size.reshape(-1, 2)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        near, far = given[:, :2] / size, (given[:, :2] + given[:, 2:]) / size
        ends = np.concatenate([near, far], axis=1)
        usable = np.isfinite(ends).all(axis=1) & (given[:, 2:] > 0).all(axis=1)
        inside = np.where(usable[:, None], ends, 0).clip(0, 1)
        usable &= (inside[:, 2:] > inside[:, :2]).all(axis=1)
        reaching = usable & (np.abs(inside - ends) > _OUTSIDE).any(axis=1)
    return Fitted(inside.astype(np.float32), usable, reaching)
