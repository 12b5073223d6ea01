"""The counter's learned functions f: [0, 1] → [0, 1], and the product of many values of one.

A piecewise linear f is slope · place + intercept of the segment that a value falls into; the names
of the counter's publication (``counter``) hold here, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_SEGMENTS = 16


class Lines(NamedTuple):
    """The line of each segment, over the place of a value among the segments, 0 … 16."""

    slope: Tensor
    intercept: Tensor


class MonotoneFunction(nn.Module):
    """A learned piecewise linear f: [0, 1] → [0, 1], rising, with f(0) = 0 and f(1) = 1.

    The slopes are |w| / Σ|w|; equal weights, as at the start, make it the identity.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(_SEGMENTS))

    def lines(self) -> Lines:
        """Return the lines that f consists of."""
        rise = self.weight.abs() / self.weight.abs().sum()
        begins = rise.cumsum(0) - rise  # the height at which a segment begins
        return Lines(rise, begins - rise * torch.arange(_SEGMENTS, device=rise.device))

    def forward(self, x: Tensor) -> Tensor:
        """Apply f to every element."""
        found: Tensor = _Apply.apply(x, *self.lines())  # type: ignore[no-untyped-call]
        return found

    def alike(self, X: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return Πₖ f(1 − |Xₖᵢ − Xₖⱼ|) (n, pairs), of symmetric X (n, K, K), for pairs i, j."""
        found: Tensor = _Alike.apply(X, *self.lines(), i, j)  # type: ignore[no-untyped-call]
        return found


class _Apply(torch.autograd.Function):
    """f, with a gradient of its own: see ``_by_segment``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
        place = x * _SEGMENTS
        chosen, slopes, values = _on_lines(place, slope, intercept)
        ctx.save_for_backward(place, chosen, slopes)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        place, chosen, slopes = ctx.saved_tensors
        of_x = grad * slopes * _SEGMENTS if ctx.needs_input_grad[0] else None
        return of_x, *_by_segment(chosen, grad * place, grad)


class _Alike(torch.autograd.Function):
    """The product with a gradient of its own, in half the time of autograd's.

    There are n · pairs · K values, and they are most of what the counter takes.
    """

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, slope: Tensor, intercept: Tensor, i: Tensor, j: Tensor
    ) -> Tensor:
        apart = X.index_select(1, i).sub_(X.index_select(1, j))  # (n, pairs, K)
        place = apart.abs().mul_(-_SEGMENTS).add_(_SEGMENTS)
        chosen, slopes, values = _on_lines(place, slope, intercept)
        product = values.prod(dim=2)
        ctx.save_for_backward(apart, place, chosen, slopes, values, product, i, j)
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        apart, place, chosen, slopes, values, product, i, j = ctx.saved_tensors
        of_values = _of_factors(grad, values, product)
        of_lines = _by_segment(chosen, of_values * place, of_values)
        of_apart = of_values.mul_(slopes).mul_(apart.sign()).mul_(-_SEGMENTS)
        of_X = grad.new_zeros(len(grad), values.shape[2], values.shape[2])
        of_X.index_add_(1, i, of_apart).index_add_(1, j, of_apart, alpha=-1)
        return of_X, *of_lines, None, None


def _on_lines(place: Tensor, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the segment of each place, the slope there, and the height."""
    # Clamped as a whole number: not-a-number must come out as such, not as a wild index.
    chosen = place.int().clamp_(0, _SEGMENTS - 1)
    slopes = slope.index_select(0, chosen.flatten()).view_as(place)
    begins = intercept.index_select(0, chosen.flatten()).view_as(place)
    return chosen, slopes, torch.addcmul(begins, slopes, place)


def _by_segment(chosen: Tensor, *gradients: Tensor) -> list[Tensor]:
    """Add up what falls into each segment.

    Neighbours often fall into the same segment, and an addition to one place waits for the last
    one: with places of its own for each column it takes a quarter of the time.
    """
    columns = chosen.shape[-1] if chosen.dim() else 1
    apart = chosen + _SEGMENTS * torch.arange(columns, dtype=chosen.dtype, device=chosen.device)
    sums = (
        torch.bincount(apart.flatten(), gradient.flatten(), minlength=_SEGMENTS * columns)
        for gradient in gradients
    )
    return [
        s.view(columns, _SEGMENTS).sum(0).to(g.dtype) for s, g in zip(sums, gradients, strict=True)
    ]


def _of_factors(grad: Tensor, factors: Tensor, product: Tensor) -> Tensor:
    """Return the gradient of factors (…, K) from that of their product: it times all others."""
    if bool(product.all()):
        return torch.div((grad * product)[..., None], factors)
    one = torch.ones_like(factors[..., :1])
    before = torch.cat([one, factors[..., :-1]], dim=-1).cumprod(-1)
    after = torch.cat([one, factors[..., 1:].flip(-1)], dim=-1).cumprod(-1).flip(-1)
    return before * after * grad[..., None]
