"""What is the same for every method, what is not, and what each was allowed to try."""

from __future__ import annotations

from typing import NamedTuple

from pmn_cl import registry
from pmn_cl.results.result import CEILING, FLOOR
from pmn_cl.results.searches import TUNED, read_tuned
from pmn_cl.strategy.base import Strategy
from pmn_cl.studies.tuning import TRIALS

_SUPERVISION = {
    "executor": "none, but it is given the program of every question",
    "pmn": "[b, r] of cnt's relational questions (`supervise: []`: none)",
}


class Fairness(NamedTuple):
    """Where a method stands beside the others."""

    strategy: str
    sees: str  # which data, and how often
    supervision: str  # beyond the tasks' own targets
    trials: int
    chosen: str


def fairness() -> list[Fairness]:
    """Return a line for every strategy that learns."""
    tuned = read_tuned() if TUNED.exists() else {}
    found = []
    for name in registry.STRATEGIES:
        kind: type[Strategy] = registry.load(registry.STRATEGIES[name])
        search = tuned.get(name)
        chosen = ", ".join(f"{k} {v:g}" for k, v in search.chosen.items()) if search else ""
        found.append(
            Fairness(
                name,
                _sees(kind),
                _SUPERVISION.get(name, ""),
                len(search.trials) if search else 0,
                chosen or ("" if name in {*TRIALS, FLOOR, CEILING} else "as what it builds on"),
            )
        )
    return found


def _sees(kind: type[Strategy]) -> str:
    if kind.at_once:
        return "all tasks at once"
    if kind.keeps_data:
        return "one task at a time, and samples it kept of earlier ones"
    return "one task at a time"
