"""What is the same for every method, what is not, and what each was allowed to try."""

from __future__ import annotations

from typing import NamedTuple

from pmn_cl import registry
from pmn_cl.config.searches import TUNED, Searches, read_searches
from pmn_cl.results.fairness import SAME, said_of_search, said_of_searches
from pmn_cl.strategy.base import Strategy

_SUPERVISION = {
    "executor": "none, but it is given the program of every question",
    "independent": "",
    "parameter_matched": "",
    "hard_sharing_modules": "",
    "pmn": "[b, r] of cnt's relational questions (`supervise: []`: none)",
}


class Fairness(NamedTuple):
    """Where a method stands beside the others."""

    strategy: str
    sees: str  # which data, and how often
    supervision: str  # beyond the tasks' own targets
    search: str  # trials, protocol, and whose they were
    chosen: str


def same_for_all() -> dict[str, str]:
    """Return what all methods have in common, and how often each was searched."""
    searches = _searches()
    tuned = [searches.tuned(method) for method in searches.methods] if searches else []
    return {**SAME, "search": said_of_searches(tuned)}


def _searches() -> Searches | None:
    return read_searches() if TUNED.exists() else None


def fairness() -> list[Fairness]:
    """Return a line for every strategy that learns."""
    searches = _searches()
    found = []
    for name in registry.STRATEGIES:
        kind: type[Strategy] = registry.load(registry.STRATEGIES[name])
        tuned = None if searches is None else searches.tuned(name)
        usual = "none (with `supervise: [cnt]` what PMN has)" if _can_have(kind) else ""
        supervision = _SUPERVISION.get(name, usual)
        searched, chosen = said_of_search(tuned)
        found.append(Fairness(name, _sees(kind), supervision, searched, chosen))
    return found


def _can_have(kind: type[Strategy]) -> bool:
    """Whether a strategy can learn [b, r] in a head beside that of the task."""
    return {"supervise", "width"} <= kind.Options.model_fields.keys()


def _sees(kind: type[Strategy]) -> str:
    if kind.at_once:
        return "all tasks at once"
    if kind.keeps_data:
        return "one task at a time, and samples it kept of earlier ones"
    return "one task at a time"
