"""The relation task: which box stands in a relation to a given box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks import metrics

if TYPE_CHECKING:
    from torch import Tensor
from pmn_cl.tasks.base import Columns, LossTerms, Names, Task, likeliest, mean_by_kind

OUT_OF_REACH = -1e4  # the logit of padding, at most: probability 0, yet finite where it is squared


class RelationTask(Task):
    """Which box stands in this relation to that box? outputs (B, N), predictions (n,)."""

    name, summary, level = "rel", "find the box that stands in a relation to a given box", 1
    calls = ("obj", "att")
    form = "pointing"
    query = ("box", "relation", "direction")
    target = ("target", "satisfying")
    metric = "accuracy"
    family = ("relation", "relations")

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Accuracy: any box that fits is right, also by the direction sought and by relation.

        ``drawn_box`` counts only the box that the sample was drawn with, as where annotators
        name one; several boxes fit many queries, so even a perfect model stays below 1 there.
        """
        fits = columns["satisfying"][np.arange(len(predictions)), predictions]
        return {
            "accuracy": float(fits.mean()),
            "drawn_box": metrics.accuracy(predictions, columns["target"]),
            **mean_by_kind(fits, columns, "direction", names.get("directions")),
            **self.by_family(fits, columns, names),
        }

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over boxes, all that fit being equally right; padding is at −∞.

        Its expectation is that of the drawn box alone, without the noise of the draw.
        """
        fits = targets["satisfying"].to(outputs.dtype)
        # Padding never fits; zero times its infinite cost has to stay zero.
        costs = -outputs.log_softmax(1).masked_fill(~targets["satisfying"], 0)
        loss: Tensor = (costs.sum(1) / fits.sum(1)).mean()
        return loss

    def training_loss(
        self, outputs: Tensor, targets: Mapping[str, Tensor], terms: LossTerms
    ) -> Tensor:
        """Add a binary cross-entropy for each box, so that a logit by itself says if a box fits.

        Who counts the boxes that fit, needs that; a softmax leaves the level of logits open.
        """
        loss = self.loss(outputs, targets)
        if not terms.every_box:
            return loss
        from torch.nn.functional import binary_cross_entropy_with_logits

        there = outputs > OUT_OF_REACH
        fits = targets["satisfying"].to(outputs.dtype)
        costs = binary_cross_entropy_with_logits(
            outputs.masked_fill(~there, 0), fits, reduction="none"
        )
        per_sample = costs.masked_fill(~there, 0).sum(1) / there.sum(1)
        return loss + terms.every_box * per_sample.mean()

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest box."""
        return likeliest(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The box number that fits most often."""
        return np.asarray(columns["satisfying"].mean(axis=0).argmax())
