"""The object task: which object each region shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks import metrics

if TYPE_CHECKING:
    from torch import Tensor
from pmn_cl.tasks.base import Columns, Names, Task, most_common, ranked_shares


class ObjectTask(Task):
    """Which object does each region show? outputs (B, N, classes), predictions (n, N, 5)."""

    name, summary, level = "obj", "classify the object of each region", 0
    outputs = "objects"
    form = "class"
    target = ("label", "asked")
    metric = "top1"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Top-1 and top-5 accuracy over regions; predictions are ranked class numbers.

        ``top1_objects`` leaves background (class 0) out, of which some splits have none.
        """
        asked = columns["asked"]
        ranked, labels = predictions[asked], columns["label"][asked]
        found = {
            "top1": metrics.top_k_accuracy(ranked, labels, 1),
            "top5": metrics.top_k_accuracy(ranked, labels, 5),
        }
        objects = labels > 0
        if objects.any():
            found["top1_objects"] = metrics.top_k_accuracy(ranked[objects], labels[objects], 1)
        return found

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over the regions asked about."""
        from torch.nn.functional import cross_entropy

        asked = targets["asked"]
        return cross_entropy(outputs[asked], targets["label"][asked])

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The five likeliest classes of each region, best first."""
        top = outputs.topk(min(5, outputs.shape[-1]), dim=-1).indices
        return np.asarray(top.cpu().numpy())

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The five most common classes, for every region."""
        common = most_common(columns["label"][columns["asked"]])[:5]
        common = np.pad(common, (0, 5 - len(common)), constant_values=-1)
        return np.tile(common, (columns["label"].shape[1], 1))

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How common each class is."""
        labels = columns["label"][columns["asked"]]
        return {"": ranked_shares(np.bincount(labels) / len(labels), names["objects"])}
