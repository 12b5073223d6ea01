"""An image's split depends on its id alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.splits import split_by_standing, standing


def test_standings_are_what_they_were() -> None:
    # printf 'coco/42' | sha256sum begins with cac0bb12d5ec2fea; divided by 2^64:
    assert standing("coco", 42) == pytest.approx(0.7920033379540861, abs=1e-15)
    assert standing("vg", 42) != standing("coco", 42)


def test_shares_are_about_those_asked_for() -> None:
    splits = split_by_standing([standing("vg", image) for image in range(20_000)], 5, 5)
    np.testing.assert_allclose(np.bincount(splits) / len(splits), [0.9, 0.05, 0.05], atol=0.005)


def test_an_image_keeps_its_split_whoever_else_is_there() -> None:
    standings = np.array([standing("vg", image) for image in range(2_000)])
    everyone = split_by_standing(standings.tolist(), 5, 5)
    some = np.random.default_rng(0).permutation(2_000)[:600]
    assert np.array_equal(split_by_standing(standings[some].tolist(), 5, 5), everyone[some])


def test_no_split_stays_empty() -> None:
    assert split_by_standing([0.9, 0.5, 0.7], 5, 5).tolist() == [0, 1, 2]  # the nearest to it
    assert split_by_standing([0.9, 0.5, 0.7], 5, 0).tolist() == [0, 1, 0]
    assert split_by_standing([0.01], 5, 5).tolist() == [1]
