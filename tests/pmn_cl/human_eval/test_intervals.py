"""Means of grades, and whether their intervals are as wide as they must be."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmn_cl.human_eval.intervals import Grade, mean_grade


def grades(table: NDArray[np.float64], stratum: str = "", name: str = "q") -> list[Grade]:
    """What judges (columns) gave for questions (rows); nan where one was not asked."""
    return [
        Grade(f"{name}{row}", judge, stratum, float(value))
        for (row, judge), value in np.ndenumerate(table)
        if not np.isnan(value)
    ]


def student(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return float(low), float(high)


RNG = np.random.default_rng(5)


def test_one_judge_is_students_t_over_questions() -> None:
    table = RNG.normal(2, 1, (17, 1))
    found = mean_grade(grades(table))
    assert found.mean == pytest.approx(table.mean())
    assert (found.low, found.high) == pytest.approx(student(table[:, 0]))


def test_judges_who_always_agree_are_no_more_than_one() -> None:
    one = RNG.normal(2, 1, (17, 1))
    assert mean_grade(grades(np.repeat(one, 3, axis=1))) == pytest.approx(mean_grade(grades(one)))


def test_where_only_judges_differ_many_questions_are_no_help() -> None:
    severity = np.array([1.0, 2.0, 2.5, 3.5])
    found = mean_grade(grades(np.repeat(severity[None, :], 3000, axis=0)))
    assert (found.low, found.high) == pytest.approx(student(severity), rel=2e-3)


def test_a_question_counts_once_however_many_judged_it() -> None:
    table = np.array([[4.0, 4.0, 4.0], [0.0, np.nan, np.nan], [1.0, 3.0, np.nan]])
    assert mean_grade(grades(table)).mean == pytest.approx((4 + 0 + 2) / 3)


def test_strata_by_the_textbook() -> None:
    """Cochran 1977, chapter 5: the mean by shares; its variance from within the strata alone."""
    parts = {"a": RNG.normal(3, 1, (12, 1)), "b": RNG.normal(1, 0.5, (8, 1))}
    shares = {"a": 90.0, "b": 10.0}
    some = [g for name, table in parts.items() for g in grades(table, name, name)]
    found = mean_grade(some, shares)
    mean = 0.9 * parts["a"].mean() + 0.1 * parts["b"].mean()
    variance = sum(
        share**2 * parts[name].var(ddof=1) / len(parts[name])
        for name, share in (("a", 0.9), ("b", 0.1))
    )
    half = stats.t.ppf(0.975, 20 - 2) * np.sqrt(variance)
    assert found == pytest.approx((mean, mean - half, mean + half))


def test_a_question_alone_has_no_interval() -> None:
    assert mean_grade(grades(np.array([[1.0, 2.0]]))) == (1.5, None, None)
    two = [*grades(np.array([[1.0], [2.0]]), "a", "a"), *grades(np.array([[4.0]]), "b", "b")]
    assert mean_grade(two, {"a": 1, "b": 1}) == (2.75, None, None)


@pytest.mark.parametrize(
    ("questions", "judges", "severity"), [(40, 3, 0.0), (40, 3, 0.4), (60, 5, 0.3)]
)
def test_95_percent_of_intervals_hold_the_truth(
    questions: int, judges: int, severity: float
) -> None:
    """For other questions and other judges; grades taken for independent would fall short."""
    rng = np.random.default_rng(11)
    rounds, hits, naive = 300, 0, 0
    for _ in range(rounds):
        table = rng.normal(0, 1, (questions, 1)) + severity * rng.normal(0, 1, (1, judges))
        table = table + rng.normal(0, 0.7, (questions, judges))
        found = mean_grade(grades(table))
        assert found.low is not None and found.high is not None
        hits += found.low <= 0 <= found.high
        low, high = student(table.ravel())
        naive += low <= 0 <= high
    assert 0.91 <= hits / rounds <= 0.99
    assert naive / rounds < 0.85
