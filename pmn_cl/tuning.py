"""The small, equal search: a few trials for each method, one development seed, validation only.

What was tried and chosen stands in ``benchmarks/tuned.json``, and the stream that it was chosen
for (``benchmarks/field.yaml``) says so in its options; a test holds the two together. A choice is
for one budget: longer trainings want lower rates. Test samples are never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from pmn_cl.errors import UserError
from pmn_cl.results import Result
from pmn_cl.runs import RunSpec
from pmn_cl.spec import StreamSpec

DEVELOPMENT_SEED = 100
MOST_TRIALS = 4
TUNED = Path(__file__).parent.parent / "benchmarks" / "tuned.json"

_RATES: list[dict[str, Any]] = [{"rate": 1.0}, {"rate": 0.3}, {"rate": 3.0}]
# The learning rate, and one parameter of the method's own where it has one. What builds on hard
# sharing keeps its learning rate, as the stream says it.
TRIALS: dict[str, list[dict[str, Any]]] = {
    "pmn": [{"rate": 1.0}, {"rate": 3.0}],  # its other settings were chosen at the full budget
    "hard_sharing": _RATES,
    "hard_sharing_joint": _RATES,
    "hard_sharing_cumulative": _RATES,
    "pnn": [{"rate": 1.0}, {"rate": 0.3}, {"rate": 3.0}, {"alpha": 0.01}],
    "multinet": [{"passes": 2}, {"passes": 1}, {"passes": 3}],
    "independent": _RATES,
    "ewc": [{"strength": s} for s in (1e1, 1e2, 1e3)],
    "si": [{"strength": s} for s in (1e1, 1e2, 1e3)],
    "mas": [{"strength": s} for s in (1e-1, 1e0, 1e1)],
    "lwf": [{"strength": s} for s in (0.3, 1.0, 3.0)],
}


class Trial(BaseModel):
    """One setting of a method, and what it scored on validation after the whole stream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    options: dict[str, Any]
    scores: dict[str, float | None]
    value: float  # mean over tasks of the share of the best trial's score


class Search(BaseModel):
    """The trials of a method, the best first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: str
    seed: int
    budget: float
    trials: list[Trial]

    @property
    def chosen(self) -> dict[str, Any]:
        """Return the options of the best trial."""
        return self.trials[0].options


def trial_runs(spec: StreamSpec, strategies: Sequence[str] = ()) -> dict[str, list[RunSpec]]:
    """Return the trials of every method of a stream that has some, by method."""
    found: dict[str, list[RunSpec]] = {}
    for given in spec.strategies:
        name = given["name"]
        if given.get("variant") or name not in TRIALS or (strategies and name not in strategies):
            continue  # variants are compared with what was chosen for the method itself
        options = {k: v for k, v in given.items() if k not in ("name", "variant")}
        found[name] = [
            RunSpec(spec, name, "trial", {**options, **trial}, DEVELOPMENT_SEED, ("val",))
            for trial in TRIALS[name][:MOST_TRIALS]
        ]
    return found


def choose(results: Sequence[Result]) -> Search:
    """Return what a method's trials came to; tasks have different units, so shares are averaged."""
    first = results[0]
    last = np.array([result.scores["val"][-1] for result in results], dtype=float)
    values = (last / np.maximum(last.max(axis=0), 1e-9)).mean(axis=1)
    trials = [
        Trial(
            options=_tried(result),
            scores=dict(zip(result.tasks, result.scores["val"][-1], strict=True)),
            value=round(float(value), 4),
        )
        for result, value in zip(results, values, strict=True)
    ]
    trials.sort(key=lambda trial: -trial.value)
    return Search(strategy=first.strategy, seed=first.seed, budget=first.budget, trials=trials)


def _tried(result: Result) -> dict[str, Any]:
    names = {name for trial in TRIALS[result.strategy] for name in trial}
    return {name: result.options[name] for name in sorted(names)}


def read_tuned(path: Path = TUNED) -> dict[str, Search]:
    """Return the searches that were done, by method."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return {name: Search.model_validate(search) for name, search in found.items()}


def write_tuned(searches: Sequence[Search], path: Path) -> None:
    """Add searches to those that are there."""
    known = read_tuned(path) if path.exists() else {}
    known |= {search.strategy: search for search in searches}
    text = json.dumps({name: s.model_dump() for name, s in sorted(known.items())}, indent=1)
    path.write_text(text + "\n", "utf-8")
