"""The low-data regime: one task learned from less and less, all others from what they always had.

Which runs that takes, and what they gain over the base. Lower modules are learned once for each
seed and shared by all fractions. Every fraction gets as many steps as all data would: with fewer,
small ones stay on the plateau where learning starts, and nothing is compared. It stops when
validation has not gained three times in a row: 1% is not learned by heart without end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl.config.names import call_lists, strategy_options
from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StrategySpec, TaskSpec
from pmn_cl.console import print_table
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.low_data import BASE, gains
from pmn_cl.results.paper import FRACTIONS
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import as_range
from pmn_cl.strategy.training import NetworkOptions
from pmn_cl.studies.conduct import (
    carry_through,
    check_places,
    conclude_study,
    open_world,
    plan_study,
    print_plan,
    read_stream,
    say_interrupted,
    shared_modules,
    splits_of,
    study_folder,
)
from pmn_cl.studies.request import SweepRequest

_LABEL = "low-data"
_PATIENCE = 3


def sweep_runs(
    spec: BenchmarkSpec,
    *,
    task: str = "vqa",
    fractions: Sequence[float] = FRACTIONS,
    strategies: Sequence[str] = ("pmn", BASE),
    seeds: Sequence[int] = (),
    samples: int,
    reuse: Path,
) -> list[RunSpec]:
    """Return a run for each strategy, seed and fraction.

    A strategy has the options that the stream gives it; ``samples`` is how many all data are.
    """
    tasks = swept_tasks(spec, task)
    runs = []
    for fraction in fractions:
        stream = spec.stream.model_copy(update={"tasks": tasks, "fraction": fraction})
        for seed in dict.fromkeys(seeds or spec.seeds):
            for name in strategies:
                said = spec.of_study(name)
                options = _enough_steps(name, said.options, task, samples, spec.budget)
                runs.append(
                    RunSpec(
                        stream=stream,
                        strategy=StrategySpec(
                            name=name, variant=_LABEL, options=options, tuned=said.tuned
                        ),
                        seed=seed,
                        study="sweep",
                        splits=list(spec.splits),
                        evaluate_at_end=True,
                        reuse=str(reuse),
                    )
                )
    return runs


def swept_tasks(spec: BenchmarkSpec, task: str) -> list[TaskSpec]:
    """Return the task with all that it calls; these keep the fraction that they have.

    M_cnt, whose questions are among those of vqa, is left out below it, as in the paper.
    """
    calls = call_lists(spec)
    given = dict(zip(calls, spec.tasks, strict=True))
    if task not in calls:
        near = did_you_mean(task, calls)
        raise UserError(f"--task {task}: the stream has {', '.join(calls)}{near}")
    if task == "vqa":
        calls["vqa"] = [name for name in calls["vqa"] if name != "cnt"]
    needed = {task}
    for name in reversed(calls):  # callees come before their callers
        needed |= set(calls[name]) if name in needed else set()
    return [
        TaskSpec(
            task=item.task,
            calls=calls[name],
            fraction=None if name == task else item.fraction or spec.fraction,
            curriculum=item.curriculum,
        )
        for name, item in given.items()
        if name in needed
    ]


def _enough_steps(
    strategy: str, options: Mapping[str, Any], task: str, samples: int, budget: float
) -> dict[str, Any]:
    """Return options in which fractions get the steps of all data, where a strategy takes any."""
    known = strategy_options(strategy).model_validate(dict(options))
    if not isinstance(known, NetworkOptions) or task not in known.settings():
        return dict(options)
    settings = known.settings()[task]
    whole = settings.steps(math.ceil(samples / settings.batch_size), budget)
    least = {"least_steps": whole, "patience": _PATIENCE}
    training = dict(options.get("training", {}))
    training[task] = {**least, **training.get(task, {})}
    return {**options, "training": training}


def sweep_command(
    request: SweepRequest, console: Console, progress: ProgressCallback | None = None
) -> int:
    """Learn one task from less and less data; return the exit code."""
    spec = read_stream(request.stream)
    folder = study_folder(spec, request.out, "-sweep")
    check_places(folder, request)
    opened = open_world(spec, request.cache, progress)
    samples = {task.task.name: len(task.splits["train"]) for task in opened.tasks}
    runs = sweep_runs(
        spec,
        task=request.task,
        fractions=sorted(request.fractions or FRACTIONS),
        strategies=request.strategies or ("pmn", BASE),
        seeds=request.seeds,
        samples=samples.get(request.task, 0),
        reuse=shared_modules(folder, spec),
    )
    plan = plan_study(spec, runs, folder, request)
    if request.dry_run:
        print_plan(plan, console, fractions=True)
        return 0
    outcome = carry_through(plan, request, console)
    if outcome.interrupted:
        return say_interrupted(outcome, plan, console)
    for split in splits_of(outcome.results):
        print_table(console, gains_table(outcome.results, split))
    return conclude_study(outcome, console)


def gains_table(results: Sequence[Result], split: str) -> Table:
    """Return what PMN gains over each other strategy, by fraction, beside the paper's row."""
    table = Table(box=None, header_style="bold", title=f"gain on {split}, paired by seed")
    for title in ("over", "data", "seeds", "gain", "95% interval", "p (Holm)", "the paper's"):
        table.add_column(title, justify="left" if title == "over" else "right")
    for gain in gains(results, split):
        found = gain.pair.difference
        table.add_row(
            gain.over,
            f"{gain.fraction:g}%",
            str(gain.pair.seeds),
            f"{found.mean:+.3f}",
            as_range(found),
            "-" if gain.p is None else f"{gain.p:.3f}",
            "" if gain.paper is None else f"{gain.paper:+.3f}",
        )
    return table
