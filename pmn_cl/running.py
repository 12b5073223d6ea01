"""What ``pmn-bench run`` and ``tune`` do: plan, drive, watch, mirror, and say what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl import registry
from pmn_cl.driver import Driver, check_folder
from pmn_cl.engines import Engine, LocalEngine
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.meaning import meaning
from pmn_cl.results import Result
from pmn_cl.runs import RunSpec, plan_runs
from pmn_cl.showing import show_progress
from pmn_cl.spec import StreamSpec, find_stream, load_spec
from pmn_cl.tracking import LiveMirror, Mirrored, check_uri, is_local
from pmn_cl.tuning import DEVELOPMENT_SEED, TRIALS, Search, choose, trial_runs, write_tuned
from pmn_cl.views import UI, links
from pmn_cl.watching import Watcher, closing_table, number
from pmn_cl.world import Progress

OFF = "off"  # as a tracking URI: no mirror


@dataclass(frozen=True)
class Outcome:
    """What came of running a stream."""

    folder: Path
    results: list[Result]  # of the runs that have begun, in the order of the stream
    interrupted: bool = False
    mirrored: Mirrored | None = None


@dataclass(frozen=True)
class Plan:
    """Which runs there are to be, where, and how many at a time."""

    spec: StreamSpec
    runs: list[RunSpec]
    folder: Path
    workers: int


def plan(
    stream: str | Path | StreamSpec,
    *,
    strategies: Sequence[str] = (),
    seeds: Sequence[int] = (),
    out: Path | None = None,
    workers: int | None = None,
    engine: Engine | None = None,
) -> Plan:
    """Read a stream and say what is to be run; refuse what cannot be."""
    spec = stream if isinstance(stream, StreamSpec) else load_spec(find_stream(str(stream))[0])
    runs = chosen_runs(spec, strategies, seeds)
    folder = out or Path("runs") / spec.name
    check_folder(folder)
    at_a_time = workers or default_workers(spec.threads, engine)
    return Plan(spec, runs, folder, min(at_a_time, len(runs)))


def carry_through(
    planned: Plan,
    console: Console,
    *,
    device: str = "auto",
    fresh: bool = False,
    checkpoint_every: float = 60.0,
    tracking: str | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Outcome:
    """Do what a plan asks for, as far as it is not done; ``progress`` is of building the world."""
    check_uri(tracking if tracking != OFF else None)
    registry.load("benchmarks.stream:Stream").open(
        planned.spec, planned.runs[0].seed, cache=cache, progress=progress
    )
    driver = Driver(
        planned.folder,
        workers=planned.workers,
        cache=cache,
        device=device,
        every=checkpoint_every,
        fresh=fresh,
        engine=engine or LocalEngine(),
    )

    def mirror() -> LiveMirror:
        return LiveMirror(planned.folder, planned.runs, tracking, _say(console))

    with _Audience(planned.runs, console, None if tracking == OFF else mirror) as audience:
        results = driver.run(planned.runs, audience)
        mirrored = audience.close_mirror(driver.interrupted)
    return Outcome(planned.folder, results, driver.interrupted, mirrored)


class _Audience(Watcher):
    """Who is told how the runs go: the person who waits, and MLflow."""

    def __init__(
        self, runs: Sequence[RunSpec], console: Console, mirror: Callable[[], LiveMirror] | None
    ) -> None:
        super().__init__(runs, console)
        self._start_mirror = mirror
        self._mirror: LiveMirror | None = None

    def begin(self, waiting: int) -> None:
        """Start the mirror, now that every folder is as the runs will find it."""
        super().begin(waiting)
        if self._start_mirror is not None:
            self._mirror = self._start_mirror()

    def close_mirror(self, in_a_hurry: bool) -> Mirrored | None:
        """End the mirror; who interrupts is not kept waiting."""
        if self._mirror is None:
            return None
        return self._mirror.close(patience=0.5) if in_a_hurry else self._mirror.close()


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
        _say(console)(
            f"interrupted: {done} of {len(planned.runs)} runs are done, the others have kept "
            f"their state in {planned.folder}; {again} goes on"
        )
    failed = any(result.status != "completed" for result in outcome.results)
    return int(outcome.interrupted or failed)


def _estimate(planned: Plan, console: Console, asked: Mapping[str, Any]) -> None:
    """Say how large and how long runs at the paper's sizes are: nobody starts them by chance."""
    if any(run.options.get("size") == "paper" for run in planned.runs):
        from pmn_cl.estimating import print_estimates, worth_estimating

        with show_progress("measuring steps") as progress:
            print_estimates(
                worth_estimating(planned.runs),
                console,
                device=asked["device"],
                cache=asked["cache"],
                progress=progress,
            )


def _conclude(planned: Plan, outcome: Outcome, console: Console, tracking: str | None) -> None:
    """Print what came out, what it means, and where to look further."""
    say = _say(console)
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


def _say(console: Console) -> Callable[[str], None]:
    """Return a way to print a line that is not folded, so that it can be copied."""
    return lambda text: console.print(text, soft_wrap=True)


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
                search.strategy, tried, *map(number, trial.scores.values()), f"{trial.value:.3f}"
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


def default_workers(threads: int, engine: Engine | None = None) -> int:
    """Return how many runs an engine, usually this machine, can carry at a time."""
    return (engine or LocalEngine()).usual_workers(threads)


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
