"""Boxes brought into their image."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.genome.boxes import fit_to_image


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
