"""How much boxes overlap, by hand."""

from __future__ import annotations

import pytest
import torch

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.overlaps import intersection_over_union

BOXES = torch.tensor([[[0.0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6], [0, 0, 0, 0]]])


def test_overlap_by_hand() -> None:
    found = intersection_over_union(BOXES)[0]
    assert found[0].tolist() == pytest.approx([1, 1 / 3, 0, 0])
    assert found[3].tolist() == pytest.approx([0, 0, 0, 0])  # an empty box overlaps nothing


def test_samples_have_the_overlaps_of_their_scene_and_none_with_padding() -> None:
    boxes = torch.cat([BOXES, BOXES.flip(1)])[[0, 1, 0]]  # samples 0 and 2 are about one scene
    batch = {
        "regions": torch.zeros(3, 4, 2),
        "boxes": boxes,
        "mask": torch.tensor([[True] * 4, [True] * 4, [True] * 4]),
        "scene": torch.tensor([7, 3, 7]),
    }
    found = Environment.of(batch).overlaps
    assert torch.equal(found, intersection_over_union(boxes))
    batch["mask"] = torch.tensor([[True, False, True, True]] * 3)
    found = Environment.of(batch).overlaps
    assert found[0, 0].tolist() == pytest.approx([1, 0, 0, 0])
    assert not found[:, 1].any()
