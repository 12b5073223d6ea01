"""What ``pmn-bench sweep`` and ``ablate`` do: many small streams in one folder; their tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl import registry
from pmn_cl.ablation import ablation_runs, tables
from pmn_cl.results import Result
from pmn_cl.running import Outcome, Plan, carry_through, default_workers
from pmn_cl.runs import RunSpec
from pmn_cl.spec import StreamSpec, find_stream, load_spec
from pmn_cl.statistics import Interval
from pmn_cl.sweeping import FRACTIONS, gains, sweep_runs
from pmn_cl.world import Progress

_MODULES = "modules"  # that runs of a folder share


def sweep_command(
    stream: str,
    *,
    console: Console,
    task: str,
    fractions: Sequence[float],
    strategies: Sequence[str],
    seeds: Sequence[int],
    out: Path | None,
    cache: Path | None,
    progress: Progress | None,
    **asked: Any,
) -> int:
    """Learn one task from less and less data; return the exit code."""
    spec = load_spec(find_stream(stream)[0])
    folder = out or Path("runs") / f"{spec.name}-sweep"
    opened = registry.load("benchmarks.stream:Stream").open(spec, 0, cache=cache, progress=progress)
    samples = {e.task.name: len(e.splits["train"]) for e in opened.experiences}
    runs = sweep_runs(
        spec,
        task=task,
        fractions=sorted(fractions or FRACTIONS),
        seeds=seeds,
        samples=samples.get(task, 0),
        reuse=_shared(folder),
        **({"strategies": strategies} if strategies else {}),
    )
    outcome = _study(spec, runs, folder, console, cache=cache, **asked)
    for split in _splits(outcome.results):
        console.print(gains_table(outcome.results, split))
    return _end(outcome, console)


def ablate_command(
    stream: str,
    *,
    console: Console,
    only: Sequence[str],
    seeds: Sequence[int],
    out: Path | None,
    **asked: Any,
) -> int:
    """Learn each module with less and with more to call; return the exit code."""
    spec = load_spec(find_stream(stream)[0])
    folder = out or Path("runs") / f"{spec.name}-ablate"
    runs = ablation_runs(spec, only=only, seeds=seeds, reuse=_shared(folder))
    outcome = _study(spec, runs, folder, console, **asked)
    for split in _splits(outcome.results):
        for table in rung_tables(outcome.results, split):
            console.print(table)
    return _end(outcome, console)


def _shared(folder: Path) -> Path:
    return (folder / _MODULES).resolve()


def _study(
    spec: StreamSpec,
    runs: list[RunSpec],
    folder: Path,
    console: Console,
    *,
    workers: int | None,
    dry_run: bool,
    **asked: Any,
) -> Outcome:
    at_a_time = min(workers or default_workers(spec.threads, asked.get("engine")), len(runs))
    if dry_run:
        for run in runs:
            console.print(f"{run.key}  {run.stream.fraction:g}%", soft_wrap=True)
        console.print(f"{len(runs)} runs, {at_a_time} at a time, into {folder}", soft_wrap=True)
        return Outcome(folder, [])
    return carry_through(Plan(spec, runs, folder, at_a_time), console, **asked)


def _end(outcome: Outcome, console: Console) -> int:
    done = [result for result in outcome.results if result.status == "completed"]
    for result in outcome.results:
        if result.error is not None:
            console.print(f"{result.key}: {result.status}: {result.error.message}", soft_wrap=True)
    if done:
        reused = sum(int(result.details.get("modules_reused", 0)) for result in done)
        learned = sum(len(result.tasks) for result in done) - reused
        seconds = sum(cost.cpu_seconds for result in done for cost in result.costs)
        console.print(
            f"{len(done)} runs, {learned} modules or tasks learned, {reused} reused, "
            f"{seconds:.0f} CPU-s; results: {outcome.folder}",
            soft_wrap=True,
        )
    return int(outcome.interrupted or len(done) < len(outcome.results))


def _splits(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(split for result in results for split in result.scores))


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
            _range(found),
            "-" if gain.p is None else f"{gain.p:.3f}",
            "" if gain.paper is None else f"{gain.paper:+.3f}",
        )
    return table


def rung_tables(results: Sequence[Result], split: str) -> list[Table]:
    """Return the ladders, each rung with its gain over the first, beside the paper's numbers."""
    made = []
    for title, lines in tables(results, split).items():
        table = Table(box=None, header_style="bold", title=f"{title}, {split}")
        for name in ("module", "seeds", "score", "over the first", "95% interval", "the paper's"):
            table.add_column(name, justify="left" if name == "module" else "right")
        for line in lines:
            gain = line.gain.difference if line.gain is not None else None
            table.add_row(
                line.name,
                str(line.seeds),
                f"{line.score.mean:.3f}",
                "" if gain is None else f"{gain.mean:+.3f}",
                "" if gain is None else _range(gain),
                line.paper,
            )
        made.append(table)
    return made


def _range(found: Interval) -> str:
    return "one seed" if found.low is None else f"{found.low:+.3f} to {found.high:+.3f}"
