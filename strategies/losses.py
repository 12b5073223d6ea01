"""What PMN adds to a task's loss: supervision of the query to M_rel, and the distance of counts.

Both leave out samples that say nothing about them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from pmn_cl.modules.relation import RelationQuery, relation_code
from pmn_cl.tasks.counts import UNKNOWN


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


def count_distance(logits: Tensor, count: Tensor) -> Tensor:
    """Smooth L1 between the expected count and the true one, where that is known; else 0."""
    known = count != UNKNOWN
    if not bool(known.any()):
        return logits.sum() * 0
    numbers = torch.arange(logits.shape[1], device=logits.device, dtype=logits.dtype)
    expected = logits.softmax(1) @ numbers
    if not bool(known.all()):
        expected, count = expected[known], count[known]
    return smooth_l1_loss(expected, count.to(logits))
