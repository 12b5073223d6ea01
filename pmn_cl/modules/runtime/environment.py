"""The environment ℰ that every module can see. Not here: what modules make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.arithmetic import weighted_sum
from pmn_cl.modules.runtime.trace import Trace

if TYPE_CHECKING:
    from pmn_cl.modules.runtime.memory import Memory, MemoryTable


@dataclass(frozen=True, eq=False)
class Environment:
    """Regions X with their boxes, and the question where there is one, of a batch of samples."""

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

    def mean_region(self) -> Tensor:
        """Return the mean of the regions that are there (B, d)."""
        return self.attended(self.mask / self.mask.sum(1, keepdim=True))

    def attended(self, attention: Tensor) -> Tensor:
        """Return the sum of the regions (B, d), weighted by an attention map (B, N)."""
        return weighted_sum(attention, self.regions)

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
