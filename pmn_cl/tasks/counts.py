"""The count task: how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks import metrics
from pmn_cl.tasks.base import (
    ASKED_OF_RELATION,
    Columns,
    LossTerms,
    Names,
    Task,
    by_kind,
    likeliest,
    mean_by_kind,
    most_common,
    ranked_shares,
)

if TYPE_CHECKING:
    from torch import Tensor

UNKNOWN = -1  # the count of a training sample that is there for its query to M_rel alone


class CountTask(Task):
    """How many are there? outputs (B, counts), predictions (n,)."""

    name, summary, level = "cnt", "answer how many there are, 0 to 12", 2
    calls = ("obj", "att", "rel")  # the paper's Table 2: Ω and Q→rel attend over their vectors
    outputs = "counts"
    form = "count"
    query = ("question",)
    target = ("count", *ASKED_OF_RELATION)
    metric = "accuracy"
    family = ("family", "families")

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Accuracy (also by kind and by family), accuracy within one, and the error's size."""
        count = columns["count"]
        right = predictions == count
        return {
            "accuracy": metrics.accuracy(predictions, count),
            "within_one": metrics.within_one(predictions, count),
            "rmse": metrics.root_mean_square_error(predictions, count),
            **self.by_question(right, columns, names),
            **self.by_family(right, columns, names),
        }

    def by_question(self, values: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the mean of what there is one of for each question, by kind."""
        return mean_by_kind(values, columns, "kind", names.get("cnt kinds"))

    def families(self, columns: Columns, names: Names) -> dict[str, NDArray[np.bool_]]:
        """Leave out samples whose count is not known: they are neither scored nor common."""
        known = columns["count"] != UNKNOWN
        found = {name: some & known for name, some in super().families(columns, names).items()}
        return {name: chosen for name, chosen in found.items() if chosen.any()}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over counts, the mean over samples whose count is known; of none, 0."""
        from torch.nn.functional import cross_entropy

        if bool((targets["count"] == UNKNOWN).all()):
            return outputs.sum() * 0
        return cross_entropy(outputs, targets["count"], ignore_index=UNKNOWN)

    def training_loss(
        self, outputs: Tensor, targets: Mapping[str, Tensor], terms: LossTerms
    ) -> Tensor:
        """Add how far the expected count is off: cross-entropy does not say in which direction."""
        loss = self.loss(outputs, targets)
        if terms.count_distance:
            loss = loss + terms.count_distance * count_distance(outputs, targets["count"])
        return loss

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest count."""
        return likeliest(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The most common count."""
        count = columns["count"]
        return np.asarray(most_common(count[count != UNKNOWN])[0])

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How common each count is, by kind of question."""
        priors = {}
        for kind, chosen in by_kind(columns, names.get("cnt kinds")):
            counts = columns["count"][chosen]
            counts = counts[counts != UNKNOWN]
            if len(counts):
                priors[kind] = ranked_shares(np.bincount(counts) / len(counts), names["counts"])
        return priors


def count_distance(logits: Tensor, count: Tensor) -> Tensor:
    """Smooth L1 between the expected count and the true one."""
    import torch

    numbers = torch.arange(logits.shape[1], device=logits.device, dtype=logits.dtype)
    return known_distance(logits.softmax(1) @ numbers, count)


def known_distance(counted: Tensor, count: Tensor) -> Tensor:
    """Smooth L1 between numbers and true counts, where these are known; of none, 0."""
    from torch.nn.functional import smooth_l1_loss

    known = count != UNKNOWN
    if not bool(known.any()):
        return counted.sum() * 0
    if not bool(known.all()):
        counted, count = counted[known], count[known]
    return smooth_l1_loss(counted, count.to(counted))
