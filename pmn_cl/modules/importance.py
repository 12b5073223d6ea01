"""The importance function G_n: how much each callee matters at a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pmn_cl.modules.sizes import Gates

Importances = dict[str, Tensor]  # by callee, each (B,)


@contextmanager
def gates_seen(importance: Importance) -> Iterator[list[Importances]]:
    """Give the gates of every step that is taken meanwhile."""
    seen: list[Importances] = []
    hook = importance.register_forward_hook(lambda module, given, gates: seen.append(gates))
    try:
        yield seen
    finally:
        hook.remove()


class Importance(nn.Module):
    """A linear layer from the state to a score for each callee, normalised within groups.

    The paper's M_vqa has two groups: one softmax chooses between attention maps, the other
    between what is known of the attended region.
    """

    def __init__(self, state: int, groups: Sequence[Sequence[str]], gates: Gates) -> None:
        super().__init__()
        self.groups = [list(group) for group in groups if group]
        self.gates = gates
        # Equal gates are the paper's control: nothing to learn, the same layers otherwise.
        self.scores = nn.Linear(state, sum(map(len, self.groups)))

    def forward(self, state: Tensor) -> Importances:
        """Return each callee's gate (B,) for states (B, state)."""
        scores = self.scores(state).split([len(group) for group in self.groups], dim=1)
        return {
            name: gate
            for group, score in zip(self.groups, scores, strict=True)
            for name, gate in zip(group, self._normalised(score).unbind(1), strict=True)
        }

    def _normalised(self, scores: Tensor) -> Tensor:
        if self.gates.kind == "sigmoid":
            return scores.sigmoid()
        if self.gates.kind == "equal":
            return torch.full_like(scores, 1 / scores.shape[1])
        soft = scores.softmax(1)
        return soft if self.gates.kind == "softmax" else self._hardened(soft)

    def _hardened(self, soft: Tensor) -> Tensor:
        """Close all but the widest gates; the gradient goes on as if none were closed."""
        top = min(self.gates.top, soft.shape[1])
        kept = torch.zeros_like(soft).scatter(1, soft.topk(top, dim=1).indices, 1.0)
        if self.gates.threshold is not None:  # the widest stays open whatever the threshold
            widest = torch.zeros_like(soft).scatter(1, soft.argmax(1, keepdim=True), 1.0)
            kept = torch.maximum(widest, (soft >= self.gates.threshold).to(soft))
        hard = soft * kept
        hard = hard / hard.sum(1, keepdim=True)
        return soft + (hard - soft).detach()
