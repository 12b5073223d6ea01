"""What hard gates save: accuracy against cost, from the runs of an ablation.

    pmn-bench ablate claims.yaml --only M_vqa5 --only "M_vqa5 top-1" --only … --out runs/hard
    python benchmarks/speed/hard_gates.py runs/hard

Accuracy on test is the results', the mean over seeds. How many children a question asks in a step,
and its cost, the time relative to soft gates, in turns, are of the first seed's modules. Nothing is
remembered of scenes: each question pays for all that it asks.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch
from timing import compare

from pmn_cl.errors import UserError
from pmn_cl.explaining.explainer import Explainer
from pmn_cl.modules.compositional import ATTEND, RESIDUAL
from pmn_cl.modules.importance import gates_seen
from pmn_cl.results.result import Result, read_results
from pmn_cl.results.statistics import interval

_SOFT = "M_vqa5"
_RUNGS = ("M_vqa5 top-3", "M_vqa5 top-2", "M_vqa5 top-1")
_QUESTIONS = 512


class Answers:
    """The modules of a run, ready to answer the first questions of the test split."""

    def __init__(self, folder: Path, run: Result) -> None:
        explainer = Explainer(folder, run.key)
        self.network = explainer.network.eval()
        self.network.memory = None
        self._x, _ = explainer.experience("test").batches[torch.arange(_QUESTIONS)]

    @torch.no_grad()
    def __call__(self) -> None:
        self.network(self._x, "vqa")

    def children_asked(self) -> float:
        """Return how many children a question asks in a step, on average."""
        with gates_seen(self.network["vqa"].G) as seen:
            self()
        return sum(
            float((gate > 0).float().mean())
            for gates in seen
            for callee, gate in gates.items()
            if callee not in (ATTEND, RESIDUAL)
        ) / len(seen)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    found = {
        name: [r for r in read_results(folder) if r.run.rung == name] for name in (_SOFT, *_RUNGS)
    }
    if not all(found.values()):
        missing = ", ".join(name for name, runs in found.items() if not runs)
        raise UserError(f"{folder}: has no runs of {missing}; `pmn-bench ablate` makes them")
    soft = Answers(folder, found[_SOFT][0])
    print(f"{'gates':<14}{'accuracy':>10}{'95% interval':>18}{'children':>10}{'cost':>7}")
    for name, runs in found.items():
        answers = soft if name == _SOFT else Answers(folder, runs[0])
        scores = [row for run in runs if (row := run.matrix("test")[-1][-1]) is not None]
        mean, low, high = interval(scores)
        cost = 1.0 if answers is soft else compare(partial(answers), partial(soft), turns=9).ratio
        spread = "one seed" if low is None else f"{low:.3f} to {high:.3f}"
        gates = "soft" if name == _SOFT else name.removeprefix(f"{_SOFT} ")
        print(f"{gates:<14}{mean:>10.3f}{spread:>18}{answers.children_asked():>10.2f}{cost:>7.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
