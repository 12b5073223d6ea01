"""The differentiable counter of Zhang, Hare and Prügel-Bennett (ICLR 2018), as Ψ_cnt uses it.

From attention on boxes and their overlaps it works out how many distinct objects are attended
to: boxes on one object count once, however many there are. The names follow the publication:
A relevance, D distance, f₀ … f₇ learned monotone functions, c the count.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from pmn_cl.modules.monotone import MonotoneFunction


class Counter(nn.Module):
    """Counts attended objects, from 0 to ``objects``, by looking at the most attended boxes.

    The publication looks at as many boxes as it counts objects. Where objects have several boxes,
    many objects need more than that.
    """

    def __init__(self, objects: int, boxes: int | None = None) -> None:
        super().__init__()
        self.objects, self.boxes = objects, boxes or objects
        self.f = nn.ModuleList(MonotoneFunction() for _ in range(8))

    def forward(self, overlaps: Tensor, attention: Tensor) -> Tensor:
        """Return the count vector (n, objects + 1) of boxes' overlaps (n, m, m) and logits (n, m).

        A one-hot count between two neighbours, times how sure the counter is: it need not sum
        to one. Of more than ``self.boxes`` boxes the most attended count; padding has logit −∞.
        """
        overlaps, a = self._most_attended(overlaps, attention)  # (n, K, K), (n, K)
        f = self.f
        A = a[:, :, None] * a[:, None, :]  # (n, K, K)
        D = 1 - overlaps
        S = f[0](A) * f[1](D)  # what remains when edges within an object are removed
        r = self._duplicates(a, A, D)  # (n, K)
        within = f[0](a * a) / r
        total = (S / (r[:, :, None] * r[:, None, :])).sum((1, 2)) + within.sum(1)
        c = (total + 1e-20).sqrt()
        sure = f[7]((f[5](a) - 0.5).abs().mean(1) + (f[6](D) - 0.5).abs().mean((1, 2)))
        counted: Tensor = self._one_hot(c) * sure[:, None]
        return counted

    def _most_attended(self, overlaps: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the K most attended boxes; fewer are filled up with boxes without attention."""
        missing = self.boxes - logits.shape[1]
        if missing > 0:
            overlaps = pad(overlaps, (0, missing, 0, missing))
            logits = pad(logits, (0, missing), value=-torch.inf)
        top, kept = logits.topk(self.boxes, dim=1)
        rows = overlaps.gather(1, kept[:, :, None].expand(-1, -1, overlaps.shape[2]))
        return rows.gather(2, kept[:, None].expand(-1, self.boxes, -1)), top.sigmoid()

    def _duplicates(self, a: Tensor, A: Tensor, D: Tensor) -> Tensor:
        """Return r (n, K): how many boxes are alike, and so show the same object."""
        f: Any = self.f
        X = f[3](A) * f[4](D)  # symmetric, as what follows is: each two boxes are compared once
        i, j = torch.triu_indices(self.boxes, self.boxes, offset=1, device=a.device)
        alike = f[2].alike(X, i, j) * f[2](1 - (a[:, i] - a[:, j]).abs())
        # Itself, and others.
        return torch.ones_like(a).index_add(1, i, alike).index_add(1, j, alike)

    def _one_hot(self, count: Tensor) -> Tensor:
        """Spread a count over its two neighbouring whole numbers (n, objects + 1)."""
        numbers = torch.arange(self.objects + 1, device=count.device, dtype=count.dtype)
        distance = (count.clamp(0, self.objects)[:, None] - numbers).abs()
        return (1 - distance).clamp(min=0)
