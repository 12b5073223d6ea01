"""M_rel looks at all 36 boxes at once: against Algorithm 1's literal loop over them.

Asked (forward), and learning (forward and backward). Both ways do the same products of matrices,
so that what folding saves is the loop's overhead, and products of small matrices: the smaller the
batch, the more.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from modules import COUNTS, RandomScenes, network, plan
from timing import compare, report
from torch import Tensor
from torch.nn.functional import cross_entropy

from pmn_cl.modules.relation import RelationModule, RelationQuery
from pmn_cl.modules.runtime.arithmetic import weighted_sum
from pmn_cl.modules.runtime.environment import Environment

_BATCHES = (1, 8, 128)  # the goal is for the first


class LiteralModule(RelationModule):
    """M_rel as the appendix has it: T = N, and step t looks at box t."""

    scene_steps = False

    def steps(self, env: Environment) -> int:
        return env.mask.shape[1]

    def step(self, s: Any, t: int, env: Environment) -> Any:
        box = slice(t - 1, t)
        seen = Environment(env.regions[:, box], env.boxes[:, box], env.mask[:, box])
        return super().step(s, t, seen)

    def predict(self, states: list[Tensor], query: RelationQuery, env: Environment) -> Tensor:
        boxes = torch.cat(states[1:], dim=1)
        answer: Tensor = self.point(states[0] * weighted_sum(query.box, boxes), boxes, env)
        return answer


class Asked:
    """M_rel, which is asked about scenes of noise, in either way with the same weights."""

    def __init__(self, size: str, batch: int) -> None:
        module = network(plan(size), {"obj": (), "att": (), "rel": ("obj", "att")}, None)["rel"]
        literal = LiteralModule(module.plan, module.callees)
        literal.load_state_dict(module.state_dict())
        self._modules = {True: module, False: literal}  # by whether all steps are taken at once
        codes, width = 2 * COUNTS[size]["relations"], plan(size).shape.region
        self._x = RandomScenes("paper", batch).take(torch.arange(batch))
        self._x["regions"] = self._x["regions"][..., :width].contiguous()
        self._query = RelationQuery(
            torch.rand(batch, 36).softmax(1), torch.rand(batch, codes).softmax(1)
        )
        self._target = torch.randint(36, (batch,))

    def answer(self, folded: bool) -> Tensor:
        with torch.no_grad():
            return self._answer(folded)

    def learn(self, folded: bool) -> None:
        self._modules[folded].zero_grad()
        cross_entropy(self._answer(folded), self._target).backward()

    def _answer(self, folded: bool) -> Tensor:
        answer: Tensor = self._modules[folded](self._query, Environment.of(self._x))
        return answer


def main(size: str, batch: int) -> list[bool]:
    asked = Asked(size, batch)
    difference = float((asked.answer(folded=False) - asked.answer(folded=True)).abs().max())
    has_goal = batch == _BATCHES[0]
    reached = []
    for how, work in (("asked", asked.answer), ("learning", asked.learn)):
        timed = compare(partial(work, folded=False), partial(work, folded=True))
        reached.append(
            report(
                f"M_rel {how} literal / folded, {size}, batch {batch}",
                timed.ratio,
                "at least 5, same to 1e-5" if has_goal else "same to 1e-5",
                (timed.ratio >= 5 or not has_goal) and difference < 1e-5,
                f"{1e3 * timed.ours:.2f}, {1e3 * timed.plain:.2f} ms, "
                f"answers differ by {difference:.0e}",
            )
        )
    return reached


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    reached = [
        goal for size in ("small", "paper") for batch in _BATCHES for goal in main(size, batch)
    ]
    sys.exit(not all(reached))
