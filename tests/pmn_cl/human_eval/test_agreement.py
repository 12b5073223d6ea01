"""Krippendorff's alpha against his own example and against another program."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.human_eval.agreement import Level, krippendorff_alpha

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: four observers,
# twelve units, some of them not seen by all.
OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
PUBLISHED = [
    [int(value) for value in unit if value != "."]
    for unit in zip(*(line.split() for line in OBSERVERS.split("\n") if line), strict=True)
]
# Three judges and eight units; alpha by the package krippendorff 0.9.0.
OTHER = [[0, 0, 1], [1, 2, 1], [2, 2], [3, 3, 4], [4, 3, 4], [4, 4, 3], [2, 1, 2], [1, 1]]
UNITS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=2, max_size=12)


@pytest.mark.parametrize(("level", "alpha"), [("ordinal", 0.815), ("interval", 0.849)])
def test_the_published_example(level: Level, alpha: float) -> None:
    found = krippendorff_alpha(PUBLISHED, level)
    assert found is not None and round(found, 3) == alpha


@pytest.mark.parametrize(
    ("level", "alpha"), [("ordinal", 0.8444968978), ("interval", 0.8463414634)]
)
def test_against_another_program(level: Level, alpha: float) -> None:
    assert krippendorff_alpha(OTHER, level) == pytest.approx(alpha, abs=1e-9)


def test_by_hand() -> None:
    # Two judges, three units: 0 0, 1 1, 0 1. Coincidences o_00 = 2, o_11 = 2, o_01 = o_10 = 1;
    # n_0 = n_1 = 3; alpha = 1 - (6 - 1) * 2 / (2 * 3 * 3).
    assert krippendorff_alpha([[0, 0], [1, 1], [0, 1]], "interval") == pytest.approx(1 - 10 / 18)


@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_perfect_agreement_is_one_and_no_difference_is_undefined(level: Level) -> None:
    assert krippendorff_alpha([[0, 0, 0], [3, 3], [4, 4, 4]], level) == pytest.approx(1)
    assert krippendorff_alpha([[2, 2], [2, 2]], level) is None
    assert krippendorff_alpha([[0], [3]], level) is None  # nobody to agree with
    assert krippendorff_alpha([], level) is None


@given(UNITS, st.randoms())
def test_the_order_of_judges_and_units_does_not_matter(
    units: list[list[int]], chance: Random
) -> None:
    mixed = [chance.sample(unit, len(unit)) for unit in chance.sample(units, len(units))]
    for level in ("ordinal", "interval"):
        first, second = krippendorff_alpha(units, level), krippendorff_alpha(mixed, level)
        assert first == second or first == pytest.approx(second)


@given(UNITS)
def test_what_one_judge_alone_graded_does_not_count(units: list[list[int]]) -> None:
    assert krippendorff_alpha([*units, [4]], "interval") == krippendorff_alpha(units, "interval")


@given(UNITS)
def test_the_level_says_what_may_be_done_to_the_scale(units: list[list[int]]) -> None:
    """Stretched, an interval scale says the same; bent, only an ordinal one does."""
    for level, scale in (
        ("interval", [5 + 3 * v for v in range(5)]),
        ("ordinal", [0, 1, 4, 9, 16]),
    ):
        changed = [[scale[value] for value in unit] for unit in units]
        before, after = krippendorff_alpha(units, level), krippendorff_alpha(changed, level)  # type: ignore[arg-type]
        assert before == after or before == pytest.approx(after)
