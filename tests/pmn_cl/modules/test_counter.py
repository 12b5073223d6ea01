"""The counter against the publication's equations written out with loops, and by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pmn_cl.modules.counter import Counter
from pmn_cl.modules.runtime.overlaps import intersection_over_union

CERTAIN = 100.0  # a logit whose sigmoid is 1 (and 0 when negative) in float32


def in_a_row(count: int, copies: int = 1) -> torch.Tensor:
    """Overlaps of things that have none, each proposed so many times (1, count · copies, …)."""
    boxes = [[10.0 * i, 0.0, 10.0 * i + 5, 5.0] for i in range(count)] * copies
    return intersection_over_union(torch.tensor([boxes]))


def at_random(things: int, generator: torch.Generator, side: float | None = None) -> torch.Tensor:
    """Boxes somewhere, of one size or each of its own (1, things, 4)."""
    corners = torch.rand(1, things, 2, generator=generator, dtype=torch.float64)
    if side is not None:
        return torch.cat([corners, corners + side], dim=2)
    sides = torch.rand(1, things, 2, generator=generator, dtype=torch.float64)
    return torch.cat([corners, corners + sides], dim=2)


@pytest.mark.parametrize("count", range(13))
def test_clean_boxes_with_certain_attention_are_counted_exactly(count: int) -> None:
    logits = torch.full((1, 12), -CERTAIN)
    logits[0, :count] = CERTAIN
    found = Counter(12)(in_a_row(12), logits)
    assert found.shape == (1, 13)
    assert found[0].tolist() == pytest.approx([float(n == count) for n in range(13)], abs=1e-4)


@pytest.mark.parametrize("count", range(1, 7))
def test_an_object_that_is_proposed_twice_counts_once(count: int) -> None:
    found = Counter(12)(in_a_row(count, copies=2), torch.full((1, 2 * count), CERTAIN))
    assert found[0].argmax() == count
    assert found[0, count].item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("count", [7, 10, 12])
def test_many_objects_with_two_boxes_each_are_counted_with_enough_boxes(count: int) -> None:
    """Twelve boxes show six objects twice, whatever comes after them."""
    overlaps = in_a_row(count, copies=2)
    logits = CERTAIN - torch.arange(count).float().repeat(2)[None]  # the first objects first
    enough = Counter(12, boxes=2 * count)(overlaps, logits)
    few = Counter(12)(overlaps, logits)
    assert enough.shape == few.shape == (1, 13)
    assert enough[0].argmax() == count
    assert enough[0, count].item() == pytest.approx(1, abs=1e-4)
    assert few[0].argmax() < count


def test_with_more_boxes_than_objects_the_publications_equations_hold() -> None:
    """Counting to 6 over three boxes, and to 2: the same sum, spread over fewer numbers."""
    generator = torch.Generator().manual_seed(0)
    overlaps = intersection_over_union(at_random(6, generator, side=0.4)).float()
    logits = torch.randn(1, 6, generator=generator) - 1.5
    wide, narrow = Counter(6)(overlaps, logits), Counter(4, boxes=6)(overlaps, logits)
    assert torch.allclose(narrow, wide[:, :5]) and not wide[0, 5:].any()


def test_fewer_boxes_than_objects_are_filled_up_with_nothing() -> None:
    few = Counter(5)(in_a_row(2), torch.full((1, 2), CERTAIN))
    logits = torch.tensor([[CERTAIN] * 2 + [-CERTAIN] * 3])
    assert torch.allclose(few, Counter(5)(in_a_row(5), logits), atol=1e-5)
    assert few[0].tolist() == pytest.approx([0, 0, 1, 0, 0, 0], abs=1e-4)


def test_of_many_boxes_the_most_attended_count() -> None:
    logits = torch.tensor([[-CERTAIN, 1.0, 2.0, -CERTAIN, 3.0]])
    chosen = torch.tensor([4, 2, 1])
    few = Counter(3)(in_a_row(5)[:, chosen][:, :, chosen], logits[:, chosen])
    assert torch.allclose(Counter(3)(in_a_row(5), logits), few)


def test_padding_never_counts() -> None:
    logits = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    boxes = torch.cat([at_random(6, generator, side=0.3) for _ in range(2)]).float()
    padded = torch.cat([boxes, torch.zeros(2, 3, 4)], dim=1)
    overlaps, with_padding = map(intersection_over_union, (boxes, padded))
    minus = torch.full((2, 3), -torch.inf)
    counter = Counter(8)
    found = counter(with_padding, torch.cat([logits, minus], dim=1))
    assert torch.allclose(counter(overlaps, logits), found, atol=1e-6)


def test_soft_attention_is_counted_short() -> None:
    """Five boxes attended to by 0.9: Σᵢⱼ 0.81 over pairs and Σᵢ 0.81 alone, over r = 1.

    X of a pair is 0.81 and of a box with itself 0, so sim(i, j) = f(1 − 0.81)² = 0.0361 through
    the two positions k = i, j, and 1 through the others: r = 1 + 4 · 0.0361.
    """
    logit = math.log(0.9 / 0.1)
    counter = Counter(5)
    found = counter(in_a_row(5), torch.full((1, 5), logit))
    r = 1 + 4 * (1 - 0.81) ** 2
    count = math.sqrt(20 * 0.81 / r**2 + 5 * 0.81 / r)
    low = math.floor(count)
    sure = min(0.4 + 0.5, 1)  # |0.9 − ½|, and distances of 0 or 1 are ½ from ½
    expected = [0.0] * 6
    expected[low], expected[low + 1] = (low + 1 - count) * sure, (count - low) * sure
    assert found[0].tolist() == pytest.approx(expected, abs=1e-5)


def count_with_loops(
    boxes: list[list[float]], a: list[float], f: list[Callable[[float], float]]
) -> list[float]:
    """The publication's equations, one number at a time."""
    n = range(len(a))

    def overlap(b: list[float], c: list[float]) -> float:
        w, h = min(b[2], c[2]) - max(b[0], c[0]), min(b[3], c[3]) - max(b[1], c[1])
        shared = max(w, 0) * max(h, 0)
        areas = [max(d[2] - d[0], 0) * max(d[3] - d[1], 0) for d in (b, c)]
        return shared / (sum(areas) - shared + 1e-12)

    D = [[1 - overlap(boxes[i], boxes[j]) for j in n] for i in n]
    X = [[f[3](a[i] * a[j]) * f[4](D[i][j]) for j in n] for i in n]
    sim = [
        [
            f[2](1 - abs(a[i] - a[j])) * math.prod(f[2](1 - abs(X[k][i] - X[k][j])) for k in n)
            for j in n
        ]
        for i in n
    ]
    r = [sum(row) for row in sim]
    total = sum(f[0](a[i] * a[j]) * f[1](D[i][j]) / (r[i] * r[j]) for i in n for j in n)
    total += sum(f[0](a[i] ** 2) / r[i] for i in n)
    c = min(max(math.sqrt(total + 1e-20), 0), len(a))
    sure = sum(abs(f[5](x) - 0.5) for x in a) / len(a)
    sure += sum(abs(f[6](D[i][j]) - 0.5) for i in n for j in n) / len(a) ** 2
    return [max(0, 1 - abs(c - number)) * f[7](sure) for number in range(len(a) + 1)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_it_computes_the_publications_equations(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    counter = Counter(4).double()
    for function in counter.f:
        weights = torch.randn(16, generator=generator, dtype=torch.float64)
        function.weight.data = weights
    boxes = at_random(4, generator)
    logits = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    order = logits[0].argsort(descending=True)
    functions = [lambda x, g=g: g(torch.tensor([x], dtype=torch.float64)).item() for g in counter.f]
    expected = count_with_loops(
        boxes[0][order].tolist(), logits[0].sigmoid()[order].tolist(), functions
    )
    found = counter(intersection_over_union(boxes), logits)
    assert found[0].tolist() == pytest.approx(expected, abs=1e-9)


def test_gradient_flows_to_attention_boxes_and_weights() -> None:
    counter = Counter(3).double()
    generator = torch.Generator().manual_seed(4)
    boxes = torch.cat([at_random(3, generator, side=0.5) for _ in range(2)]).requires_grad_()
    logits = torch.randn(2, 3, generator=generator, dtype=torch.float64).requires_grad_()

    def counted(boxes: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = counter(intersection_over_union(boxes), logits)
        return found

    assert torch.autograd.gradcheck(counted, (boxes, logits))
    counted(boxes, logits).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in counter.parameters())


def test_not_a_number_is_passed_on() -> None:
    found = Counter(3)(in_a_row(3), torch.tensor([[1.0, torch.nan, 2.0]]))
    assert found.isnan().all()
