"""Where boxes are: by hand, and the laws that attention needs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pmn_cl.modules.places import PLACES, positions

WAVES = 40  # half of the 9 × 9 directions and frequencies, but the constant


def test_positions_by_hand() -> None:
    """A box from (0.25, 0) to (0.75, 1): centre (0, 0) of −1 … 1; and one in the lower right."""
    boxes = torch.tensor([[0.25, 0, 0.75, 1], [0.5, 0.75, 1.0, 1.0]])
    found = positions(boxes)
    assert found.shape == (2, PLACES) == (2, 4 + 2 * WAVES)
    assert found[0].tolist() == [0, 0, 0.5, 1, *[0] * WAVES, *[1] * WAVES]
    assert found[1, :4].tolist() == [0.5, 0.75, 0.5, 0.25]
    half = [(i, j) for i in range(-4, 5) for j in range(-4, 5) if (i, j) > (0, 0)]
    phases = [math.pi / 2 * (0.5 * i + 0.75 * j) for i, j in half]
    waves = [*map(math.sin, phases), *map(math.cos, phases)]
    assert found[1, 4:].tolist() == pytest.approx(waves, abs=1e-6)


def test_products_of_waves_depend_on_how_boxes_lie_to_each_other_alone() -> None:
    """cos a cos b + sin a sin b = cos(a − b): moving both boxes changes nothing."""
    generator = torch.Generator().manual_seed(0)
    one, other, moved = torch.rand(3, 200, 2, generator=generator).double() * 0.3

    def waves(corner: Tensor) -> Tensor:
        box = torch.cat([corner, corner + 0.1], dim=1)
        return positions(box)[:, 4:]

    def product(a: Tensor, b: Tensor) -> Tensor:
        sines, cosines = (waves(a) * waves(b)).split(WAVES, dim=1)
        return sines + cosines

    assert torch.allclose(product(one, other), product(one + moved, other + moved), atol=1e-5)
    assert not torch.allclose(product(one, other), product(one + moved, other), atol=0.1)


def test_no_two_places_have_the_same_waves() -> None:
    steps = torch.linspace(0, 1, 21).double()
    corners = torch.cartesian_prod(steps, steps)
    waves = positions(torch.cat([corners, corners], dim=1))[:, 4:]
    apart = torch.cdist(waves, waves) + 100 * torch.eye(len(waves), dtype=torch.float64)
    assert float(apart.min()) > 0.5
