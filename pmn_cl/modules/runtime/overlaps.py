"""How much boxes overlap, which tells several boxes on one object from several objects."""

from __future__ import annotations

import torch
from torch import Tensor


def intersection_over_union(boxes: Tensor) -> Tensor:
    """Return the overlap (n, m, m) of every two boxes (n, m, 4) given as x1, y1, x2, y2."""
    low, high = boxes[:, :, :2], boxes[:, :, 2:]  # (n, m, 2)
    sides = torch.minimum(high[:, :, None], high[:, None]) - torch.maximum(
        low[:, :, None], low[:, None]
    )
    shared = sides.clamp(min=0).prod(dim=3)
    area = (high - low).clamp(min=0).prod(dim=2)
    return shared / (area[:, :, None] + area[:, None, :] - shared + 1e-12)
