"""Searches of settings: what was tried for each method, on which terms, and what was chosen.

All searches of a file have the same terms, so that scores can be put on one scale: 0 is the
constant answer, 1 the best that any trial of any method came to. A stream that names the file
(``tuned:``) gives each method what was chosen for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from pmn_cl.config.spec import Protocol, StreamSpec, TunedSpec
from pmn_cl.errors import UserError

TUNED = Path(__file__).parents[2] / "benchmarks" / "streams" / "tuned.json"
RATE = "lr_scale"  # the option that every search tries
# A method without a search of its own learns as what it builds on.
BUILDS_ON = {
    "parameter_matched": "independent",
    "hard_sharing_cumulative": "hard_sharing_joint",
    "hard_sharing_modules": "hard_sharing",
    "multinet_frozen": "multinet",
    "ewc": "hard_sharing",
    "si": "hard_sharing",
    "mas": "hard_sharing",
    "gem": "hard_sharing",
    "agem": "replay",
}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Terms(_Record):
    """What all trials of a file have in common."""

    protocol: Protocol
    stream: StreamSpec  # that trials learned
    seed: int
    floor: dict[str, float]  # the constant answer on validation, by task


class Trial(_Record):
    """One setting of a method, and what it scored on validation at the end of its stream."""

    options: dict[str, Any]
    scores: dict[str, float]  # by task


class Ranked(NamedTuple):
    """A trial with its value: the mean over tasks, normalised."""

    value: float
    trial: Trial


class Searches(_Record):
    """The trials of every method that was searched, in the order in which they were tried."""

    terms: Terms
    trials: dict[str, list[Trial]]

    def ranked(self, method: str) -> list[Ranked]:
        """Return a method's trials, the best first; of equal ones, the first tried."""
        found = [Ranked(self._value(trial), trial) for trial in self.trials[method]]
        return sorted(found, key=lambda ranked: -ranked.value)

    def _value(self, trial: Trial) -> float:
        floor, everything = self.terms.floor, [t for some in self.trials.values() for t in some]
        best = {task: max(t.scores[task] for t in everything) for task in floor}
        shares = [
            (trial.scores[task] - floor[task]) / (best[task] - floor[task])
            for task in floor
            if best[task] > floor[task]  # on others nobody learned anything
        ]
        return fsum(shares) / len(shares) if shares else 0.0

    def chosen(self, method: str) -> dict[str, Any]:
        """Return the options of the best trial."""
        return self.ranked(method)[0].trial.options

    def at_edge(self, method: str) -> bool:
        """Whether the rate that was chosen is the lowest or the highest that was tried."""
        rates = [trial.options[RATE] for trial in self.trials[method]]
        return self.chosen(method)[RATE] in (min(rates), max(rates))

    def tuned(self, method: str) -> TunedSpec | None:
        """Return how a method's options were found, by its own search or by another's."""
        searched = method if method in self.trials else BUILDS_ON.get(method, "")
        if searched not in self.trials:
            return None
        return TunedSpec(
            protocol=self.terms.protocol,
            method=searched,
            trials=len(self.trials[searched]),
            chosen=self.chosen(searched),
            at_edge=self.at_edge(searched),
        )

    def with_trials(self, method: str, trials: list[Trial]) -> Searches:
        """Return these searches with further trials of a method."""
        added = [*self.trials.get(method, []), *trials]
        return self.model_copy(update={"trials": {**self.trials, method: added}})


def read_searches(path: Path = TUNED) -> Searches:
    """Return the searches of a file."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        return Searches.model_validate(found)
    except (OSError, ValueError) as error:
        said = f"{len(error.errors())} faults" if isinstance(error, ValidationError) else error
        raise UserError(
            f"{path}: cannot be read as what `pmn-bench tune --save` writes: {said}"
        ) from None


def write_searches(searches: Searches, path: Path) -> None:
    """Write the searches, a trial to a line."""
    trials = {
        method: [trial.model_dump(mode="json") for trial in some]
        for method, some in sorted(searches.trials.items())
    }
    terms = json.dumps(searches.terms.model_dump(mode="json"), indent=1)
    methods = (
        f'"{method}": [\n' + ",\n".join(f"  {json.dumps(trial)}" for trial in some) + "\n ]"
        for method, some in trials.items()
    )
    path.write_text(
        '{"terms": ' + terms + ',\n"trials": {\n ' + ",\n ".join(methods) + "\n}}\n", "utf-8"
    )
