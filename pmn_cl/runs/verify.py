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

from rich.console import Console

from pmn_cl import registry
from pmn_cl.config.names import make_world
from pmn_cl.config.spec import RunSpec
from pmn_cl.console import INTERRUPTED, same_command
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.provenance import code_revision
from pmn_cl.results.difference import FieldDifference, compared_parts, difference, findings
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.learned import runnable
from pmn_cl.runs.progress import ProgressDisplay


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
    runs = [runnable(path, result) for path, result in zip(files, recorded, strict=True)]
    data = _data(runs, cache, progress)
    cases = [
        _Case(path, result, run, digest, device or result.device or "cpu")
        for path, result, run, digest in zip(files, recorded, runs, data, strict=True)
    ]
    again, interrupted = _run_again([case for case in cases if case.on_same_data], workers, cache)
    if interrupted:
        console.print(f"interrupted: nothing is kept; again: {same_command()}", soft_wrap=True)
        return INTERRUPTED
    found = [_found(case, again.get((case.run.key, case.device))) for case in cases]
    for case, some in zip(cases, found, strict=True):
        _print(console, case, some)
    return int(not all(finding.good for some in found for finding in some))


def _data(
    runs: Sequence[RunSpec], cache: Path | None, progress: ProgressCallback | None
) -> list[str]:
    """Return the digest of the data that each run has here; a world is opened once."""
    digests: dict[str, str] = {}
    for run in runs:
        world = run.stream.world.model_dump_json()
        if world not in digests:
            digests[world] = make_world(run.stream.world).prepare(cache, progress).digest
    return [digests[run.stream.world.model_dump_json()] for run in runs]


def _run_again(
    cases: Sequence[_Case], workers: int | None, cache: Path | None
) -> tuple[dict[tuple[str, str], Result], bool]:
    """Carry the runs out in a place of their own; return the results by key and device.

    And whether Ctrl-C has ended them.
    """
    found: dict[tuple[str, str], Result] = {}
    for device in dict.fromkeys(case.device for case in cases):
        runs = list({case.run.key: case.run for case in cases if case.device == device}.values())
        usual = LocalEngine().usual_workers(max(run.stream.threads for run in runs))
        console = Console(stderr=True, highlight=False, markup=False)
        with (
            TemporaryDirectory(prefix="pmn-bench-verify-") as place,
            ProgressDisplay(runs, console) as display,
        ):
            at_a_time = min(workers or usual, len(runs))
            driver = Driver(Path(place), at_a_time, cache, device)
            found |= {(result.key, device): result for result in driver.run(runs, display)}
        if driver.interrupted:
            return found, True
    return found, False


def _found(case: _Case, again: Result | None) -> list[FieldDifference]:
    """Return what a case came to, also where the run did not come to its end."""
    if not case.on_same_data:  # then there is nothing to be learned from running it
        others = [what for what, _ in compared_parts(case.recorded) if what != "data"]
        apart = FieldDifference("data", "differs", difference(case.recorded.data, case.data))
        return [
            apart,
            *(FieldDifference(what, "cannot be compared", "other data") for what in others),
        ]
    if again is None:
        return [FieldDifference("run", "cannot be compared", "interrupted before it began")]
    if again.status != "completed":
        said = again.error.message if again.error is not None else "it was asked to stop"
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
