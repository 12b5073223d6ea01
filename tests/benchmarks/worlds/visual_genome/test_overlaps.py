"""Overlaps by counting pixels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.worlds.visual_genome.overlaps import overlaps

sides = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 6), st.integers(1, 6))


def pixels(box: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    x, y, w, h = box
    return {(i, j) for i in range(x, x + w) for j in range(y, y + h)}


@given(st.lists(sides, min_size=1, max_size=4), st.lists(sides, min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_overlaps_are_shares_of_pixels(ones: list, others: list) -> None:
    corners = [
        np.array([[x, y, x + w, y + h] for x, y, w, h in some], "f4") for some in (ones, others)
    ]
    expected = [
        [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for b in others] for a in ones
    ]
    np.testing.assert_allclose(overlaps(*corners), expected, atol=1e-6)
    # Width and height may be scaled: nothing changes.
    scaled = [c * [0.37, 2.1, 0.37, 2.1] for c in corners]
    np.testing.assert_allclose(overlaps(*scaled), expected, atol=1e-6)


def test_a_box_without_area_overlaps_nothing() -> None:
    empty, box = np.zeros((1, 4)), np.array([[0, 0, 1, 1.0]])
    assert overlaps(empty, box) == 0 and overlaps(empty, empty) == 0
