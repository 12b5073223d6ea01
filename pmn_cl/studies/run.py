"""What ``pmn-bench run`` and ``tune`` do: plan, drive, watch, mirror, and say what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from pmn_cl.config.stream import find_stream
from pmn_cl.console import show_progress
from pmn_cl.mlflow_mirror.mirror import Mirrored, is_local
from pmn_cl.mlflow_mirror.views import UI, links
from pmn_cl.results.result import Result
from pmn_cl.results.summary import meaning
from pmn_cl.results.table import closing_table
from pmn_cl.studies.conduct import Outcome, StudyPlan, carry_through, line_printer, plan


def run_command(stream: str, *, console: Console, dry_run: bool, fresh: bool, **asked: Any) -> int:
    """Run a stream; return the exit code."""
    if find_stream(stream)[1]:
        console.print(f"{stream}: no such file here, using the stream that comes with pmn-bench")
    named = ("strategies", "seeds", "out", "workers")
    chosen = {name: asked.pop(name) for name in named}
    planned = plan(stream, engine=asked.get("engine"), **chosen)
    if dry_run:
        for run in planned.runs:
            console.print(run.key)
        said = f"{len(planned.runs)} runs, {planned.workers} at a time, into {planned.folder}"
        console.print(said)
        _estimate(planned, console, asked)
        return 0
    outcome = carry_through(planned, console, fresh=fresh, **asked)
    _conclude(planned, outcome, console, asked["tracking"])
    if outcome.interrupted:
        done = sum(result.status == "completed" for result in outcome.results)
        again = "the same command without --fresh" if fresh else "the same command"
        line_printer(console)(
            f"interrupted: {done} of {len(planned.runs)} runs are done, the others have kept "
            f"their state in {planned.folder}; {again} goes on"
        )
    failed = any(result.status != "completed" for result in outcome.results)
    return int(outcome.interrupted or failed)


def _estimate(planned: StudyPlan, console: Console, asked: Mapping[str, Any]) -> None:
    """Say how large and how long runs at the paper's sizes are: nobody starts them by chance."""
    if any(run.options.get("size") == "paper" for run in planned.runs):
        from pmn_cl.studies.estimate import print_estimates, worth_estimating

        with show_progress("measuring steps") as progress:
            print_estimates(
                worth_estimating(planned.runs),
                console,
                device=asked["device"],
                cache=asked["cache"],
                progress=progress,
            )


def _conclude(planned: StudyPlan, outcome: Outcome, console: Console, tracking: str | None) -> None:
    """Print what came out, what it means, and where to look further."""
    say = line_printer(console)
    console.print(closing_table(outcome.results))
    for sentence in meaning(outcome.results):
        say(sentence)
    for result in outcome.results:
        if result.error is not None:
            say(f"{result.key}: {result.status}: {result.error.message}")
    say(f"results: {outcome.folder}")
    if outcome.mirrored is not None:
        local = is_local(tracking)
        said = f"MLflow: pmn-bench ui {outcome.folder}, then" if local else "MLflow:"
        say(said)
        for title, address in mirror_links(outcome.mirrored, UI if local else str(tracking)):
            say(f"  {title:<26}{address}")


def mirror_links(mirrored: Mirrored, base: str) -> list[tuple[str, str]]:
    """Return titles and addresses of what MLflow shows of a folder."""
    few = list(mirrored.runs.values())[:10]  # as many as its page compares well
    return list(links(base.rstrip("/"), mirrored.experiment, mirrored.views, few))


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
