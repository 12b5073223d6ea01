"""The environment ℰ that every module can see. Not here: what modules make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.modules.runtime import grouping
from pmn_cl.modules.runtime.grouping import SceneGroups
from pmn_cl.modules.runtime.overlaps import intersection_over_union
from pmn_cl.modules.runtime.trace import Trace

if TYPE_CHECKING:
    from pmn_cl.modules.runtime.memory import Memory, MemoryTable


@dataclass(frozen=True, eq=False)
class Environment:
    """Regions X with their boxes, and the question where there is one, of a batch of samples.

    ``scenes`` is the same for the scenes of the batch, each once however many samples are about it.
    """

    regions: Tensor  # (B, N, d)
    boxes: Tensor  # (B, N, 4)
    mask: Tensor  # (B, N), False for padding
    fields: Mapping[str, Tensor] = field(default_factory=dict)  # a batch's other columns
    # The runtime's: results that outlive a batch, those of this batch, and of parts of it.
    memory: Memory | None = None
    trace: Trace | None = None
    task: str = ""  # whose samples these are
    results: dict[tuple[int, str], Any] = field(default_factory=dict)
    results_of_parts: dict[tuple[int, str], MemoryTable] = field(default_factory=dict)
    part_of: tuple[Environment, Tensor] | None = None  # and which of its samples these are
    of_scenes: bool = False  # rows are scenes already: one that comes back stays another

    @classmethod
    def of(
        cls,
        batch: Mapping[str, Tensor],
        memory: Memory | None = None,
        trace: Trace | None = None,
        task: str = "",
    ) -> Environment:
        """Return the environment of a batch; refuse one in which there is nothing to see."""
        fields = dict(batch.items())
        missing = [name for name in ("regions", "boxes", "mask") if name not in fields]
        if missing:
            raise UserError(
                f"the batch has no {', '.join(missing)}; it has {', '.join(sorted(fields))}"
            )
        regions, boxes, mask = (fields.pop(name) for name in ("regions", "boxes", "mask"))
        if regions.shape[1] == 0 or not bool(mask.any(1).all()):
            raise UserError("a scene has no regions: modules need at least one to look at")
        if regions.dtype == torch.float16:  # as large stores keep them
            regions = regions.float()
        return cls(regions, boxes, mask, fields, memory, trace, task)

    def __getitem__(self, name: str) -> Tensor:
        """Return another column of the batch, such as the question."""
        if name not in self.fields:
            there = ", ".join(["regions", "boxes", "mask", *sorted(self.fields)])
            raise UserError(f"the batch has no field {name!r}; it has {there}")
        return self.fields[name]

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def groups(self) -> SceneGroups | None:
        """Return which samples are about the same scene; None where none are.

        A trace shows samples one by one, and does without.
        """
        if self.of_scenes or self.trace is not None or "scene" not in self.fields:
            return None
        return SceneGroups.of(self.fields["scene"])

    @cached_property
    def scenes(self) -> Environment:
        """Return the environments of the scenes (S): of all samples, where each has its own."""
        if self.of_scenes:
            return self
        first, part_of = None if self.groups is None else self.groups.first, self.part_of
        if part_of is not None:
            whole, among = part_of
            scenes = among if first is None else among[first]
            if whole.groups is not None:
                scenes = whole.groups.scene_of[scenes]
            part_of = whole.scenes, scenes
        if first is None:
            return replace(self, part_of=part_of, of_scenes=True)
        return replace(
            self,
            regions=self.regions[first],
            boxes=self.boxes[first],
            mask=self.mask[first],
            fields={"scene": self.fields["scene"][first]},
            results={},
            results_of_parts={},
            part_of=part_of,
            of_scenes=True,
        )

    @cached_property
    def overlaps(self) -> Tensor:
        """Return the overlap (B, N, N) of every two boxes, none with padding."""
        if not self.of_scenes:
            return self.of_samples(self.scenes.overlaps)
        return intersection_over_union(self.boxes.masked_fill(~self.mask[:, :, None], 0))

    def of_samples(self, values: Tensor) -> Tensor:
        """Return for each sample (B, …) what is known of its scene (S, …), or of itself already."""
        if self.groups is None or len(values) == len(self):
            return values
        return values[self.groups.scene_of]

    def rows(self, chosen: Tensor) -> Environment:
        """Return the environments of some samples, without trace.

        Results about them are kept with the whole, for the next part that has these samples.
        """
        whole, among = self.part_of or (self, None)
        return replace(
            self,
            regions=self.regions[chosen],
            boxes=self.boxes[chosen],
            mask=self.mask[chosen],
            fields={name: value[chosen] for name, value in self.fields.items()},
            trace=None,
            results={},
            results_of_parts={},
            part_of=(whole, chosen if among is None else among[chosen]),
        )

    def mean_of(self, vectors: Tensor) -> Tensor:
        """Return the mean (B, d) of what is known (B, N, d) of the regions that are there."""
        weights = self.mask / self.mask.sum(1, keepdim=True)
        return grouping.weighted_sum(weights, vectors, groups=None)

    def attended(self, attention: Tensor) -> Tensor:
        """Return the sum of the regions (B, d), weighted by an attention map (B, N)."""
        return self.weighted_sum(attention, self.scenes.regions)

    def weighted_sum(self, weights: Tensor, vectors: Tensor) -> Tensor:
        """Return Σᵢ wᵢ vᵢ (B, d), by samples' weights (B, N), of vectors of samples or scenes."""
        return grouping.weighted_sum(weights, vectors, self.groups)

    def products(self, keys: Tensor, vectors: Tensor) -> Tensor:
        """Return k · vᵢ (B, N), of samples' keys (B, d) and vectors of samples or scenes."""
        return grouping.products(keys, vectors, self.groups)

    def softmax(self, logits: Tensor) -> Tensor:
        """Turn logits (B, N) into an attention map; padding gets none."""
        return logits.masked_fill(~self.mask, -torch.inf).softmax(1)


def select(query: Any, chosen: Tensor) -> Any:
    """Return the rows of a query: a tensor, a named tuple of tensors, or nothing."""
    if isinstance(query, Tensor):
        return query[chosen]
    if isinstance(query, tuple):
        return type(query)(*(select(part, chosen) for part in query))
    return query
