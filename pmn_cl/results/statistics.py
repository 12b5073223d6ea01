"""Means over seeds with their intervals, how text shows them, paired differences. No torch."""

from __future__ import annotations

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
