"""Means over seeds with their intervals, how text shows them, paired differences. No torch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A mean and its 95% interval, which one value alone does not have."""

    mean: float
    low: float | None
    high: float | None


class Paired(NamedTuple):
    """The mean difference over common seeds, its interval, and the p-value of a paired t-test."""

    difference: Interval
    seeds: int
    p: float | None  # not corrected


def interval(values: Sequence[float]) -> Interval:
    """Return mean and 95% interval by Student's t."""
    found = np.asarray(values, dtype=float)
    mean = float(found.mean())
    if len(found) < 2:
        return Interval(mean, None, None)
    half = _quantile(len(found) - 1) * float(found.std(ddof=1)) / len(found) ** 0.5
    return Interval(mean, mean - half, mean + half)


@cache
def _quantile(freedom: int) -> float:
    return float(stats.t.ppf(0.975, freedom))


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """Compare two strategies on the seeds that both have; None where there are none."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    differences = [ours[seed] - theirs[seed] for seed in seeds]
    p = None
    if len(seeds) > 1 and np.std(differences) > 0:
        p = float(stats.ttest_1samp(differences, 0.0).pvalue)
    return Paired(interval(differences), len(seeds), p)


def seeds_needed(pair: Paired, power: float = 0.8, most: int = 1000) -> int | None:
    """Return how many seeds would show a difference as large as this one, if it is there.

    That is, with how many a paired t-test at 5%, not corrected, finds it in 80% of tries (Cohen
    1988). None where that takes more than ``most``, where there is none, or seeds do not differ.
    """
    mean, _, high = pair.difference
    if high is None or high == mean or mean == 0:
        return None
    deviation = (high - mean) * pair.seeds**0.5 / _quantile(pair.seeds - 1)
    counts = range(2, most + 1)
    place = bisect_left(counts, power, key=lambda count: _power(abs(mean) / deviation, count))
    return counts[place] if place < len(counts) else None


def _power(effect: float, count: int) -> float:
    """Return how often a paired t-test at 5% finds a difference of so many standard deviations."""
    # t² is distributed as F; scipy's noncentral t has no numbers for its far tail.
    return float(stats.ncf.sf(_quantile(count - 1) ** 2, 1, count - 1, effect**2 * count))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for how many there are (Holm 1979); what has none keeps none.

    Ours, as scipy has no Holm, and statsmodels is 65 MB for these lines.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected


def as_plus_minus(found: Interval | None, form: str = ".3f") -> str:
    """Return "mean ± half of the interval"; the mean where it has none, nothing without a mean."""
    if found is None:
        return ""
    unsigned = form.lstrip("+")
    half = "" if found.high is None else f" ± {found.high - found.mean:{unsigned}}"
    return f"{found.mean:{form}}{half}"


def as_bracketed(found: Interval, form: str = ".3f") -> str:
    """Return "mean [low, high]", or the mean where it has no interval."""
    ends = "" if found.low is None else f" [{found.low:{form}}, {found.high:{form}}]"
    return f"{found.mean:{form}}{ends}"


def as_range(found: Interval, form: str = "+.3f") -> str:
    """Return "low to high", or that one seed has no interval."""
    return "one seed" if found.low is None else f"{found.low:{form}} to {found.high:{form}}"
