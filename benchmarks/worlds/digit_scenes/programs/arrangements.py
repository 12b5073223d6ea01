"""What the boxes of a scene form together: a row, a column, a ring, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.concepts import ARRANGEMENTS

_FLAT = 0.25  # of the canvas: rows and columns spread less across, and nothing else does
_ROUND = 0.03  # of the canvas: the distances from the middle of a ring differ less


def arrangement_of(boxes: NDArray[np.floating[Any]]) -> int:
    """Return the arrangement of boxes (K, 4) whose coordinates go from 0 to 1."""
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    across, along = np.ptp(centres, axis=0)  # how far they spread: horizontally, vertically
    if along < _FLAT and along <= across:
        return ARRANGEMENTS.index("row")
    if across < _FLAT:
        return ARRANGEMENTS.index("column")
    distances = np.hypot(*(centres - 0.5).T)
    return ARRANGEMENTS.index("ring" if np.ptp(distances) < _ROUND else "scatter")
