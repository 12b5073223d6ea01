"""Sums and products of vectors against loops, and their gradients against finite differences."""

from __future__ import annotations

import pytest
import torch

from pmn_cl.modules.runtime.arithmetic import products, weighted_sum


@pytest.mark.parametrize("width", [3, 256, 257, 400])  # wide vectors are multiplied differently
def test_sums_and_products_at_every_width(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    vectors = torch.randn(2, 4, width, generator=generator, dtype=torch.float64)
    key = torch.randn(2, width, generator=generator, dtype=torch.float64)
    for b in range(2):
        total = sum(weights[b, i] * vectors[b, i] for i in range(4))
        assert torch.allclose(weighted_sum(weights, vectors)[b], total)
        dots = [float((key[b] * vectors[b, i]).sum()) for i in range(4)]
        assert products(key, vectors)[b].tolist() == pytest.approx(dots)


@pytest.mark.parametrize("learns", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("width", [3, 257])
def test_gradients_of_products_are_those_of_finite_differences(
    width: int, learns: tuple[bool, bool]
) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, width), (2, 3, width))
    drawn = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    key, vectors = (x.requires_grad_(needed) for x, needed in zip(drawn, learns, strict=True))
    assert torch.autograd.gradcheck(products, (key, vectors), fast_mode=True)
    assert torch.autograd.gradgradcheck(products, (key, vectors), fast_mode=True)
    products(key, vectors).sum().backward()
    assert [x.grad is not None for x in (key, vectors)] == list(learns)
