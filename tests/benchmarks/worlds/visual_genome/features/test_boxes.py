"""Which boxes are kept: against plain arithmetic with fractions, and by hand-worked cases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.worlds.visual_genome.features.boxes import (
    choose_regions,
    sides_exchanged,
    without_duplicates,
)
from benchmarks.worlds.visual_genome.features.counts import Counts
from benchmarks.worlds.visual_genome.features.images import Image

Array = np.ndarray[Any, Any]


def image(boxes: Any, features: Any = None, confidences: Any = None) -> Image:
    corners = np.array(boxes, "f4")
    marks = np.arange(len(corners), dtype="f4")[:, None] if features is None else features
    scores = None if confidences is None else np.array(confidences, "f4")
    return Image(1, 100, 50, corners, np.array(marks, "f4"), scores)


def kept(found: Any) -> list[float]:
    return [] if found is None else found.features[:, 0].tolist()


def overlap(one: list[int], other: list[int]) -> Fraction:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0, wide) * max(0, high)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return Fraction(shared, sum(areas) - shared)


sides = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(4, 12), st.integers(4, 12))


@settings(deadline=None, max_examples=150)
@given(given_boxes=st.lists(sides, min_size=1, max_size=40))
def test_a_box_is_kept_if_it_overlaps_none_kept_before(
    given_boxes: list[tuple[int, int, int, int]],
) -> None:
    boxes = [[x, y, x + width, y + height] for x, y, width, height in given_boxes]
    expected: list[int] = []
    for place, box in enumerate(boxes):
        if all(overlap(box, boxes[other]) <= Fraction(7, 10) for other in expected):
            expected.append(place)
    assert without_duplicates(np.array(boxes, "f8")).tolist() == expected


def test_overlap_of_just_seven_tenths_is_kept() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 7], [0, 0, 10, 7.1], [50, 0, 60, 10.0]])
    assert without_duplicates(boxes).tolist() == [0, 1, 3]  # 7.1 of 10 is more


def test_boxes_are_cut_to_the_image_or_dropped() -> None:
    counts = Counts()
    found = choose_regions(
        image(
            [
                [0, 0, 50, 25],
                [-10, 10, 20, 70],  # reaches out to the left and below
                [10, 10, 10, 30],  # no width
                [40, 40, 30, 45],  # the wrong way round
                [120, 10, 140, 20],  # beside the image
                [np.nan, 0, 5, 5],
            ]
        ),
        counts,
    )
    assert found is not None
    np.testing.assert_allclose(found.boxes, [[0, 0, 0.5, 0.5], [0, 0.2, 0.2, 1]])
    assert kept(found) == [0, 1]
    assert (counts.boxes, counts.kept_boxes) == (6, 2)
    assert (counts.repaired_boxes, counts.boxes_without_area) == (1, 4)


def test_the_most_confident_of_duplicates_is_kept_and_comes_first() -> None:
    boxes = [[0, 0, 40, 40], [1, 0, 40, 40], [60, 0, 90, 40]]
    assert kept(choose_regions(image(boxes, confidences=[0.2, 0.9, 0.5]), Counts())) == [1, 2]
    assert kept(choose_regions(image(boxes), Counts())) == [0, 2]


@pytest.mark.parametrize(("confident", "expected"), [(False, range(36)), (True, range(39, 3, -1))])
def test_at_most_36(confident: bool, expected: range) -> None:
    boxes = [[2 * i, 0, 2 * i + 2, 10] for i in range(40)]
    counts = Counts()
    found = choose_regions(image(boxes, None, range(40) if confident else None), counts)
    assert kept(found) == list(expected)
    assert counts.boxes_beyond == 4 and counts.kept_boxes == 36


def test_features_that_are_no_numbers_lose_their_box_and_large_ones_are_cut() -> None:
    boxes = [[0, 0, 40, 40], [0, 0, 40, 39], [60, 0, 90, 40], [0, 40, 90, 50], [0, 0, 0, 9]]
    features = [[np.nan, 1], [1, 1e30], [-70000, 65504], [np.inf, 0], [1e9, 1e9]]
    counts = Counts()
    found = choose_regions(image(boxes, features), counts)
    assert found is not None  # the first of two duplicates is not usable: the second is kept
    np.testing.assert_array_equal(found.features, [[1, 65504], [-65504, 65504]])
    assert counts.boxes_not_finite == 2 and counts.clipped_values == 2
    assert counts.duplicate_boxes == 0 and counts.boxes_without_area == 1


def test_nothing_usable() -> None:
    assert choose_regions(image([[0, 0, 0, 0]]), Counts()) is None


@pytest.mark.parametrize(
    ("box", "expected"), [([0, 0, 90, 20], 1), ([0, 0, 40, 90], -1), ([0, 0, 40, 40], 0)]
)
def test_sides_exchanged(box: list[float], expected: int) -> None:
    assert sides_exchanged(image([box])) == expected
