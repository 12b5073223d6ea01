"""The question task: an answer to a question about the scene."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor
from pmn_cl.tasks.base import (
    ASKED_OF_RELATION,
    Columns,
    LossTerms,
    Names,
    Task,
    by_kind,
    likeliest,
    mean_by_kind,
    ranked_shares,
)


class AnswerTask(Task):
    """Answer a question about the scene. outputs (B, answers), predictions (n,).

    A sample names up to K answers with a score each (``answers``, ``scores`` (B, K)): one right
    answer in a world with exact truth, several with soft scores where people were asked.
    """

    name, summary, level = "vqa", "answer a question about the scene", 3
    calls = ("rel", "obj", "att", "cnt", "cap")
    outputs = "answers"
    form = "answer"
    query = ("question",)
    target = ("answers", "scores", *ASKED_OF_RELATION)
    metric = "accuracy"
    family = ("family", "families")

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """The mean score of the answers given, overall, by answer type, by hops and by family."""
        earned = (columns["scores"] * (columns["answers"] == predictions[:, None])).sum(axis=1)
        return {
            "accuracy": float(earned.mean()),
            **self.by_question(earned, columns, names),
            **self.by_family(earned, columns, names),
        }

    def by_question(self, values: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the mean of what there is one of for each question, by answer type and by hops."""
        by_type = mean_by_kind(values, columns, "kind", names.get("vqa kinds"))
        by_hops = mean_by_kind(values, columns, "hops", ["no hop", "one hop", "two hops"])
        return {**by_type, **by_hops}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Binary cross-entropy over all answers, summed over answers as VQA models do."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        soft = torch.zeros_like(outputs).scatter_add_(
            1, targets["answers"], targets["scores"].to(outputs.dtype)
        )
        return binary_cross_entropy_with_logits(outputs, soft, reduction="sum") / len(outputs)

    def training_loss(
        self, outputs: Tensor, targets: Mapping[str, Tensor], terms: LossTerms
    ) -> Tensor:
        """Cross-entropy over all answers, by their scores, where they are to compete."""
        if not terms.one_answer:
            return self.loss(outputs, targets)
        scores = targets["scores"].to(outputs.dtype)
        shares = scores / scores.sum(1, keepdim=True).clamp(min=1e-9)
        loss: Tensor = (
            -(shares * outputs.log_softmax(1).gather(1, targets["answers"])).sum(1).mean()
        )
        return loss

    def probabilities(self, outputs: Tensor, terms: LossTerms) -> Tensor:
        """Return the probability of every answer, as the loss that it was learned by has them."""
        return outputs.softmax(1) if terms.one_answer else outputs.sigmoid()

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest answer."""
        return likeliest(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The answer with the highest score over all samples."""
        totals = np.bincount(columns["answers"].ravel(), columns["scores"].ravel())
        return np.asarray(totals.argmax())

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """What each answer would score if it were always given, by answer type."""
        priors = {}
        for kind, chosen in by_kind(columns, names.get("vqa kinds")):
            answers, scores = columns["answers"][chosen], columns["scores"][chosen]
            totals = np.bincount(answers.ravel(), scores.ravel())
            priors[kind] = ranked_shares(totals / len(answers), names["answers"])
        return priors
