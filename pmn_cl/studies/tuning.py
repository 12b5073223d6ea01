"""The search: eight trials for each method, on validation alone, by a named protocol.

The default protocol tries settings on a development world, which no comparison is ever made on
(the generalisable protocol of Cha & Cho 2024): what suits the judged world alone is not found.
A choice is for one budget, as longer trainings want lower rates. Test samples are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl.config.names import world_class
from pmn_cl.config.searches import (
    DEVELOPMENT_SEED,
    DEVELOPMENT_WORLD,
    RATE,
    Searches,
    Terms,
    Trial,
    read_searches,
    write_searches,
)
from pmn_cl.config.spec import BenchmarkSpec, Protocol, RunSpec, StrategySpec, StreamSpec
from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.console import INTERRUPTED, print_table, same_command
from pmn_cl.errors import UserError
from pmn_cl.results.result import Result
from pmn_cl.results.table import number
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.progress import ProgressDisplay
from pmn_cl.studies.conduct import open_world, shared_modules, study_folder
from pmn_cl.studies.request import TuningRequest

TRIALS = 8
_LABEL = "trial"

_FEW = (0.5, 1.0, 2.0, 4.0)  # learning rates, beside two values of a parameter
_MANY = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
WIDER = (0.2, 8.0)  # tried with all methods as soon as one has chosen the edge of its rates

# The methods that are searched, each with a parameter of its own where it has one.
PARAMETERS: dict[str, dict[str, tuple[Any, Any]]] = {
    "pmn": {},
    "independent": {},
    "parameter_matched": {},
    "hard_sharing": {},
    "hard_sharing_modules": {},
    "hard_sharing_joint": {},
    "hard_sharing_cumulative": {},
    "pnn": {"alpha": (0.1, 0.01)},
    "multinet": {"passes": (2, 3)},
    "multinet_joint": {"passes": (2, 3)},
    "lwf": {"strength": (1.0, 3.0)},
    "ewc": {"strength": (100.0, 1000.0)},
    "si": {"strength": (10.0, 100.0)},
    "mas": {"strength": (0.1, 1.0)},
    "gem": {"memory_strength": (0.1, 0.5)},
    "agem": {"sample_size": (64, 256)},
    "replay": {"storage": ("experience", "reservoir")},
}


def grid_of(method: str) -> list[dict[str, Any]]:
    """Return a method's trials: rates with each value of its parameter, or more rates."""
    parameter = PARAMETERS[method]
    names = (RATE, *parameter)
    values = product(_FEW if parameter else _MANY, *parameter.values())
    return [dict(zip(names, some, strict=True)) for some in values]


def trial_stream(spec: BenchmarkSpec, protocol: Protocol) -> StreamSpec:
    """Return the stream that trials learn by a protocol."""
    stream, options = spec.stream, spec.world.options
    if protocol == "end-of-stream":
        return stream
    if protocol == "first-task":
        return stream.model_copy(update={"tasks": stream.tasks[:1]})
    seed = options.get("seed", 0)
    if "seed" not in world_class(spec.world).Options.model_fields:
        raise UserError(
            f"--protocol another-world: the world {spec.world.name!r} cannot be made anew from "
            "another seed; take --protocol first-task"
        )
    if seed >= DEVELOPMENT_WORLD:
        raise UserError(
            f"--protocol another-world: the stream's own world has the seed {seed}, and worlds "
            f"from {DEVELOPMENT_WORLD} on are for trials; give it one below"
        )
    world = spec.world.model_copy(update={"options": {**options, "seed": DEVELOPMENT_WORLD}})
    return stream.model_copy(update={"world": world})


class Searching:
    """Tries settings of the methods of a stream, and keeps what came of each."""

    def __init__(self, spec: BenchmarkSpec, request: TuningRequest, console: Console) -> None:
        self._spec, self._request, self._console = spec, request, console
        self.folder = study_folder(spec, request.out, "-tune")
        self.stream = trial_stream(spec, request.protocol)
        self.methods = self._methods()
        self.known = self._read(request.save)
        self.failed: list[Result] = []
        self.interrupted = False

    def _methods(self) -> dict[str, dict[str, Any]]:
        """Return the methods that are to be searched, with what the stream says of each.

        That is what it says first: its other variants get what is chosen for that one.
        """
        chosen = self._request.strategies
        found: dict[str, dict[str, Any]] = {}
        for given in self._spec.strategies:
            if given.name in PARAMETERS and (not chosen or given.name in chosen):
                tried = {RATE, *PARAMETERS[given.name]}
                own = {name: value for name, value in given.options.items() if name not in tried}
                found.setdefault(given.name, own)
        if not found:
            raise UserError(
                f"{self._request.stream}: names no strategy that is searched "
                f"({', '.join(PARAMETERS)})"
            )
        return found

    def _read(self, path: Path | None) -> Searches | None:
        """Return the trials that are kept already; refuse those on other terms."""
        if path is None:
            return None
        if not path.absolute().parent.is_dir():
            raise UserError(f"--save {path}: no folder {path.parent}; make it first")
        if not path.exists():
            return None
        known = read_searches(path)
        mine, theirs = (
            stream.model_dump(exclude={"name", "primary"})
            for stream in (self.stream, known.terms.stream)
        )
        other = [name for name in mine if mine[name] != theirs[name]]
        other += ["protocol"] if known.terms.protocol != self._request.protocol else []
        for method, given in self.methods.items():
            if method in known.methods and known.methods[method].given != given:
                other.append(f"options of {method}")
        if other:
            raise UserError(
                f"{path}: has trials on other terms ({', '.join(other)}); give another --save, "
                "or move it away"
            )
        return known

    def trials(self, method: str) -> list[Trial]:
        """Return what was tried of a method."""
        searched = self.known is not None and method in self.known.methods
        return self.known.methods[method].trials if self.known and searched else []

    def try_all(self, grids: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        """Learn what was not tried yet."""
        runs = []
        for method, grid in grids.items():
            done = [trial.options for trial in self.trials(method)]
            runs += [self.run_of(method, tried) for tried in grid if tried not in done]
        if not runs:
            return
        usual = LocalEngine().usual_workers(self.stream.threads)
        workers = min(self._request.workers or usual, len(runs))
        driver = Driver(self.folder, workers=workers, cache=self._request.cache)

        def keep(results: Sequence[Result]) -> None:
            ended = [result for result in results if result.status in ("completed", "failed")]
            for method, grid in grids.items():
                if grid:
                    self._keep(method, grid[0], [r for r in ended if r.strategy == method])

        with _KeepingDisplay(runs, self._console, keep) as display:
            results = driver.run(runs, display)
        keep(results)  # also those that an earlier search has left, and who failed before any floor
        self.interrupted |= driver.interrupted
        self.failed += [result for result in results if result.status == "failed"]

    def _given(self, method: str) -> dict[str, Any]:
        """Return what all trials of a method have, also of one that is not asked for now."""
        if method in self.methods or self.known is None:
            return self.methods[method]
        return self.known.methods[method].given

    def run_of(self, method: str, tried: dict[str, Any]) -> RunSpec:
        """Return the run that tries a setting of a method."""
        options = {**self._given(method), **tried}
        return RunSpec(
            stream=self.stream,
            strategy=StrategySpec(name=method, variant=_LABEL, options=options),
            seed=DEVELOPMENT_SEED,
            study="tune",
            splits=["val"],
            reuse=str(shared_modules(self.folder, self.stream)),
        )

    def _keep(self, method: str, names: Iterable[str], results: Sequence[Result]) -> None:
        """Add trials to those that are known, and to the file; one that failed is at the floor."""
        known = [trial.options for trial in self.trials(method)]
        names = list(names)
        results = [r for r in results if {n: r.run.strategy.options[n] for n in names} not in known]
        done = [result for result in results if result.status == "completed"]
        if self.known is None and not done:
            return  # not even the floor is known
        if self.known is None:
            terms = Terms(
                protocol=self._request.protocol,
                stream=self.stream,
                seed=DEVELOPMENT_SEED,
                floor=_by_task(done[0].tasks, done[0].constant["val"]),
            )
            self.known = Searches(terms=terms, methods={})
        trials = [
            Trial(
                options={name: result.run.strategy.options[name] for name in names},
                scores=_by_task(result.tasks, result.scores["val"][-1])
                if result.status == "completed"
                else self.known.terms.floor,
                failed=result.status == "failed",
            )
            for result in results
        ]
        if trials:
            self.known = self.known.with_trials(method, self._given(method), trials)
            if self._request.save is not None:
                write_searches(self.known, self._request.save)

    def widen(self) -> bool:
        """Try rates beyond the edge with all methods as soon as one has chosen the edge; once."""
        known = self.known
        if known is None:
            return False
        rates = {m: {trial.options[RATE] for trial in self.trials(m)} for m in known.methods}
        begun = any(tried.intersection(WIDER) for tried in rates.values())
        if not begun and not any(known.at_edge(method) for method in known.methods):
            return False
        # A rate that was tried already is not tried again, with another parameter that leads now.
        self.try_all(
            {
                method: [{**known.chosen(method), RATE: r} for r in WIDER if r not in rates[method]]
                for method in known.methods
            }
        )
        return True


class _KeepingDisplay(ProgressDisplay):
    """Shows how trials go, and lets each be kept as soon as it has ended."""

    def __init__(
        self, runs: Sequence[RunSpec], console: Console, keep: Callable[[Sequence[Result]], None]
    ) -> None:
        super().__init__(runs, console)
        self._keep = keep

    def update(self, running: dict[str, dict[str, Any]], ended: Sequence[Result]) -> None:
        """Take what runs are at, and keep those that have just ended."""
        super().update(running, ended)
        self._keep(ended)


def _by_task(tasks: Iterable[str], scores: Iterable[float | None]) -> dict[str, float]:
    return {task: 0.0 if s is None else s for task, s in zip(tasks, scores, strict=True)}


def tune_command(request: TuningRequest, console: Console) -> int:
    """Search the settings of a stream's methods; return the exit code."""
    spec = load_spec(find_stream(request.stream)[0], tuned=False)
    search = Searching(spec, request, console)
    open_world(spec.model_copy(update=dict(search.stream)), request.cache)
    for method in search.methods:  # one after another, so that what is done is kept
        search.try_all({method: grid_of(method)})
        if search.interrupted:
            break
    if not search.interrupted and search.widen():
        console.print(f"an edge was chosen: all tried {' and '.join(map(str, WIDER))}, too")
    for result in search.failed:
        said = result.error.message if result.error else ""
        console.print(f"{result.key}: {result.status}: {said}")
    if search.known is not None:
        searched = [method for method in search.methods if search.trials(method)]
        print_table(console, _trials_table(search.known, searched))
        for method in searched:
            if search.known.at_edge(method):
                console.print(f"{method}: the rate chosen is the edge of what was tried")
        if request.save is not None:
            console.print(f"wrote {request.save}")
    if search.interrupted:
        console.print(f"interrupted; go on with: {same_command()}", soft_wrap=True)
        return INTERRUPTED
    return int(bool(search.failed))


def _trials_table(known: Searches, methods: Iterable[str]) -> Table:
    title = f"validation, {known.terms.protocol}, seed {known.terms.seed}"
    table = Table(box=None, header_style="bold", title=title)
    tasks = list(known.terms.floor)
    for column in ("strategy", "tried", *tasks, "normalised"):
        table.add_column(column, justify="right" if column in tasks else "left")
    for method in methods:
        for value, trial in known.ranked(method):
            tried = ", ".join(f"{name} {value}" for name, value in trial.options.items())
            scores = map(number, (trial.scores[task] for task in tasks))
            table.add_row(method, tried, *scores, "failed" if trial.failed else f"{value:.3f}")
    return table
