"""Where boxes are, in numbers that attention can compare. No module here."""

from __future__ import annotations

import torch
from torch import Tensor

from pmn_cl.modules.runtime.environment import Environment


def positions(boxes: Tensor) -> Tensor:
    """Return where boxes (…, 4) are (…, PLACES): centre, size, and waves over the centre.

    Attention adds up products of what it knows of two boxes. Since cos(a − b) is
    cos a cos b + sin a sin b, with waves it can tell any arrangement of two boxes that does not
    depend on where both are: left of, or next to but not the same.
    """
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + boxes[..., 2:] - 1  # from −1 to 1
    phase = centre @ _WAVES.to(centre).T
    return torch.cat([centre, size, phase.sin(), phase.cos()], dim=-1)


def observed(env: Environment) -> Tensor:
    """Return what is known of each region (S, N, d + PLACES): its features, and where it is."""
    return torch.cat([env.scenes.regions, positions(env.scenes.boxes)], dim=2)


def _waves(finest: int) -> Tensor:
    """Return the directions and frequencies (waves, 2) of plane waves, none twice.

    The longest is twice as long as the picture, so that no two places look alike.
    """
    numbers = range(-finest, finest + 1)
    half = [(i, j) for i in numbers for j in numbers if i > 0 or (i == 0 and j > 0)]
    return torch.tensor(half, dtype=torch.float32) * (torch.pi / 2)


_WAVES = _waves(finest=4)
PLACES = 4 + 2 * len(_WAVES)  # numbers that say where a box is
