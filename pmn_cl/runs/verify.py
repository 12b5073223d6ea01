"""What ``pmn-bench verify`` does: runs a result again from its record, and says what is the same.

The record alone decides what is run. A number that comes out otherwise is held against it only
where data, packages, device and code are those it was made with; else the two cannot be compared.
Modules that a run took over from others are learned anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError
from rich.console import Console

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import StreamSpec, strategy_options
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.provenance import code_revision
from pmn_cl.results.difference import FieldDifference, _parts, difference, findings
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Asked, Result, read_result
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import SPLITS, RunSpec
from pmn_cl.runs.progress import ProgressDisplay
from pmn_cl.studies.conduct import default_workers
from pmn_cl.tasks.base import Task

# --- from a record to a run --------------------------------------------------------------


def find_result(path: Path) -> Path:
    """Return the ``result.json`` that is meant by it or by the folder of its run."""
    if path.is_file():
        return path
    if (path / RESULT).is_file():
        return path / RESULT
    if not path.exists():
        raise UserError(f"{path}: no such file or folder, expected a {RESULT} or a run's folder")
    runs = sorted(path.glob(f"*/{RESULT}"))
    more = f"; it has {len(runs)} runs, such as {runs[0].parent}" if runs else ""
    raise UserError(f"{path}: has no {RESULT}, expected the folder of one run{more}")


def run_of(path: Path, result: Result) -> RunSpec:
    """Return the run that a result is the record of; refuse what cannot be run from here."""
    if result.status != "completed":
        raise UserError(
            f"{path}: the run is {result.status}, and only a completed one can be verified; "
            "`pmn-bench run` goes on with it"
        )
    try:
        asked = result.asked or _guessed(result)
        own = {"name": result.strategy, "variant": result.variant, **asked.options}
        stream = StreamSpec.model_validate(
            {
                "name": result.stream,
                **{name: result.spec.get(name) for name in ("world", "tasks")},
                **{name: getattr(result, name) for name in ("fraction", "budget", "threads")},
                "strategies": asked.matched or [own],
                "seeds": [result.seed],
            }
        )
        stream.make_world()
        for task in stream.tasks:
            registry.find(task.task, registry.TASKS, "task", Task)
        strategy_options(result.strategy).model_validate(asked.options)
    except UserError as error:
        raise UserError(
            f"{path}: {error}; code of your own is found in the working directory, or where "
            "PYTHONPATH says"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: cannot be run again: {where}: {first['msg']}; it was changed, or made by "
            "code with other options"
        ) from None
    run = RunSpec(
        stream,
        result.strategy,
        result.variant,
        asked.options,
        result.seed,
        tuple(asked.judged_on),
        asked.judged_at_end,
    )
    if result.asked is None and run.key != result.key:
        raise UserError(
            f"{path}: is from before records kept the options as they were given, and those that "
            f"it has make {run.key}, expected {result.key}; run its stream again"
        )
    return run


def _guessed(result: Result) -> Asked:
    """Return what an older record was probably asked for: its key tells whether that is right."""
    options = strategy_options(result.strategy).model_validate(result.options)
    judged_on = list(SPLITS if set(result.scores) <= set(SPLITS) else result.scores)
    return Asked(
        options=options.model_dump(mode="json", exclude_defaults=True),
        matched=[],
        judged_on=judged_on,
        judged_at_end=False,
    )


# --- two records of one run --------------------------------------------------------------


# --- the command -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """A result that is to be verified."""

    path: Path
    recorded: Result
    run: RunSpec
    data: str  # the digest of what it would learn from here
    device: str

    @property
    def on_same_data(self) -> bool:
        return self.data == self.recorded.data


def verify_command(
    paths: Sequence[Path],
    *,
    console: Console,
    device: str | None,
    workers: int | None,
    cache: Path | None,
    progress: ProgressCallback | None = None,
) -> int:
    """Run results again, say what is the same, and return the exit code."""
    registry.search_last(Path.cwd())
    files = [find_result(path) for path in paths]
    recorded = [read_result(path) for path in files]
    runs = [run_of(path, result) for path, result in zip(files, recorded, strict=True)]
    cases = [
        _Case(path, result, run, _data(run, cache, progress), device or result.device or "cpu")
        for path, result, run in zip(files, recorded, runs, strict=True)
    ]
    again = _run_again([case for case in cases if case.on_same_data], workers, cache)
    found = [_found(case, again.get((case.run.key, case.device))) for case in cases]
    for case, some in zip(cases, found, strict=True):
        _print(console, case, some)
    return int(not all(finding.good for some in found for finding in some))


def _data(run: RunSpec, cache: Path | None, progress: ProgressCallback | None) -> str:
    """Return the digest of the data that a run has here, built first where needed."""
    stream = Stream
    digest: str = stream.open(run.stream, run.seed, cache=cache, progress=progress).store.digest
    return digest


def _run_again(
    cases: Sequence[_Case], workers: int | None, cache: Path | None
) -> dict[tuple[str, str], Result]:
    """Carry the runs out in a place of their own; return the results by key and device."""
    found: dict[tuple[str, str], Result] = {}
    for device in dict.fromkeys(case.device for case in cases):
        runs = list({case.run.key: case.run for case in cases if case.device == device}.values())
        usual = default_workers(max(run.stream.threads for run in runs))
        console = Console(stderr=True, highlight=False, markup=False)
        with (
            TemporaryDirectory(prefix="pmn-bench-verify-") as place,
            ProgressDisplay(runs, console) as who,
        ):
            at_a_time = min(workers or usual, len(runs))
            driver = Driver(Path(place), at_a_time, cache, device)
            found |= {(result.key, device): result for result in driver.run(runs, who)}
        if driver.interrupted:
            break
    return found


def _found(case: _Case, again: Result | None) -> list[FieldDifference]:
    """Return what a case came to, also where the run did not come to its end."""
    if not case.on_same_data:  # then there is nothing to be learned from running it
        others = [what for what, _ in _parts(case.recorded) if what != "data"]
        apart = FieldDifference("data", "differs", difference(case.recorded.data, case.data))
        return [
            apart,
            *(FieldDifference(what, "cannot be compared", "other data") for what in others),
        ]
    if again is None:
        return [FieldDifference("run", "cannot be compared", "interrupted before it began")]
    if again.status != "completed":
        said = again.error.message if again.error is not None else "it was told to stop"
        return [FieldDifference("run", "differs", f"completed, now {again.status}: {said}")]
    return findings(case.recorded, again)


def _print(console: Console, case: _Case, found: Sequence[FieldDifference]) -> None:
    names = ", ".join(finding.what for finding in found if not finding.good)
    said = f"not verified: {names}" if names else "verified: it comes to the same again"
    changed = [
        when
        for when, revision in (("made", case.recorded.revision), ("verified", code_revision()))
        if revision is not None and revision.endswith("+")
    ]
    if changed:
        said += f"; {' and '.join(changed)} with files that are in no revision"
    lines = [f"{finding.what:<20}{finding}" for finding in found]
    for line in [str(case.path), *(f"  {line}" for line in [*lines, said])]:
        console.print(line, soft_wrap=True)
