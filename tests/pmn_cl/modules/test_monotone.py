"""Learned monotone functions by their definition; their product's gradient against autograd's."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.modules.monotone import MonotoneFunction

FIRST, SECOND = torch.triu_indices(5, 5, offset=1)


def learned(seed: int) -> MonotoneFunction:
    function = MonotoneFunction().double()
    generator = torch.Generator().manual_seed(seed)
    function.weight.data = torch.randn(16, generator=generator, dtype=torch.float64)
    return function


def symmetric(seed: int) -> torch.Tensor:
    x = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ((x + x.transpose(1, 2)) / 2).requires_grad_()


@given(st.lists(st.floats(-3, 3), min_size=16, max_size=16), st.floats(0, 1), st.floats(0, 1))
def test_learned_functions_rise_from_zero_to_one(weights: list[float], x: float, y: float) -> None:
    if sum(map(abs, weights)) < 1e-3:
        return
    function = MonotoneFunction().double()
    function.weight.data = torch.tensor(weights, dtype=torch.float64)
    ends = function(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    low, high = function(torch.tensor(sorted((x, y)), dtype=torch.float64)).tolist()
    assert ends == pytest.approx([0, 1])
    assert -1e-12 <= low <= high + 1e-12 <= 1 + 2e-12


def test_a_learned_function_starts_as_the_identity() -> None:
    x = torch.linspace(0, 1, 101)
    assert torch.allclose(MonotoneFunction()(x), x, atol=1e-6)


def test_a_learned_function_joins_the_heights_of_its_segments() -> None:
    """f(k / 16) is the share of the first k weights, and f is linear in between."""
    function = learned(0)
    share = function.weight.detach().abs()
    share /= share.sum()
    heights = [float(share[:k].sum()) for k in range(17)]
    grid = torch.arange(17, dtype=torch.float64) / 16
    assert function(grid).tolist() == pytest.approx(heights)
    between = [(low + high) / 2 for low, high in pairwise(heights)]
    assert function(grid[:-1] + 1 / 32).tolist() == pytest.approx(between)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4)])
def test_gradients_are_those_that_finite_differences_give(shape: tuple[int, ...]) -> None:
    function = learned(1)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def applied(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(function, {"weight": weight}, (x,))

    inputs = (x.requires_grad_(), function.weight.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(applied, inputs)


@pytest.mark.parametrize("seed", range(3))
def test_the_product_of_alike_values_is_what_autograd_makes_of_it(seed: int) -> None:
    function, x = learned(seed), symmetric(seed)
    weights = torch.rand(3, len(FIRST), generator=torch.Generator().manual_seed(7)).double()

    def learn(product: torch.Tensor) -> list[torch.Tensor]:
        of_x, of_weight = torch.autograd.grad((product * weights).sum(), (x, function.weight))
        return [product.detach(), of_x, of_weight]

    plain = function(1 - (x[:, FIRST] - x[:, SECOND]).abs()).prod(dim=2)
    for ours, theirs in zip(learn(function.alike(x, FIRST, SECOND)), learn(plain), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("opposite", [1, 2])
def test_a_product_of_zero_has_the_gradient_that_autograd_gives(opposite: int) -> None:
    """Values that are as far apart as can be: f(0) = 0, once in a product or twice."""
    function, x = learned(0), symmetric(0)
    with torch.no_grad():
        for k in range(opposite):
            x[0, 3, k], x[0, 4, k] = 0, 1
    plain = function(1 - (x[:, FIRST] - x[:, SECOND]).abs()).prod(dim=2)
    ours, theirs = (
        torch.autograd.grad(product.sum(), (x, function.weight))
        for product in (function.alike(x, FIRST, SECOND), plain)
    )
    assert not plain.all()
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(ours, theirs, strict=True))
