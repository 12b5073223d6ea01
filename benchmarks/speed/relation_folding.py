"""M_rel looks at all 36 boxes at once: against Algorithm 1's literal loop over them.

Both do the same products of matrices, so that what folding saves is the loop's overhead: the
smaller the batch, the more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from modules import COUNTS, RandomScenes, network, plan
from timing import compare, report
from torch import Tensor

from pmn_cl.modules.environment import Environment
from pmn_cl.modules.relation import RelationModule, RelationQuery

_BATCHES = (1, 8, 128)  # the goal is for the first


def asking(
    module: torch.nn.Module, query: RelationQuery, x: dict[str, Tensor]
) -> Callable[[], Tensor]:
    def ask() -> Tensor:
        with torch.no_grad():
            answer: Tensor = module(query, Environment.of(x))
        return answer

    return ask


def main(size: str, batch: int) -> bool:
    folded = network(plan(size), {"obj": (), "att": (), "rel": ("obj", "att")}, None)["rel"].eval()
    literal = RelationModule(plan(size), folded.callees, folded=False).eval()
    literal.load_state_dict(folded.state_dict())
    codes, width = 2 * COUNTS[size]["relations"], plan(size).shape.region
    x = RandomScenes("paper", batch).take(torch.arange(batch))
    x["regions"] = x["regions"][..., :width].contiguous()
    query = RelationQuery(torch.rand(batch, 36).softmax(1), torch.rand(batch, codes).softmax(1))
    slow, fast = asking(literal, query, x), asking(folded, query, x)
    difference = float((slow() - fast()).abs().max())
    timed = compare(slow, fast)
    has_goal = batch == _BATCHES[0]
    return report(
        f"M_rel literal / folded, {size}, batch {batch}",
        timed.ratio,
        "at least 5, same to 1e-5" if has_goal else "same to 1e-5",
        (timed.ratio >= 5 or not has_goal) and difference < 1e-5,
        f"{1e3 * timed.ours:.2f}, {1e3 * timed.plain:.2f} ms, answers differ by {difference:.0e}",
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    reached = [main(size, batch) for size in ("small", "paper") for batch in _BATCHES]
    sys.exit(not all(reached))
