"""Losses that need more than a task's outputs: queries to M_rel, and maps of boxes.

The tasks have all others (``Task.training_loss``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pmn_cl.modules.counter import Counter
from pmn_cl.modules.relation import RelationQuery, relation_code

CountedMap = tuple[Tensor, Tensor]  # boxes' overlaps (B, N, N) and their logits (B, N)
_SAME_THING = 0.45  # boxes that overlap by more show the same object


def query_loss(asked: RelationQuery, y: Mapping[str, Tensor], relations: int) -> Tensor:
    """Cross-entropy on [b, r] of the samples that need a relation; any box of the anchor is right.

    Samples that need none have relation -1, and cost nothing. The world has so many relations,
    each in as many directions as it names.
    """
    needs = y["ask_relation"] >= 0
    if not bool(needs.any()):
        return asked.box.sum() * 0
    box = (asked.box * y["ask_boxes"]).sum(1)[needs]
    code = relation_code(y["ask_relation"], y["ask_direction"], relations)[needs]
    relation = asked.relation[needs].gather(1, code[:, None])
    floor = torch.finfo(box.dtype).tiny
    return -box.clamp(min=floor).log().mean() - relation.clamp(min=floor).log().mean()


@contextmanager
def counted_maps(network: nn.Module) -> Iterator[list[CountedMap]]:
    """Give the overlaps and logits of every map that is counted meanwhile."""
    counted: list[CountedMap] = []

    def count(counter: nn.Module, given: CountedMap, found: Tensor) -> None:
        counted.append(given)

    counters = [part for part in network.modules() if isinstance(part, Counter)]
    hooks = [counter.register_forward_hook(count) for counter in counters if counter.training]
    try:
        yield counted
    finally:
        for hook in hooks:
            hook.remove()


def soft_count(overlaps: Tensor, logits: Tensor) -> Tensor:
    """Return Σᵢ σ(lᵢ) / nᵢ (B,): nᵢ boxes, itself one, show what box i shows.

    Its gradient reaches every box at once, where the counter's starts in a saddle.
    """
    there = logits > -torch.inf
    both = there[:, :, None] & there[:, None, :]
    alike = (overlaps > _SAME_THING) & both
    return (logits.sigmoid() / alike.sum(2).clamp(min=1)).sum(1)
