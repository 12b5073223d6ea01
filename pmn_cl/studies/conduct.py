"""Plans a study, drives its runs, shows how they go, and mirrors them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.stream import Stream
from pmn_cl.config.stream import StreamSpec, find_stream, load_spec
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.mlflow_mirror.mirror import LiveMirror, Mirrored, check_uri
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.result import Result
from pmn_cl.runs.driver import Driver, check_folder
from pmn_cl.runs.engines.base import Engine
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.plan import RunSpec, plan_runs
from pmn_cl.runs.progress import ProgressDisplay

OFF = "off"  # as a tracking URI: no mirror


@dataclass(frozen=True)
class Outcome:
    """What came of running a stream."""

    folder: Path
    results: list[Result]  # of the runs that have begun, in the order of the stream
    interrupted: bool = False
    mirrored: Mirrored | None = None


@dataclass(frozen=True)
class StudyPlan:
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
) -> StudyPlan:
    """Read a stream and say what is to be run; refuse what cannot be."""
    spec = stream if isinstance(stream, StreamSpec) else load_spec(find_stream(str(stream))[0])
    runs = chosen_runs(spec, strategies, seeds)
    folder = out or Path("runs") / spec.name
    check_folder(folder)
    at_a_time = workers or default_workers(spec.threads, engine)
    return StudyPlan(spec, runs, folder, min(at_a_time, len(runs)))


def carry_through(
    planned: StudyPlan,
    console: Console,
    *,
    device: str = "auto",
    fresh: bool = False,
    checkpoint_every: float = 60.0,
    tracking: str | None = None,
    cache: Path | None = None,
    progress: ProgressCallback | None = None,
    engine: Engine | None = None,
) -> Outcome:
    """Do what a plan asks for, as far as it is not done; ``progress`` is of building the world."""
    check_uri(tracking if tracking != OFF else None)
    Stream.open(planned.spec, planned.runs[0].seed, cache=cache, progress=progress)
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
        return LiveMirror(planned.folder, planned.runs, tracking, line_printer(console))

    with _Audience(planned.runs, console, None if tracking == OFF else mirror) as audience:
        results = driver.run(planned.runs, audience)
        mirrored = audience.close_mirror(driver.interrupted)
    return Outcome(planned.folder, results, driver.interrupted, mirrored)


class _Audience(ProgressDisplay):
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


def line_printer(console: Console) -> Callable[[str], None]:
    """Return a way to print a line that is not folded, so that it can be copied."""
    return lambda text: console.print(text, soft_wrap=True)


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


_MODULES = "modules"  # that runs of a folder share


def shared_modules(folder: Path) -> Path:
    """Return where the runs of a study share the modules that they learn."""
    return (folder / _MODULES).resolve()


def carry_out_study(
    spec: StreamSpec,
    runs: list[RunSpec],
    folder: Path,
    console: Console,
    *,
    workers: int | None,
    dry_run: bool,
    **asked: Any,
) -> Outcome:
    """Do the runs of a study, or only say which they are."""
    at_a_time = min(workers or default_workers(spec.threads, asked.get("engine")), len(runs))
    if dry_run:
        for run in runs:
            console.print(f"{run.key}  {run.stream.fraction:g}%", soft_wrap=True)
        console.print(f"{len(runs)} runs, {at_a_time} at a time, into {folder}", soft_wrap=True)
        return Outcome(folder, [])
    return carry_through(StudyPlan(spec, runs, folder, at_a_time), console, **asked)


def conclude_study(outcome: Outcome, console: Console) -> int:
    """Say what a study took, and return the exit code."""
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


def splits_of(results: Sequence[Result]) -> list[str]:
    """Return the splits that results have scores on."""
    return list(dict.fromkeys(split for result in results for split in result.scores))
