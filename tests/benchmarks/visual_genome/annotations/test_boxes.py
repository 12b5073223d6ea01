"""Overlaps by counting pixels, and boxes brought into their image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.visual_genome.annotations.boxes import fit_to_image, overlaps

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


@pytest.mark.parametrize(
    ("given", "expected", "usable", "reaching"),
    [
        ((10, 20, 30, 40), (0.05, 0.2, 0.2, 0.6), True, False),
        ((0, 0, 200, 100), (0, 0, 1, 1), True, False),
        ((-10, 20, 30, 200), (0, 0.2, 0.1, 1), True, True),
        ((190, 20, 30, 40), (0.95, 0.2, 1, 0.6), True, True),
        ((250, 20, 30, 40), None, False, False),  # beside the image
        ((10, 20, 0, 40), None, False, False),
        ((10, 20, 30, -4), None, False, False),
        ((10, 20, float("nan"), 4), None, False, False),
        ((10, 20, float("inf"), 4), None, False, False),
        ((1e300, 20, 1e300, 4), None, False, False),
    ],
)
def test_boxes_become_shares_of_their_image(given, expected, usable, reaching) -> None:  # noqa: ANN001
    fitted = fit_to_image([given], [(200, 100)])
    assert (bool(fitted.usable[0]), bool(fitted.reaching_out[0])) == (usable, reaching)
    if expected is not None:
        np.testing.assert_allclose(fitted.boxes[0], expected, atol=1e-6)
    assert np.isfinite(fitted.boxes).all()
