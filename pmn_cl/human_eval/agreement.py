"""How far judges agree: Krippendorff's alpha (2011, "Computing Krippendorff's Alpha-Reliability").

1 is perfect agreement, 0 what chance alone would give, below 0 is worse than chance. Judges need
not all have graded everything. Higher is better. The package krippendorff is under the GPL, needs
Python 3.11, and fails where alpha is undefined; the tests compare with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Level = Literal["ordinal", "interval"]


def krippendorff_alpha(units: Iterable[Sequence[int]], level: Level) -> float | None:
    """Return alpha = 1 - D_o / D_e; None where it is undefined, as all grades are the same.

    A unit is one thing that was graded, with the grades that judges gave it, in any order. What
    only one of them graded does not count.
    """
    paired = [unit for unit in units if len(unit) > 1]
    values = np.unique([value for unit in paired for value in unit])
    coincidences = np.zeros((len(values), len(values)))  # o_ck, over all pairs within units
    for unit in paired:
        found = np.searchsorted(values, unit)
        times = np.bincount(found, minlength=len(values)).astype(float)
        coincidences += (np.outer(times, times) - np.diag(times)) / (len(unit) - 1)
    totals = coincidences.sum(axis=1)  # n_c
    distances = _squared_distances(values, totals, level)
    expected = float((np.outer(totals, totals) * distances).sum())
    if expected == 0:
        return None
    observed = float((coincidences * distances).sum())
    return 1 - (float(totals.sum()) - 1) * observed / expected


def _squared_distances(
    values: NDArray[np.int64], totals: NDArray[np.float64], level: Level
) -> NDArray[np.float64]:
    """Return how far apart any two values are, squared (values, values)."""
    if level == "interval":
        return np.subtract.outer(values, values).astype(float) ** 2
    # Ordinal: how many grades lie between two values, each end counting by half.
    ranks = np.cumsum(totals) - totals / 2
    apart: NDArray[np.float64] = np.subtract.outer(ranks, ranks) ** 2
    return apart
