"""What several seeds say: means, differences and aggregates, with intervals and tests. No torch.

Where ``scores`` are a matrix, it has a row for each seed and a column for each task, in units that
can be averaged over tasks (``bounds``). Aggregates are those of Agarwal et al. (2021).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = Sequence[Sequence[float]] | Floats


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
    p_flipped: float | None = None  # of the permutation test that flips signs: 2 / 2ⁿ at least


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
    return Paired(interval(differences), len(seeds), p, sign_flip_p(differences))


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Return how often signs at random make a mean as far from 0: a test without a distribution.

    Exact up to 16 differences, from 99,999 draws beyond.
    """
    if len(differences) < 2:
        return None
    found = stats.permutation_test(
        (np.asarray(differences, dtype=float),),
        np.mean,
        permutation_type="samples",
        n_resamples=99_999,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def interquartile_mean(scores: Floats) -> Floats:
    """Return the mean of the middle half of scores (…, n): the mean without its outliers."""
    found: Floats = stats.trim_mean(scores, 0.25, axis=-1)
    return found


def optimality_gap(scores: Floats) -> Floats:
    """Return how far scores (…, n) are below 1 on average; one above it makes up for no other."""
    found: Floats = np.maximum(1.0 - scores, 0.0).mean(axis=-1)
    return found


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """Return how probably a seed of ours is above one of theirs, mean over tasks; ties count half.

    It is the statistic of Mann and Whitney, over the number of pairs.
    """
    x, y = (np.asarray(scores, dtype=float) for scores in (ours, theirs))
    above = x[:, None, :] > y[None, :, :]
    ties = x[:, None, :] == y[None, :, :]
    return float((above + 0.5 * ties).mean())


def performance_profile(scores: Scores, thresholds: Sequence[float]) -> list[float]:
    """Return which share of all scores is above each threshold."""
    found = np.asarray(scores, dtype=float).ravel()
    return [float((found > threshold).mean()) for threshold in thresholds]


def bootstrapped(
    statistic: Callable[[Floats], Floats], scores: Scores, draws: int = 2000, seed: int = 0
) -> Interval:
    """Return a statistic of all scores with its 95% interval, by drawing seeds again for each task.

    It is the stratified percentile bootstrap: tasks are fixed, and the seeds of each are drawn with
    replacement. One seed has no interval.
    """
    found = np.asarray(scores, dtype=float)
    value, (seeds, tasks) = float(statistic(found.ravel())), found.shape
    if seeds < 2:
        return Interval(value, None, None)
    drawn = np.random.default_rng(seed).integers(seeds, size=(draws, seeds, tasks))
    again = np.take_along_axis(found[None], drawn, axis=1).reshape(draws, -1)
    low, high = np.percentile(statistic(again), (2.5, 97.5))
    return Interval(value, float(low), float(high))


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
