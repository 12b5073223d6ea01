"""The mean of grades with its interval, where every question has several judges.

Grades of one question have the question in common, and grades of one judge the judge: treated as
independent they would look far more certain than they are. The interval is about other questions
*and* other judges of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pmn_cl.results.statistics import Interval

INTERVALS = """\
Means are over questions, each the mean of its judges. Intervals are 95%, clustered by question and
by judge (what other questions and other judges of the same kind would give; Student's t with
Satterthwaite's degrees of freedom). With one judge they are over questions alone."""


class Grade(NamedTuple):
    """One number that a judge gave for a question, or the difference of two."""

    question: str
    judge: int
    stratum: str  # what the question was drawn from
    value: float


def mean_grade(grades: Sequence[Grade], shares: Mapping[str, float] | None = None) -> Interval:
    """Return the mean over questions and its 95% interval.

    ``shares`` is how much of all questions a stratum stands for; without, questions count alike.
    The interval needs two questions in each stratum.
    """
    questions = np.array([grade.question for grade in grades])
    strata = np.array([grade.stratum for grade in grades])
    judges = np.array([grade.judge for grade in grades])
    values = np.array([grade.value for grade in grades], dtype=float)
    weights = 1 / _totals(np.ones(len(values)), questions)[1]  # a question counts once
    sizes, of_stratum = _totals(weights, strata)  # numbers of questions
    if shares is not None:
        weights *= np.array([shares[stratum] for stratum in strata]) / of_stratum
    weights /= weights.sum()
    mean = float(weights @ values)
    if min(sizes) < 2:
        return Interval(mean, None, None)

    # Linearised: by how much each grade moves the mean, around the mean of its stratum.
    middle = _totals(weights * values, strata)[1] / _totals(weights, strata)[1]
    moves = weights * (values - middle)
    by_question, _ = _totals(moves, questions)
    few = of_stratum / (of_stratum - 1)
    first = np.unique(questions, return_index=True)[1]
    over_questions = float(few[first] @ by_question**2)
    freedom = float(len(by_question) - len(sizes))
    variance = over_questions
    by_judge, _ = _totals(moves, judges)
    if len(by_judge) > 1:
        over_judges = float(len(by_judge) / (len(by_judge) - 1) * (by_judge @ by_judge))
        counted_twice = float(moves @ moves)  # what is of this question and this judge alone
        if over_judges > counted_twice:
            variance += over_judges - counted_twice
            parts = over_questions**2 / freedom + over_judges**2 / (len(by_judge) - 1)
            freedom = max(1.0, min(freedom, variance**2 / parts))
    half = float(stats.t.ppf(0.975, freedom) * np.sqrt(variance))
    return Interval(mean, mean - half, mean + half)


def _totals(
    values: NDArray[np.float64], labels: NDArray[np.generic]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the total of each label, and of every value's own label."""
    _, places = np.unique(labels, return_inverse=True)
    totals = np.bincount(places, weights=values).astype(np.float64)
    return totals, totals[places]
