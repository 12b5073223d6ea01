"""Which samples of a batch are about the same scene, and sums over scenes that use it.

What depends on the scene alone is worked out once for all its samples. Samples of a scene stand
next to each other in a batch; a scene that comes back later in it counts as another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pmn_cl.modules.runtime import arithmetic


@dataclass(frozen=True)
class SceneGroups:
    """B samples in S groups, one for each scene, of at most q samples each."""

    first: Tensor  # (S,): the first sample of each scene
    scene_of: Tensor  # (B,): the scene of each sample, from 0
    most: int  # q
    place: Tensor | None  # (B,) among S · q places; None: all groups are full, in their order

    @classmethod
    def of(cls, scene: Tensor) -> SceneGroups | None:
        """Return the groups of samples by their scenes (B,); None: no two are about the same."""
        numbers, scene_of, counts = torch.unique_consecutive(
            scene, return_inverse=True, return_counts=True
        )
        if len(numbers) == len(scene):
            return None
        first, most = counts.cumsum(0) - counts, int(counts.max())
        if most * len(numbers) == len(scene):
            return cls(first, scene_of, most, None)
        rank = torch.arange(len(scene), device=scene.device) - first[scene_of]
        return cls(first, scene_of, most, scene_of * most + rank)

    def pack(self, values: Tensor) -> Tensor:
        """Lay out values of samples (B, n) by scene (S, q, n); where a sample is missing, zeros."""
        packed = values
        if self.place is not None:
            whole = values.new_zeros(len(self.first) * self.most, values.shape[1])
            packed = whole.index_copy(0, self.place, values)
        return packed.view(len(self.first), self.most, -1)

    def unpack(self, packed: Tensor) -> Tensor:
        """Return the values of samples (B, n) that lie by scene (S, q, n)."""
        values = packed.flatten(0, 1)
        return values if self.place is None else values.index_select(0, self.place)


def weighted_sum(weights: Tensor, vectors: Tensor, groups: SceneGroups | None) -> Tensor:
    """Return Σᵢ wᵢ vᵢ (B, d) of weights (B, N) and vectors (B, N, d), or (S, N, d) of scenes."""
    if groups is None or len(vectors) == len(weights):
        return arithmetic.weighted_sum(weights, vectors)
    return groups.unpack(torch.bmm(groups.pack(weights), vectors))


def products(keys: Tensor, vectors: Tensor, groups: SceneGroups | None) -> Tensor:
    """Return k · vᵢ (B, N) of keys (B, d) and vectors (B, N, d), or (S, N, d) of scenes."""
    if groups is None or len(vectors) == len(keys):
        return arithmetic.products(keys, vectors)
    return groups.unpack(torch.bmm(groups.pack(keys), vectors.transpose(1, 2)))
