"""Drives the runs of a study, shows how they go, and mirrors them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.stream import Stream
from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StreamSpec
from pmn_cl.config.stream import find_stream, load_spec, with_strategies
from pmn_cl.console import INTERRUPTED, same_command
from pmn_cl.errors import UserError
from pmn_cl.mlflow_mirror.mirror import LiveMirror, Mirrored, check_uri
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Result, older_runs, read_result
from pmn_cl.results.table import said_of_reuse
from pmn_cl.runs.driver import Driver, check_folder
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.progress import ProgressDisplay
from pmn_cl.studies.request import OFF, StudyRequest

_MODULES = "modules"  # that runs of a folder share


@dataclass(frozen=True)
class StudyPlan:
    """Which runs there are to be, where, and how many at a time."""

    spec: BenchmarkSpec
    runs: list[RunSpec]
    folder: Path
    workers: int


@dataclass(frozen=True)
class Outcome:
    """What came of a study."""

    folder: Path
    results: list[Result]  # of the runs that have begun, in the order of the plan
    interrupted: bool = False
    mirrored: Mirrored | None = None


def read_stream(
    stream: str | Path | BenchmarkSpec, strategies: Sequence[str] = ()
) -> BenchmarkSpec:
    """Return the spec of a stream that is given by itself, by its file or by its name.

    It has these strategies, too, where it does not name them.
    """
    if isinstance(stream, BenchmarkSpec):
        return with_strategies(stream, strategies)
    return load_spec(find_stream(stream)[0], also=strategies)


def study_folder(spec: BenchmarkSpec, out: Path | None, suffix: str = "") -> Path:
    """Return where the results go."""
    return out or Path("runs") / f"{spec.name}{suffix}"


def shared_modules(folder: Path, stream: StreamSpec) -> Path:
    """Return where the runs of a study share the modules that they learn.

    A probe is taken out of the samples on which the best epoch is chosen.
    """
    every = stream.evaluate_every
    return (folder / (f"{_MODULES}-probe{every.probe}" if every else _MODULES)).resolve()


def check_places(folder: Path, request: StudyRequest) -> None:
    """Refuse places that cannot be written, before any waiting."""
    check_uri(request.tracking if request.tracking != OFF else None)
    check_folder(folder)


def plan_study(
    spec: BenchmarkSpec, runs: list[RunSpec], folder: Path, request: StudyRequest
) -> StudyPlan:
    """Return the plan of a study; refuse a folder that has older records of its runs."""
    check_places(folder, request)
    older = {run.key for run in runs}.intersection(older_runs(folder))
    if older:
        raise UserError(
            f"{folder}: has {len(older)} of these runs as records of version 1, under other keys; "
            "give a new --out: both in one folder could not be compared"
        )
    _check_primary(runs, folder)
    engine = request.engine or LocalEngine()
    at_a_time = request.workers or engine.usual_workers(spec.threads)
    return StudyPlan(spec, runs, folder, min(at_a_time, len(runs)))


def _check_primary(runs: Sequence[RunSpec], folder: Path) -> None:
    """Refuse to name other primary claims once some of their runs are there."""
    for run in runs:
        path = folder / run.key / RESULT
        if run.stream.primary and path.exists():
            named = read_result(path).run.stream.primary
            if named != run.stream.primary:
                raise UserError(
                    f"{folder}: its runs were made for the primary claims {', '.join(named) or '-'}"
                    f", and the stream now names {', '.join(run.stream.primary)}: what is named "
                    "after the runs is not primary; give it back as it was, or a new --out"
                )


def open_world(
    spec: BenchmarkSpec, cache: Path | None, progress: ProgressCallback | None = None
) -> Stream:
    """Open the stream, building its world first where needed: once for all runs."""
    return Stream.open(spec, spec.seeds[0], cache=cache, progress=progress)


def carry_through(plan: StudyPlan, request: StudyRequest, console: Console) -> Outcome:
    """Do what a plan asks for, as far as it is not done. The world must be there."""
    driver = Driver(
        plan.folder,
        workers=plan.workers,
        cache=request.cache,
        device=request.device,
        every=request.checkpoint_every,
        fresh=request.fresh,
        engine=request.engine or LocalEngine(),
    )

    def mirror() -> LiveMirror:
        return LiveMirror(plan.folder, plan.runs, request.tracking, line_printer(console))

    mirrors = None if request.tracking == OFF else mirror
    with _MirroredDisplay(plan.runs, console, mirrors) as display:
        results = driver.run(plan.runs, display)
        mirrored = display.close_mirror(driver.interrupted)
    return Outcome(plan.folder, results, driver.interrupted, mirrored)


class _MirroredDisplay(ProgressDisplay):
    """Shows how the runs go, and starts and ends their mirror in MLflow."""

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
        """End the mirror; a user who interrupts is not kept waiting."""
        if self._mirror is None:
            return None
        return self._mirror.close(in_a_hurry=in_a_hurry)


def line_printer(console: Console) -> Callable[[str], None]:
    """Return a way to print a line that is not folded, so that it can be copied."""
    return lambda text: console.print(text, soft_wrap=True)


def print_plan(plan: StudyPlan, console: Console, *, fractions: bool = False) -> None:
    """Say which runs there would be."""
    say = line_printer(console)
    for run in plan.runs:
        say(f"{run.key}  {run.stream.fraction:g}%" if fractions else run.key)
    say(said_of_plan(plan))


def said_of_plan(plan: StudyPlan) -> str:
    """Return how many runs there are to be, and where."""
    return f"{len(plan.runs)} runs, {plan.workers} at a time, into {plan.folder}"


def say_interrupted(outcome: Outcome, plan: StudyPlan, console: Console) -> int:
    """Say what is kept, and how to go on; return the exit code."""
    statuses = [result.status for result in outcome.results]
    done, begun = statuses.count("completed"), statuses.count("interrupted")
    kept = f", {begun} more have kept their state" if begun else ""
    line_printer(console)(
        f"interrupted: {done} of {len(plan.runs)} runs are done{kept} in {plan.folder}; "
        f"go on with: {same_command(without=['--fresh'])}"
    )
    return INTERRUPTED


def conclude_study(outcome: Outcome, console: Console) -> int:
    """Say what a study took, and return the exit code."""
    say = line_printer(console)
    done = [result for result in outcome.results if result.status == "completed"]
    for result in outcome.results:
        if result.error is not None:
            say(f"{result.key}: {result.status}: {result.error.message}")
    if done:
        say(f"{len(done)} runs, {said_of_reuse(done)}; results: {outcome.folder}")
    return int(len(done) < len(outcome.results))


def splits_of(results: Sequence[Result]) -> list[str]:
    """Return the splits that results have scores on."""
    return list(dict.fromkeys(split for result in results for split in result.scores))
