"""The attribute task: which attributes each region has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks import metrics

if TYPE_CHECKING:
    from torch import Tensor
from pmn_cl.tasks.base import Columns, Names, Task, ranked_shares


class AttributeTask(Task):
    """Which attributes does each region have? outputs and predictions (B, N, attributes)."""

    name, summary, level = "att", "say which attributes each region has (multi-label)", 0
    outputs = "attributes"
    form = "labels"
    target = ("attributes", "asked")
    metric = "map"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Mean average precision over attributes, plain and weighted by their frequency."""
        asked = columns["asked"]
        plain, weighted = metrics.mean_average_precision(
            predictions[asked], columns["attributes"][asked]
        )
        return {"map": plain, "weighted_map": weighted}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Binary cross-entropy over the regions asked about."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        asked = targets["asked"]
        truth = targets["attributes"][asked].to(outputs.dtype)
        return binary_cross_entropy_with_logits(outputs[asked], truth)

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The score of every attribute."""
        return np.asarray(outputs.float().cpu().numpy())

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """Each attribute's frequency, for every region."""
        shares = columns["attributes"][columns["asked"]].mean(axis=0, dtype=np.float64)
        return np.tile(shares, (columns["attributes"].shape[1], 1))

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How many regions have each attribute."""
        return {"": ranked_shares(self.constant(columns, names)[0], names["attributes"])}
