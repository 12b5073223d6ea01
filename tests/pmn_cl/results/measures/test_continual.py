"""Measures inside tasks, on moments that can be followed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.results.measures.continual import (
    Gap,
    Moment,
    average_anytime,
    minimum_accuracy,
    stability_gap,
    stability_gaps,
    steps_to_recover,
    windowed_forgetting,
    windowed_plasticity,
    worst_case_accuracy,
)

# a is learned in phase 0, b in phase 1, c in phase 2; c's phase touches b but not a.
PATH = [
    Moment(0, 1, [0.1, None, None]),
    Moment(0, 4, [0.8, None, None]),
    Moment(0, 10, [0.9, None, None]),
    Moment(1, 1, [0.3, 0.0, None]),
    Moment(1, 4, [0.5, 0.6, None]),
    Moment(1, 10, [0.895, 0.7, None]),
    Moment(2, 5, [0.895, 0.2, 0.4]),
    Moment(2, 10, [0.895, 0.6, 0.8]),
]


def test_minimum_and_worst_case_by_hand() -> None:
    assert minimum_accuracy(PATH) == pytest.approx((0.3 + 0.2) / 2)
    assert worst_case_accuracy(PATH) == pytest.approx(0.8 / 3 + (2 / 3) * 0.25)


def test_gaps_by_hand() -> None:
    assert stability_gaps(PATH) == [
        # From 0.9 to 0.3 at step 1, back within 0.01 of 0.9 at step 10.
        Gap(0, 1, pytest.approx(0.6), 9),
        Gap(0, 2, 0.0, 0),
        # From 0.7 to 0.2, at best 0.6 again.
        Gap(1, 2, pytest.approx(0.5), None),
    ]
    assert stability_gap(PATH) == pytest.approx((0.6 + 0.5) / 2)
    assert steps_to_recover(PATH) is None  # b never did
    assert steps_to_recover([m._replace(scores=m.scores[:2]) for m in PATH[:6]]) == 9


def test_windows_by_hand() -> None:
    assert windowed_forgetting(PATH, window=2) == pytest.approx((0.6 + 0.5) / 2)
    # Rises of neighbours: a 0.1 to 0.8; b 0.0 to 0.6; c 0.4 to 0.8.
    assert windowed_plasticity(PATH, window=2) == pytest.approx((0.7 + 0.6 + 0.4) / 3)
    assert windowed_plasticity(PATH, window=3) == pytest.approx((0.8 + 0.7 + 0.4) / 3)


def test_anytime_by_hand() -> None:
    first = (1 * 0.1 + 3 * 0.8 + 6 * 0.9) / 10
    second = (1 * 0.15 + 3 * 0.55 + 6 * (0.895 + 0.7) / 2) / 10
    third = (5 * (0.895 + 0.2 + 0.4) / 3 + 5 * (0.895 + 0.6 + 0.8) / 3) / 10
    assert average_anytime(PATH) == pytest.approx((first + second + third) / 3)


def test_a_task_that_was_never_scored_leaves_a_gap() -> None:
    unseen = [m._replace(scores=[None, *m.scores[1:]]) if m.phase else m for m in PATH]
    assert minimum_accuracy(unseen) is None and worst_case_accuracy(unseen) is None
    assert stability_gap(unseen) is None
    for nothing in (minimum_accuracy, worst_case_accuracy, stability_gap, average_anytime):
        assert nothing([]) is None


flat = st.lists(st.floats(0, 1), min_size=2, max_size=4)


@given(flat, st.integers(1, 5))
def test_where_nothing_moves_nothing_is_lost(levels: list[float], evaluations: int) -> None:
    """Each task is at its level from the first step of its phase on, as frozen modules would be."""
    count = len(levels)
    moments = [
        Moment(phase, step, [levels[j] if j <= phase else None for j in range(count)])
        for phase in range(count)
        for step in range(1, evaluations + 1)
    ]
    assert stability_gap(moments) == 0
    assert minimum_accuracy(moments) == pytest.approx(sum(levels[:-1]) / (count - 1))
    assert worst_case_accuracy(moments) == pytest.approx(sum(levels) / count)
    if evaluations > 1:
        assert windowed_forgetting(moments) == 0 == windowed_plasticity(moments)
