"""The search: eight trials for each method, on validation alone, by a named protocol.

The default protocol tries settings on a development world, which no comparison is ever made on
(the generalisable protocol of Cha & Cho 2024): what suits the judged world alone is not found.
A choice is for one budget, as longer trainings want lower rates. Test samples are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl.config.names import world_class
from pmn_cl.config.searches import RATE, Searches, Terms, Trial, read_searches, write_searches
from pmn_cl.config.spec import BenchmarkSpec, Protocol, RunSpec, StrategySpec, StreamSpec
from pmn_cl.errors import UserError
from pmn_cl.results.result import Result
from pmn_cl.results.table import number
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.progress import ProgressDisplay
from pmn_cl.studies.conduct import open_world, read_stream, shared_modules, study_folder
from pmn_cl.studies.request import TuningRequest

DEVELOPMENT_SEED = 100  # of trials
DEVELOPMENT_WORLD = 1000  # worlds with this seed or a higher one are for development alone
TRIALS = 8
_LABEL = "trial"

_FEW = (0.5, 1.0, 2.0, 4.0)  # learning rates, beside two values of a parameter
_MANY = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
WIDER = (0.2, 8.0)  # tried with all methods as soon as one has chosen the edge of its rates


def _grid(**parameter: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the trials of a method: rates, with each value of its parameter where it has one."""
    names = (RATE, *parameter)
    values = product(_FEW if parameter else _MANY, *parameter.values())
    return [dict(zip(names, some, strict=True)) for some in values]


GRIDS: dict[str, list[dict[str, Any]]] = {
    "pmn": _grid(supervision=(0.5, 1.0)),
    "independent": _grid(),
    "hard_sharing": _grid(),
    "hard_sharing_joint": _grid(),
    "hard_sharing_cumulative": _grid(),
    "pnn": _grid(alpha=(0.1, 0.01)),
    "multinet": _grid(passes=(2, 3)),
    "multinet_joint": _grid(passes=(2, 3)),
    "lwf": _grid(strength=(1.0, 3.0)),
    "ewc": _grid(strength=(100.0, 1000.0)),
    "si": _grid(strength=(10.0, 100.0)),
    "mas": _grid(strength=(0.1, 1.0)),
    "gem": _grid(memory_strength=(0.1, 0.5)),
    "agem": _grid(sample_size=(64, 256)),
    "replay": _grid(storage=("experience", "reservoir")),
}


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


class Search:
    """Tries settings of the methods of a stream, and keeps what came of each."""

    def __init__(self, spec: BenchmarkSpec, request: TuningRequest, console: Console) -> None:
        self._spec, self._request, self._console = spec, request, console
        self.folder = study_folder(spec, request.out, "-tune")
        self.stream = trial_stream(spec, request.protocol)
        self.known = self._read(request.save)
        self.failed: list[Result] = []
        self.interrupted = False

    def _read(self, path: Path | None) -> Searches | None:
        """Return the trials that are kept already; refuse those on other terms."""
        if path is None or not path.exists():
            return None
        known = read_searches(path)
        mine, theirs = (
            stream.model_dump(exclude={"name", "primary"})
            for stream in (self.stream, known.terms.stream)
        )
        if known.terms.protocol != self._request.protocol or mine != theirs:
            other = [name for name in mine if mine[name] != theirs[name]] or ["protocol"]
            raise UserError(
                f"{path}: has trials on other terms ({', '.join(other)}); give another --save, "
                "or move it away"
            )
        return known

    def methods(self) -> dict[str, dict[str, Any]]:
        """Return the methods that are to be searched, with what the stream says of each."""
        chosen = self._request.strategies
        found = {
            given.name: given.options
            for given in self._spec.strategies
            if not given.variant and given.name in GRIDS and (not chosen or given.name in chosen)
        }
        if not found:
            raise UserError(
                f"{self._request.stream}: names no strategy that is searched ({', '.join(GRIDS)})"
            )
        return found

    def try_all(self, grids: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        """Learn what was not tried yet."""
        given, runs = self.methods(), []
        for method, grid in grids.items():
            tried = [] if self.known is None else self.known.trials.get(method, [])
            done = [trial.options for trial in tried]
            runs += [self._run(method, given[method], t) for t in grid if t not in done]
        if not runs:
            return
        usual = LocalEngine().usual_workers(self.stream.threads)
        workers = min(self._request.workers or usual, len(runs))
        driver = Driver(self.folder, workers=workers, cache=self._request.cache)
        with ProgressDisplay(runs, self._console) as display:
            found = {result.key: result for result in driver.run(runs, display)}
        self.interrupted |= driver.interrupted
        results = [found[run.key] for run in runs if run.key in found]
        self.failed += [result for result in results if result.status != "completed"]
        for method, grid in grids.items():
            learned = [r for r in results if r.strategy == method and r.status == "completed"]
            if learned:
                self._keep(method, grid[0], learned)

    def _run(self, method: str, given: dict[str, Any], tried: dict[str, Any]) -> RunSpec:
        return RunSpec(
            stream=self.stream,
            strategy=StrategySpec(name=method, variant=_LABEL, options={**given, **tried}),
            seed=DEVELOPMENT_SEED,
            study="tune",
            splits=["val"],
            reuse=str(shared_modules(self.folder)),
        )

    def _keep(self, method: str, names: Iterable[str], results: Sequence[Result]) -> None:
        """Add trials to those that are known, and to the file."""
        trials = [
            Trial(
                options={name: result.options[name] for name in names},
                scores=_by_task(result.tasks, result.scores["val"][-1]),
            )
            for result in results
        ]
        known = self.known
        if known is None:
            terms = Terms(
                protocol=self._request.protocol,
                stream=self.stream,
                seed=DEVELOPMENT_SEED,
                floor=_by_task(results[0].tasks, results[0].constant["val"]),
            )
            known = Searches(terms=terms, trials={})
        self.known = known.with_trials(method, trials)
        if self._request.save is not None:
            write_searches(self.known, self._request.save)

    def widen(self) -> bool:
        """Try rates beyond the edge with all methods as soon as one has chosen the edge; once."""
        known = self.known
        if known is None or not any(_wants_wider(known, method) for method in known.trials):
            return False
        searched = [method for method in self.methods() if method in known.trials]
        wider = {m: [{**known.chosen(m), RATE: rate} for rate in WIDER] for m in searched}
        self.try_all(wider)
        return True


def _by_task(tasks: Iterable[str], scores: Iterable[float | None]) -> dict[str, float]:
    return {task: 0.0 if s is None else s for task, s in zip(tasks, scores, strict=True)}


def _wants_wider(known: Searches, method: str) -> bool:
    """Whether a method has chosen the edge of its rates, now or before they were widened."""
    widened = any(trial.options[RATE] in WIDER for trial in known.trials[method])
    return widened or known.at_edge(method)


def tune_command(request: TuningRequest, console: Console) -> int:
    """Search the settings of a stream's methods; return the exit code."""
    spec = read_stream(request.stream)
    search = Search(spec, request, console)
    methods = search.methods()
    open_world(spec.model_copy(update=dict(search.stream)), request.cache)
    for method in methods:  # one after another, so that what is done is kept
        search.try_all({method: GRIDS[method]})
        if search.interrupted:
            break
    if not search.interrupted and search.widen():
        console.print(f"an edge was chosen: all tried {' and '.join(map(str, WIDER))}, too")
    for result in search.failed:
        said = result.error.message if result.error else ""
        console.print(f"{result.key}: {result.status}: {said}")
    if search.known is not None:
        console.print(_trials_table(search.known, methods))
        for method in methods:
            if method in search.known.trials and search.known.at_edge(method):
                console.print(f"{method}: the rate chosen is the edge of what was tried")
        if request.save is not None:
            console.print(f"wrote {request.save}")
    return int(search.interrupted or bool(search.failed))


def _trials_table(known: Searches, methods: Iterable[str]) -> Table:
    title = f"validation, {known.terms.protocol}, seed {known.terms.seed}"
    table = Table(box=None, header_style="bold", title=title)
    tasks = list(known.terms.floor)
    for column in ("strategy", "tried", *tasks, "normalised"):
        table.add_column(column, justify="right" if column in tasks else "left")
    for method in methods:
        for value, trial in known.ranked(method) if method in known.trials else ():
            tried = ", ".join(f"{name} {value}" for name, value in trial.options.items())
            scores = map(number, (trial.scores[task] for task in tasks))
            table.add_row(method, tried, *scores, f"{value:.3f}")
    return table
