"""Sums and products of vectors in batches, each in the way that is fastest at its width."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NARROW = 256  # up to here, plain products and sums beat batched matrix products on CPUs


def weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return Σᵢ wᵢ vᵢ (B, d) of weights (B, N) and vectors (B, N, d)."""
    if vectors.shape[2] <= _NARROW:
        return (weights[:, :, None] * vectors).sum(1)
    return torch.bmm(weights[:, None], vectors).squeeze(1)


def products(key: Tensor, vectors: Tensor) -> Tensor:
    """Return k · vᵢ (B, N) of keys (B, d) and vectors (B, N, d)."""
    if vectors.shape[2] <= _NARROW:
        return (key[:, None] * vectors).sum(2)
    found: Tensor = _Products.apply(key, vectors)  # type: ignore[no-untyped-call]
    return found


class _Products(torch.autograd.Function):
    """k · vᵢ with a gradient of its own.

    On CPUs a row times a matrix is many times faster than a matrix times a column, in batches;
    torch's gradients of either come to the slow one, or to vectors that lie across memory.
    """

    @staticmethod
    def forward(ctx: Any, key: Tensor, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(key, vectors)
        return torch.bmm(key[:, None], vectors.transpose(1, 2)).squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        key, vectors = ctx.saved_tensors
        for_key, for_vectors = ctx.needs_input_grad
        return (
            weighted_sum(grad, vectors) if for_key else None,
            grad[:, :, None] * key[:, None] if for_vectors else None,
        )
