"""The soft count of a map of boxes by hand, and who learns by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from baselines.hard_sharing import HardSharing
from baselines.lwf import LearningWithoutForgetting
from baselines.multinet import Multinet
from baselines.pnn import ProgressiveColumns
from pmn_cl.modules.counter import Counter
from pmn_cl.modules.runtime.overlaps import intersection_over_union
from strategies.losses import counted_maps, soft_count
from strategies.pmn import Progressive

Experiences = dict[str, dict[str, Any]]
NOTHING = -math.inf


def row(*boxes: tuple[float, float, float, float]) -> Tensor:
    return intersection_over_union(torch.tensor([boxes]))


ONE, TWO = (0.0, 0.0, 1.0, 1.0), (5.0, 5.0, 6.0, 6.0)


def test_boxes_of_one_thing_count_once() -> None:
    """σ(0) = ½ of each of two duplicates make ½, and σ(ln 3) = ¾ of another one ¾."""
    found = soft_count(row(ONE, ONE, TWO), torch.tensor([[0.0, 0.0, math.log(3)]]))
    assert found.tolist() == pytest.approx([0.5 + 0.75])


def test_padding_counts_nothing_and_is_nobodys_duplicate() -> None:
    logits = torch.tensor([[0.0, NOTHING, NOTHING, math.log(3)]], requires_grad=True)
    found = soft_count(row(ONE, ONE, (0.0, 0.0, 0.0, 0.0), TWO), logits)
    assert found.tolist() == pytest.approx([0.5 + 0.75])
    found.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([0.25, 0, 0, 3 / 16])  # σ (1 − σ)


def test_an_empty_box_counts_as_one_of_its_own() -> None:
    empty = (2.0, 2.0, 2.0, 2.0)  # overlaps nothing, not even itself
    assert soft_count(row(empty, ONE), torch.zeros(1, 2)).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(("shift", "things"), [(0.3, 1), (0.5, 2)])
def test_boxes_show_the_same_where_they_overlap_by_nearly_half(shift: float, things: int) -> None:
    """Shifted by 0.3, 0.7 of 1.3 are shared; by 0.5, a third."""
    beside = (shift, 0.0, 1 + shift, 1.0)
    found = soft_count(row(ONE, beside), torch.full((1, 2), 100.0))
    assert found.tolist() == pytest.approx([things])


def test_maps_are_given_of_counters_that_learn_and_only_meanwhile() -> None:
    network = torch.nn.ModuleList([Counter(3), Counter(3).eval()])
    overlaps, logits = row(ONE, TWO), torch.zeros(1, 2)
    with counted_maps(network) as maps:
        for counter in network:
            counter(overlaps, logits)
    assert [soft_count(*seen).tolist() for seen in maps] == [[1.0]]
    network[0](overlaps, logits)
    assert len(maps) == 1
    with pytest.raises(RuntimeError), counted_maps(network):
        raise RuntimeError
    assert not network[0]._forward_hooks


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(["obj", "cnt"], 10.0)


def by_loops(boxes: Tensor, logits: Tensor) -> list[float]:
    """Soft counts with loops over boxes (B, N, 4)."""
    found = []
    for places, values in zip(boxes.double().tolist(), logits.double().tolist(), strict=True):
        there = [i for i, value in enumerate(values) if value > NOTHING]
        total = 0.0
        for i in there:
            alike = [j for j in there if overlap(places[i], places[j]) > 0.45]
            total += 1 / (1 + math.exp(-values[i])) / max(len(alike), 1)
        found.append(total)
    return found


def overlap(one: list[float], other: list[float]) -> float:
    sides = [min(one[k + 2], other[k + 2]) - max(one[k], other[k]) for k in (0, 1)]
    shared = max(sides[0], 0) * max(sides[1], 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared) if sum(areas) > shared else 0


METHODS: list[Any] = [
    *(Progressive, HardSharing, ProgressiveColumns),
    *(Multinet, LearningWithoutForgetting),
]


@pytest.mark.parametrize("method", METHODS)
def test_everybody_who_counts_a_map_learns_by_its_soft_count(
    method: Any, experiences: Experiences
) -> None:
    training = {"obj": {"epochs": 1}, "cnt": {"epochs": 1}}
    experience, losses = experiences["train"]["cnt"], {}
    x, y = experience.batches[np.arange(30)]
    for weight in (0.0, 2.0):
        terms = {"loss": {"soft_count": weight}}
        given = {"training": {**training, "cnt": {"epochs": 1, **terms}}}
        strategy = method(options=method.Options.model_validate(given), seed=0, budget=1.0)
        torch.manual_seed(0)
        strategy.learn(experiences["train"]["obj"], experiences["val"]["obj"])
        strategy.experiences[experience.task_label] = experience
        strategy.prepare(experience)
        strategy.model.train()
        seen: list[tuple[Tensor, Tensor]] = []
        for part in strategy.model.modules():
            if isinstance(part, Counter):
                part.register_forward_hook(lambda m, args, out, seen=seen: seen.append(args))
        _, loss = strategy.batch_loss(x, y, experience)
        losses[weight] = loss.item()
    counts = torch.tensor(by_loops(x["boxes"], seen[0][1].detach()))
    expected = 2.0 * smooth_l1_loss(counts, y["count"].double().cpu()).item()
    assert expected > 0.1
    assert losses[2.0] - losses[0.0] == pytest.approx(expected, rel=1e-3)
