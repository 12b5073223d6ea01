"""What ``pmn-bench run`` does: compare the strategies of a stream, and say what came out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from pmn_cl.config.stream import find_stream
from pmn_cl.console import print_table, show_progress
from pmn_cl.mlflow_mirror.mirror import Mirrored, is_local
from pmn_cl.mlflow_mirror.server import served_at
from pmn_cl.mlflow_mirror.views import links
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.compare import of_streams
from pmn_cl.results.families.at_floor import said_at_floor
from pmn_cl.results.measures.orders import order_table, said_of_orders
from pmn_cl.results.result import REUSED, Result
from pmn_cl.results.summary import meaning
from pmn_cl.results.table import (
    LEAST,
    answer_table,
    closing_table,
    said_of_matching,
    said_of_reuse,
    said_of_units,
)
from pmn_cl.runs.plan import plan_runs
from pmn_cl.studies.conduct import (
    Outcome,
    StudyPlan,
    carry_through,
    line_printer,
    open_world,
    plan_study,
    print_plan,
    read_stream,
    said_of_plan,
    say_interrupted,
    shared_modules,
    study_folder,
)
from pmn_cl.studies.request import RunRequest


def plan_comparison(request: RunRequest) -> StudyPlan:
    """Return the runs of a stream that are asked for; refuse what cannot be run."""
    spec = read_stream(request.stream, request.strategies)
    folder = study_folder(spec, request.out)
    runs = plan_runs(spec, request.strategies, request.seeds, shared_modules(folder, spec))
    return plan_study(spec, runs, folder, request)


def said_of_added(request: RunRequest) -> list[str]:
    """Say which strategies are asked for that the stream does not name."""
    if not request.strategies:  # then the stream need not be read again
        return []
    named = {strategy.name for strategy in read_stream(request.stream).strategies}
    more = [name for name in dict.fromkeys(request.strategies) if name not in named]
    return [f"{name}: not named by the stream, added with its usual options" for name in more]


def run_command(
    request: RunRequest, console: Console, progress: ProgressCallback | None = None
) -> int:
    """Run a stream; return the exit code. ``progress`` is of building the world."""
    if isinstance(request.stream, str) and find_stream(request.stream)[1]:
        console.print(
            f"{request.stream}: no such file here, using the stream that comes with pmn-bench"
        )
    plan = plan_comparison(request)
    for sentence in said_of_added(request):
        console.print(sentence)
    if request.dry_run:
        print_plan(plan, console)
        _estimate(plan, request, console)
        return 0
    console.print(said_of_plan(plan), soft_wrap=True)
    open_world(plan.spec, request.cache, progress)
    outcome = carry_through(plan, request, console)
    if outcome.interrupted:
        return say_interrupted(outcome, plan, console)
    _conclude(outcome, console, request.tracking)
    return int(any(result.status != "completed" for result in outcome.results))


def _estimate(plan: StudyPlan, request: RunRequest, console: Console) -> None:
    """Say how large and how long runs at the paper's sizes are: nobody starts them by accident."""
    if any(run.strategy.options.get("size") == "paper" for run in plan.runs):
        from pmn_cl.studies.estimate import print_estimates, worth_estimating

        with show_progress("measuring steps") as progress:
            print_estimates(
                worth_estimating(plan.runs),
                console,
                seeds=len({run.seed for run in plan.runs}),
                device=request.device,
                cache=request.cache,
                progress=progress,
            )


def _conclude(outcome: Outcome, console: Console, tracking: str | None) -> None:
    """Print what came out, what it means, and where to look further."""
    say = line_printer(console)
    results = of_streams(outcome.results)
    print_table(console, closing_table(results), LEAST, more="a wider window shows them")
    answers, units = answer_table(results), said_of_units(results)
    if answers is not None:
        print_table(console, answers)
    if units is not None:
        say(units)
    orders = order_table(outcome.results)
    if orders is not None:
        print_table(console, orders)
    of_orders = said_of_orders(outcome.results)
    matched = said_of_matching(results)
    for sentence in (*of_orders, *matched, *said_at_floor(results), *meaning(results)):
        say(sentence)
    for result in outcome.results:
        if result.error is not None:
            say(f"{result.key}: {result.status}: {result.error.message}")
    done = [result for result in outcome.results if result.status == "completed"]
    if any(result.details.get(REUSED) for result in done):
        say(said_of_reuse(done))
    say(f"results: {outcome.folder}")
    for command, what in next_steps(results, outcome.folder):
        say(f"  {command:<40} {what}")
    if outcome.mirrored is not None:
        local = is_local(tracking)
        server = served_at(outcome.folder) if local else str(tracking)
        if server is None:
            ui = f"pmn-bench ui {shlex.quote(str(outcome.folder))}"
            say(f"  {ui:<40} MLflow's pages: means, curves, cost")
            return
        say(f"MLflow at {server}:")
        for title, address in mirror_links(outcome.mirrored, server):
            say(f"  {title:<26}{address}")


def next_steps(results: Sequence[Result], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield commands that show more of what came out, with what they show."""
    done = [result for result in results if result.status == "completed"]
    if not done:
        return
    place = shlex.quote(str(folder))
    yield f"pmn-bench report {place}", "all of it as one page"
    if len({result.seed for result in done}) > 1:
        yield f"pmn-bench compare {place}", "means over seeds, with intervals"
    if any(result.strategy == "pmn" and "vqa" in result.tasks for result in done):
        yield f"pmn-bench explain {place}", "how a question was answered, step by step"


def mirror_links(mirrored: Mirrored, base: str) -> list[tuple[str, str]]:
    """Return titles and addresses of what MLflow shows of a folder."""
    few = list(mirrored.runs.values())[:10]  # as many as its page compares well
    return list(links(base.rstrip("/"), mirrored.experiment, mirrored.views, few))
