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

from pmn_cl.config.spec import BenchmarkSpec, Protocol, StreamSpec, TunedSpec
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole

TUNED = Path(__file__).parents[2] / "benchmarks" / "streams" / "tuned.json"
RATE = "lr_scale"  # the option that every search tries
DEVELOPMENT_SEED = 100  # of trials
DEVELOPMENT_WORLD = 1000  # worlds with this seed or a higher one are for development alone
_LEARNED = 0.01  # a task on which no trial is so far above the floor says nothing
# A method without a search of its own has the rate of what it builds on.
BUILDS_ON = {
    "hard_sharing_cumulative": "hard_sharing_joint",
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
    failed: bool = False  # it came to nothing: its scores are the floor


class Search(_Record):
    """The trials of one method, in the order in which they were tried."""

    given: dict[str, Any]  # options of the stream's that all trials have
    trials: list[Trial]


class Ranked(NamedTuple):
    """A trial with its value: the mean over tasks, normalised."""

    value: float
    trial: Trial


class Searches(_Record):
    """The searches of all methods that had one."""

    terms: Terms
    methods: dict[str, Search]

    def ranked(self, method: str) -> list[Ranked]:
        """Return a method's trials, the best first; of equal ones, the first tried."""
        found = [Ranked(self._value(trial), trial) for trial in self.methods[method].trials]
        return sorted(found, key=lambda ranked: -ranked.value)

    def _value(self, trial: Trial) -> float:
        floor = self.terms.floor
        everything = [trial for search in self.methods.values() for trial in search.trials]
        best = {task: max(t.scores[task] for t in everything) for task in floor}
        shares = [
            max(0.0, trial.scores[task] - floor[task]) / (best[task] - floor[task])
            for task in floor
            if best[task] > floor[task] + _LEARNED
        ]
        return fsum(shares) / len(shares) if shares else 0.0

    def chosen(self, method: str) -> dict[str, Any]:
        """Return the options of the best trial."""
        return self.ranked(method)[0].trial.options

    def at_edge(self, method: str) -> bool:
        """Whether the rate that was chosen is the lowest or the highest that was tried."""
        rates = [trial.options[RATE] for trial in self.methods[method].trials]
        return self.chosen(method)[RATE] in (min(rates), max(rates))

    def tuned(self, method: str) -> TunedSpec | None:
        """Return how a method's options were found: by its own search, or its rate by another's."""
        searched = method if method in self.methods else BUILDS_ON.get(method, "")
        if searched not in self.methods:
            return None
        chosen = self.chosen(searched)
        return TunedSpec(
            protocol=self.terms.protocol,
            method=searched,
            trials=len(self.methods[searched].trials),
            chosen=chosen if searched == method else {RATE: chosen[RATE]},
            at_edge=self.at_edge(searched),
        )

    def with_trials(self, method: str, given: dict[str, Any], trials: list[Trial]) -> Searches:
        """Return these searches with further trials of a method; which ended first is no matter."""
        known = self.methods[method].trials if method in self.methods else []
        search = Search(given=given, trials=sorted([*known, *trials], key=_place))
        return self.model_copy(update={"methods": {**self.methods, method: search}})

    def check_stream(self, stream: BenchmarkSpec, path: Path) -> None:
        """Refuse a stream that the search says nothing about, or was made on."""
        counts = {method: len(search.trials) for method, search in self.methods.items()}
        if len({*counts.values()}) > 1:
            said = ", ".join(f"{method} {count}" for method, count in counts.items())
            raise UserError(
                f"{path}: methods have unequal numbers of trials ({said}): search again with "
                "`pmn-bench tune`, which goes on where it was"
            )
        if self.terms.seed in stream.seeds:
            raise UserError(
                f"{path}: was searched with seed {self.terms.seed}, which is for trials alone: "
                f"take it out of the seeds of the stream {stream.name!r}"
            )
        ours, theirs = self.terms.stream, stream
        if ours.budget != theirs.budget:
            raise UserError(
                f"{path}: was searched with a budget of {ours.budget:g}%, and the stream "
                f"{theirs.name!r} has {theirs.budget:g}%: longer trainings want lower rates, so "
                "search again with `pmn-bench tune`, or leave `tuned` out"
            )
        first = [item.task for item in theirs.tasks[: len(ours.tasks)]]
        if ours.world.name != theirs.world.name or [item.task for item in ours.tasks] != first:
            raise UserError(
                f"{path}: was searched on {', '.join(t.task for t in ours.tasks)} of the world "
                f"{ours.world.name!r}, and the stream {theirs.name!r} has others: search again "
                "with `pmn-bench tune`, or leave `tuned` out"
            )
        seed = theirs.world.options.get("seed", 0)
        if self.terms.protocol == "another-world" and seed >= DEVELOPMENT_WORLD:
            raise UserError(
                f"{path}: the world of the stream {theirs.name!r} has the seed {seed}, and worlds "
                f"from {DEVELOPMENT_WORLD} on are for trials alone: give it one below"
            )


def _place(trial: Trial) -> list[tuple[bool, Any]]:
    """Return where a trial stands among those of its method: by what was tried."""
    return [(isinstance(value, str), value) for value in trial.options.values()]


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
    plain = searches.model_dump(mode="json")
    methods = []
    for method, search in sorted(plain["methods"].items()):
        trials = ",\n  ".join(json.dumps(trial) for trial in search["trials"])
        given = json.dumps(search["given"])
        methods.append(f'"{method}": {{"given": {given}, "trials": [\n  {trials}\n ]}}')
    terms = json.dumps(plain["terms"], indent=1)
    write_whole(path, f'{{"terms": {terms},\n"methods": {{\n {",".join(methods)}\n}}}}\n')
