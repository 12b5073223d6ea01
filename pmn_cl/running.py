"""What ``pmn-bench run`` does: plan, drive, watch, and say what came out."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pmn_cl import registry
from pmn_cl.driver import Driver, check_folder
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.results import Result
from pmn_cl.runs import RunSpec, plan_runs
from pmn_cl.spec import StreamSpec, find_stream, load_spec
from pmn_cl.tuning import DEVELOPMENT_SEED, TRIALS, Search, choose, trial_runs, write_tuned


def run_command(
    stream: str,
    *,
    console: Console,
    strategies: Sequence[str],
    seeds: Sequence[int],
    out: Path | None,
    workers: int | None,
    device: str,
    dry_run: bool,
    fresh: bool,
    checkpoint_every: float,
    cache: Path | None,
) -> int:
    """Run a stream; return the exit code."""
    path, shipped = find_stream(stream)
    if shipped:
        console.print(f"{stream}: no such file here, using the stream that comes with pmn-bench")
    spec = load_spec(path)
    runs = chosen_runs(spec, strategies, seeds)
    folder = out or Path("runs") / spec.name
    check_folder(folder)
    at_a_time = min(workers or default_workers(spec.threads), len(runs))
    if dry_run:
        for run in runs:
            console.print(run.key)
        console.print(f"{len(runs)} runs, {at_a_time} at a time, into {folder}")
        return 0
    registry.load("benchmarks.stream:Stream").open(spec, 0, cache=cache)  # builds the world once
    driver = Driver(
        folder,
        workers=at_a_time,
        cache=cache,
        device=chosen_device(device),
        every=checkpoint_every,
        fresh=fresh,
    )
    watcher = Watcher(runs, console)
    with watcher:
        results = driver.run(runs, watcher)
    console.print(closing_table(results))
    if driver.interrupted:
        done = sum(result.status == "completed" for result in results)
        console.print(
            f"interrupted: {done} of {len(runs)} runs are done, the others have kept their state "
            f"in {folder}; {'the same command without --fresh' if fresh else 'the same command'} "
            "goes on",
            soft_wrap=True,
        )
    for result in results:
        if result.error is not None:
            said = f"{result.key}: {result.status}: {result.error.message}"
            console.print(said, soft_wrap=True)
    console.print(f"results: {folder}", soft_wrap=True)
    return int(driver.interrupted or any(r.status != "completed" for r in results))


def tune_command(
    stream: str,
    *,
    console: Console,
    strategies: Sequence[str],
    out: Path | None,
    workers: int | None,
    save: Path | None,
    cache: Path | None,
) -> int:
    """Search the settings of a stream's methods; return the exit code."""
    spec = load_spec(find_stream(stream)[0])
    trials = trial_runs(spec, strategies)
    if not trials:
        raise UserError(f"{stream}: names no strategy with trials ({', '.join(TRIALS)})")
    runs = [run for some in trials.values() for run in some]
    folder = out or Path("runs") / f"{spec.name}-tune"
    registry.load("benchmarks.stream:Stream").open(spec, DEVELOPMENT_SEED, cache=cache)
    at_a_time = min(workers or default_workers(spec.threads), len(runs))
    driver = Driver(folder, workers=at_a_time, cache=cache)
    with Watcher(runs, console) as watcher:
        results = {result.key: result for result in driver.run(runs, watcher)}
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
    if save is not None and searches:
        write_tuned(searches, save)
        console.print(f"wrote {save}")
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
                search.strategy, tried, *map(_number, trial.scores.values()), f"{trial.value:.3f}"
            )
    return table


def chosen_runs(spec: StreamSpec, strategies: Sequence[str], seeds: Sequence[int]) -> list[RunSpec]:
    """Return the runs asked for; a strategy that the stream does not name is refused."""
    named = [str(given["name"]) for given in spec.strategies]
    for name in strategies:
        if name not in named:
            raise UserError(
                f"--strategy {name}: the stream names {', '.join(named)}{did_you_mean(name, named)}"
            )
    return plan_runs(spec, strategies, seeds)


def default_workers(threads: int) -> int:
    """Return how many runs the machine can carry at a time."""
    return max(1, len(os.sched_getaffinity(0)) // threads)


def chosen_device(device: str) -> str:
    """Return the device that is meant; ``auto`` is a GPU where there is one."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class Watcher:
    """Shows how the runs go: a live table in a terminal, a line for each event elsewhere."""

    def __init__(self, runs: Sequence[RunSpec], console: Console) -> None:
        self._console, self._count = console, len(runs)
        self._tasks = max(len(run.stream.tasks) for run in runs) if runs else 0
        self._ended = 0
        self._began = time.monotonic()
        self._said: dict[str, str] = {}
        self._live = Live(console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Watcher:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *how: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def update(self, running: dict[str, dict[str, Any]], ended: list[Result]) -> None:
        """Show what runs are at, and what those that ended came to."""
        for result in ended:
            self._ended += 1
            self._console.print(
                f"[{self._ended}/{self._count}] {result.key}: {result.status}, "
                f"{_short(result)}, {result.seconds:.0f} s"
            )
        if self._console.is_terminal:
            self._live.update(self._table(running))
            return
        for key, told in running.items():
            line = f"{told['task']} {told['epoch']}/{told['epochs']}" if told else ""
            if told and told["score"] is not None and self._said.get(key) != line:
                self._said[key] = line
                self._console.print(
                    f"{key}: {told['task']} epoch {told['epoch']} of {told['epochs']}, "
                    f"loss {told['loss']:.3f}, validation {told['score']:.3f}"
                )

    def _table(self, running: dict[str, dict[str, Any]]) -> Table:
        seconds = time.monotonic() - self._began
        table = Table(box=None, header_style="bold")
        for title in ("run", "task", "epoch", "loss", "validation", "left of the task"):
            table.add_column(title)
        for key, told in running.items():
            if not told:
                table.add_row(key, "starting")
                continue
            score = "" if told["score"] is None else f"{told['score']:.3f}"
            share = told["step"] / told["steps"]
            epoch = f"{told['epoch']}/{told['epochs']}"
            table.add_row(key, told["task"], epoch, f"{told['loss']:.3f}", score, _bar(share))
        done = f"{self._ended} of {self._count} runs done"
        left = f", about {seconds / self._ended * (self._count - self._ended) / 60:.0f} min left"
        table.caption = Text(done + (left if self._ended else "") + f"; {seconds:.0f} s so far")
        return table


def _bar(share: float) -> str:
    full = round(10 * share)
    return "█" * full + "░" * (10 - full) + f" {100 * share:.0f}%"


def _short(result: Result) -> str:
    split = next(iter(result.scores), "test")
    found = {name: value for name, value in result.summary(split).items() if value is not None}
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items() if name != "fwt")


def closing_table(results: Sequence[Result]) -> Table:
    """Return the final test scores of each run, and what it forgot and cost."""
    table = Table(box=None, header_style="bold", title="test, after the whole stream")
    tasks = max((result.tasks for result in results), key=len, default=[])
    for title in ("strategy", "seed", *tasks, "average", "forgetting", "parameters", "CPU-s"):
        table.add_column(title, justify="left" if title == "strategy" else "right")
    for result in results:
        last = (result.scores.get("test") or [[None] * len(tasks)])[-1]
        summary = result.summary()
        size = result.parameters["total"]
        table.add_row(
            result.name,
            str(result.seed),
            *map(_number, last),
            _number(summary["average"]),
            _number(summary["forgetting"]),
            f"{size[-1]:,}" if size else "",
            f"{sum(cost.cpu_seconds for cost in result.costs):.0f}",
        )
    return table


def listed(result: Result) -> dict[str, Any]:
    """Return what programs are promised of a result."""
    named = ("key", "strategy", "seed", "fraction", "variant", "status", "tasks")
    return {
        **{name: getattr(result, name) for name in named},
        "scores": result.matrix("test"),
        **result.summary("test"),
        "parameters": result.parameters,
        "seconds": result.seconds,
        "error": result.error.message if result.error else None,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
