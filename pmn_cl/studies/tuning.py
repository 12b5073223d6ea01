"""The small, equal search: a few trials for each method, one development seed, validation only.

What was tried and chosen stands in ``benchmarks/streams/tuned.json``, and the stream that it was
chosen for (``field.yaml``) says so in its options; a test holds the two together. A choice is for
one budget: longer trainings want lower rates. Test samples are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StrategySpec
from pmn_cl.errors import UserError
from pmn_cl.results.result import Result
from pmn_cl.results.searches import Search, Trial, write_tuned
from pmn_cl.results.table import number
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.progress import ProgressDisplay
from pmn_cl.studies.conduct import open_world, read_stream, study_folder
from pmn_cl.studies.request import TuningRequest

_LABEL = "trial"
DEVELOPMENT_SEED = 100
MOST_TRIALS = 4

_LR_SCALES: list[dict[str, Any]] = [{"lr_scale": 1.0}, {"lr_scale": 0.3}, {"lr_scale": 3.0}]
# The learning rate, and one parameter of the method's own where it has one. What builds on hard
# sharing keeps its learning rate, as the stream says it.
TRIALS: dict[str, list[dict[str, Any]]] = {
    "pmn": [
        {"lr_scale": 1.0},
        {"lr_scale": 3.0},
    ],  # its other settings were chosen at the full budget
    "hard_sharing": _LR_SCALES,
    "hard_sharing_joint": _LR_SCALES,
    "hard_sharing_cumulative": _LR_SCALES,
    "pnn": [{"lr_scale": 1.0}, {"lr_scale": 0.3}, {"lr_scale": 3.0}, {"alpha": 0.01}],
    "multinet": [{"passes": 2}, {"passes": 1}, {"passes": 3}],
    "independent": _LR_SCALES,
    "ewc": [{"strength": s} for s in (1e1, 1e2, 1e3)],
    "si": [{"strength": s} for s in (1e1, 1e2, 1e3)],
    "mas": [{"strength": s} for s in (1e-1, 1e0, 1e1)],
    "lwf": [{"strength": s} for s in (0.3, 1.0, 3.0)],
}


def trial_runs(spec: BenchmarkSpec, strategies: Sequence[str] = ()) -> dict[str, list[RunSpec]]:
    """Return the trials of every method of a stream that has some, by method."""
    found: dict[str, list[RunSpec]] = {}
    for given in spec.strategies:
        name = given.name
        if given.variant or name not in TRIALS or (strategies and name not in strategies):
            continue  # variants are compared with what was chosen for the method itself
        found[name] = [
            RunSpec(
                stream=spec.stream,
                strategy=StrategySpec(
                    name=name, variant=_LABEL, options={**given.options, **trial}
                ),
                seed=DEVELOPMENT_SEED,
                study="tune",
                splits=["val"],
            )
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


def tune_command(request: TuningRequest, console: Console) -> int:
    """Search the settings of a stream's methods; return the exit code."""
    spec = read_stream(request.stream)
    trials = trial_runs(spec, request.strategies)
    if not trials:
        raise UserError(f"{request.stream}: names no strategy with trials ({', '.join(TRIALS)})")
    runs = [run for some in trials.values() for run in some]
    folder = study_folder(spec, request.out, "-tune")
    open_world(spec, request.cache)
    usual = LocalEngine().usual_workers(spec.threads)
    driver = Driver(folder, workers=min(request.workers or usual, len(runs)), cache=request.cache)
    with ProgressDisplay(runs, console) as display:
        results = {result.key: result for result in driver.run(runs, display)}
    failed = [r for r in results.values() if r.status != "completed"]
    for result in failed:
        said = result.error.message if result.error else ""
        console.print(f"{result.key}: {result.status}: {said}")
    searches = [
        choose([results[run.key] for run in some])
        for some in trials.values()
        if all(run.key in results and results[run.key].status == "completed" for run in some)
    ]
    console.print(_trials_table(searches))
    if request.save is not None and searches:
        write_tuned(searches, request.save)
        console.print(f"wrote {request.save}")
    return int(driver.interrupted or bool(failed))


def _trials_table(searches: Sequence[Search]) -> Table:
    table = Table(box=None, header_style="bold", title="validation, after the whole stream")
    tasks = list(searches[0].trials[0].scores) if searches else []
    for title in ("strategy", "tried", *tasks, "scaled mean"):
        table.add_column(title, justify="right" if title in tasks else "left")
    for search in searches:
        for trial in search.trials:
            tried = ", ".join(f"{name} {value:g}" for name, value in trial.options.items())
            table.add_row(
                search.strategy, tried, *map(number, trial.scores.values()), f"{trial.value:.3f}"
            )
    return table
