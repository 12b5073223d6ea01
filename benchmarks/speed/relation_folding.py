"""M_rel looks at all 36 boxes at once: against Algorithm 1's literal loop over them.

Both do the same products of matrices, so that what folding saves is the loop's overhead: the
smaller the batch, the more.
"""

from __future__ import annotations

import sys

import torch
from modules import COUNTS, RandomScenes, network, plan
from timing import compare, report
from torch import Tensor

from pmn_cl.modules.environment import Environment
from pmn_cl.modules.relation import RelationModule, RelationQuery

_BATCHES = (1, 8, 128)  # the goal is for the first


def main(size: str) -> bool:
    net = network(plan(size), {"obj": (), "att": (), "rel": ("obj", "att")}, None)
    folded = net["rel"].eval()
    literal = RelationModule(plan(size), folded.callees, folded=False).eval()
    literal.load_state_dict(folded.state_dict())
    codes, width = 2 * COUNTS[size]["relations"], plan(size).shape.region
    reached = []
    for batch in _BATCHES:
        x = RandomScenes("paper", batch).take(torch.arange(batch))
        x["regions"] = x["regions"][..., :width].contiguous()
        query = RelationQuery(torch.rand(batch, 36).softmax(1), torch.rand(batch, codes).softmax(1))

        def ask(
            module: torch.nn.Module, x: dict[str, Tensor] = x, q: RelationQuery = query
        ) -> Tensor:
            with torch.no_grad():
                answer: Tensor = module(q, Environment.of(x))
            return answer

        difference = float((ask(folded) - ask(literal)).abs().max())
        timed = compare(lambda ask=ask: ask(literal), lambda ask=ask: ask(folded), turns=15)  # type: ignore[misc]
        wanted = batch == _BATCHES[0]
        reached.append(
            report(
                f"M_rel literal / folded, {size}, batch {batch}",
                timed.ratio,
                "at least 5, same to 1e-5" if wanted else "same to 1e-5",
                (timed.ratio >= 5 or not wanted) and difference < 1e-5,
                f"{1e3 * timed.ours:.2f} and {1e3 * timed.plain:.2f} ms, differ by {difference:.0e}",
            )
        )
    return all(reached)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.exit(not all([main("small"), main("paper")]))
