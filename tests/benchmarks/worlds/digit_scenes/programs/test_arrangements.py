"""What boxes form, on true boxes and on those that a detector proposes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds.digit_scenes.programs.arrangements import arrangement_of
from pmn_cl.data.store import Store


@pytest.mark.parametrize("split", ["train", "val", "test", "novel"])
def test_every_stored_scene(digits: Store, split: str) -> None:
    scenes = {n: c.load() for n, c in digits.table(split, "scenes").items() if n != "regions"}
    boxes, there = scenes["thing_box"] / 192, scenes["digit"] >= 0
    found = [arrangement_of(b[t]) for b, t in zip(boxes, there, strict=True)]
    assert np.array_equal(found, scenes["arrangement"])
