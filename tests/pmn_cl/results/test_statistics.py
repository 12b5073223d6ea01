"""Intervals, paired tests and aggregates: against scipy, rliable and hand calculations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rliable import metrics
from scipy import stats

from pmn_cl.results.statistics import (
    Floats,
    Interval,
    as_bracketed,
    as_plus_minus,
    as_range,
    bootstrapped,
    holm,
    interquartile_mean,
    interval,
    optimality_gap,
    paired,
    performance_profile,
    probability_of_improvement,
    seeds_needed,
    sign_flip_p,
)


def test_the_interval_by_hand() -> None:
    # Mean 2, standard error 1/√3, t(0.975, 2) = 4.302653.
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high is not None and low is not None
    assert high - mean == pytest.approx(4.302653 / 3**0.5, abs=1e-6)
    assert mean - low == pytest.approx(high - mean)


def test_one_seed_has_no_interval_and_no_p_value() -> None:
    assert interval([0.4]) == (0.4, None, None)
    found = paired({0: 0.5}, {0: 0.4, 1: 0.2})
    assert found is not None
    assert (found.seeds, found.p, found.difference.low) == (1, None, None)


def test_pairs_are_of_the_same_seed() -> None:
    ours, theirs = {0: 0.5, 1: 0.7, 3: 0.9}, {1: 0.6, 0: 0.1, 2: 0.0, 3: 0.85}
    found = paired(ours, theirs)
    assert found is not None and found.seeds == 3
    assert found.difference.mean == pytest.approx((0.4 + 0.1 + 0.05) / 3)
    assert found.p == pytest.approx(stats.ttest_rel([0.5, 0.7, 0.9], [0.1, 0.6, 0.85]).pvalue)
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_intervals_as_text() -> None:
    found, alone = Interval(0.25, 0.125, 0.375), Interval(0.5, None, None)
    assert as_plus_minus(found) == "0.250 ± 0.125"
    assert as_plus_minus(found, "+.2f") == "+0.25 ± 0.12"  # half of an interval has no sign
    assert as_bracketed(found) == "0.250 [0.125, 0.375]"
    assert as_bracketed(found, "+.1f") == "+0.2 [+0.1, +0.4]"
    assert as_range(found) == "+0.125 to +0.375"
    assert (as_plus_minus(alone), as_bracketed(alone)) == ("0.500", "0.500")
    assert as_range(alone) == "one seed"
    assert as_plus_minus(None) == ""


def test_holms_correction_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.04 of three: 0.03, 0.04, 0.04.
    assert holm([0.04, None, 0.01, 0.02]) == pytest.approx([0.04, None, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(min_value=0, max_value=1), max_size=8))
def test_corrected_values_keep_their_order_and_never_fall(values: list[float]) -> None:
    corrected = holm(values)
    for (p, c), (q, d) in zip(
        zip(values, corrected, strict=True),
        zip(values[1:], corrected[1:], strict=True),
        strict=False,
    ):
        assert c is not None and d is not None
        assert p <= c <= 1
        if p < q:
            assert c <= d


@pytest.mark.parametrize(
    ("effect", "seeds"),
    # As tables of power for the paired t-test have it (5%, two-sided, 80%), in standard deviations.
    [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (-1.0, 10)],
)
def test_seeds_needed_are_those_of_tables(effect: float, seeds: int) -> None:
    values = {0: effect - 1, 1: effect, 2: effect + 1}  # of standard deviation 1
    found = paired(values, dict.fromkeys(values, 0.0))
    assert found is not None and seeds_needed(found) == seeds


@given(st.floats(0.001, 12.7), st.integers(2, 9))
def test_what_was_within_chance_needs_more_seeds_than_there_were(t: float, count: int) -> None:
    """Whatever the effect: with the seeds that there were, the test did not find it."""
    apart = [-1.0, 1.0, *([0.0] * (count - 2))]  # of standard deviation √(2 / (count − 1))
    mean = t * (2 / (count - 1)) ** 0.5 / count**0.5
    found = paired(dict(enumerate(mean + a for a in apart)), dict.fromkeys(range(count), 0.0))
    assert found is not None and found.difference.low is not None
    needed = seeds_needed(found)
    if found.difference.low <= 0:
        assert needed is None or needed >= count


def test_two_seeds_do_not_show_what_they_do_not() -> None:
    """Three have a power of 0.78 and four of 0.98, by the noncentral t's upper tail (scipy's)."""
    found = paired({0: 0.155, 1: 0.245}, {0: 0.0, 1: 0.0})
    assert found is not None and seeds_needed(found) == 4
    effect = 0.2 / (0.09 / 2**0.5)
    power = [stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, effect * n**0.5) for n in (3, 4)]
    assert power[0] < 0.8 <= power[1]


def test_no_number_of_seeds_shows_what_is_not_there() -> None:
    for values in ([-1.0, 0.0, 1.0], [0.02, 1.02, -0.98], [0.3, 0.3], [0.3]):
        found = paired(dict(enumerate(values)), dict.fromkeys(range(len(values)), 0.0))
        assert found is not None and seeds_needed(found) is None


# --- aggregates over seeds and tasks -----------------------------------------------------------

SCORES = st.integers(2, 6).flatmap(
    lambda seeds: arrays(
        float, st.tuples(st.just(seeds), st.integers(1, 6)), elements=st.floats(-1, 2)
    )
)


@given(SCORES)
def test_aggregates_are_those_of_another_library(scores: Floats) -> None:
    assert float(interquartile_mean(scores.ravel())) == pytest.approx(metrics.aggregate_iqm(scores))
    gap = metrics.aggregate_optimality_gap(scores)
    assert float(optimality_gap(scores.ravel())) == pytest.approx(gap)


@given(SCORES, st.randoms(use_true_random=False))
def test_improvement_is_as_probable_as_in_another_library(scores: Floats, random: Any) -> None:
    rows = [[random.choice(list(row)) for _ in range(scores.shape[1])] for row in scores]
    theirs = np.array(rows)
    found = probability_of_improvement(scores, theirs)
    assert found == pytest.approx(metrics.probability_of_improvement(scores, theirs))
    assert probability_of_improvement(theirs, scores) == pytest.approx(1 - found)
    assert probability_of_improvement(scores, scores) == pytest.approx(0.5)


def test_a_profile_by_hand() -> None:
    scores = [[0.2, 0.9], [0.5, 0.5]]
    assert performance_profile(scores, [0.0, 0.2, 0.5, 0.9]) == [1.0, 0.75, 0.25, 0.0]


def test_the_bootstrap_is_near_that_of_another_library() -> None:
    scores = np.random.default_rng(1).normal(0.6, 0.2, (6, 5))

    def over_tasks(*tasks: Floats, axis: int) -> Floats:
        return interquartile_mean(np.concatenate(tasks, axis=axis))

    value, low, high = bootstrapped(interquartile_mean, scores, draws=4000)
    theirs = stats.bootstrap(  # each task is a sample of its own
        [*scores.T], over_tasks, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert value == pytest.approx(metrics.aggregate_iqm(scores))
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.01)
    assert bootstrapped(interquartile_mean, scores, draws=4000) == (value, low, high)


def test_tasks_are_drawn_each_by_itself_and_one_seed_has_no_interval() -> None:
    # Both tasks have 0 and 1: a mean of ½ comes from half of all draws when tasks are drawn apart.
    value, low, high = bootstrapped(lambda x: x.mean(axis=-1), [[0.0, 1.0], [1.0, 0.0]])
    assert (value, low, high) == (0.5, 0.0, 1.0)
    assert bootstrapped(interquartile_mean, [[0.2, 0.4]]) == (pytest.approx(0.3), None, None)


@pytest.mark.parametrize("differences", [[0.3, 0.1, 0.2], [0.3, -0.1, 0.2, 0.05], [1.0, -1.0]])
def test_signs_are_flipped_in_all_ways(differences: list[float]) -> None:
    """By hand: of all signs, how many give a mean as far from 0."""
    there = abs(sum(differences))
    flipped = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    share = sum(value >= there - 1e-12 for value in flipped) / len(flipped)
    assert sign_flip_p(differences) == pytest.approx(share)
    found = paired(dict(enumerate(differences)), dict.fromkeys(range(len(differences)), 0.0))
    assert found is not None and found.p_flipped == pytest.approx(share)


def test_one_difference_has_no_signs_to_flip() -> None:
    assert sign_flip_p([0.3]) is None
