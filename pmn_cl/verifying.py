"""What ``pmn-bench verify`` does: runs a result again from its record, and says what is the same.

The record alone decides what is run. A number that comes out otherwise is held against it only
where data, packages, device and code are those it was made with; else the two cannot be compared.
Modules that a run took over from others are learned anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, TypeGuard

from pydantic import ValidationError
from rich.console import Console

from pmn_cl import registry
from pmn_cl.driver import Driver
from pmn_cl.errors import UserError
from pmn_cl.provenance import code_revision
from pmn_cl.results import RESULT, Asked, Result, read_result
from pmn_cl.running import default_workers
from pmn_cl.runs import SPLITS, RunSpec
from pmn_cl.spec import StreamSpec, strategy_options
from pmn_cl.tasks import Task
from pmn_cl.watching import Watcher
from pmn_cl.world import Progress

PACKAGES = ("torch", "numpy", "avalanche-lib")  # that the last digits depend on
REUSED = "modules_reused"  # among the details: how many modules other runs had learned

State: TypeAlias = Literal["same", "differs", "cannot be compared"]


@dataclass(frozen=True)
class Finding:
    """What became of one part of the record when it was run again."""

    what: str
    state: State
    why: str = ""
    matters: bool = True  # to whether the result is the same

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the record."""
        return self.state == "same" or not self.matters

    def __str__(self) -> str:
        """Return the finding as a line says it."""
        return f"{self.state} ({self.why})" if self.why else self.state


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


def findings(recorded: Result, again: Result) -> list[Finding]:
    """Compare all that must not depend on when and how often something is run."""
    excuse = _excuse(recorded, again)
    reused = [int(result.details.get(REUSED, 0)) for result in (recorded, again)]
    fewer = "" if reused[0] == reused[1] else f"{reused[0]} modules were reused, here {reused[1]}"
    found = []
    theirs = dict(_parts(again))
    for what, ours in _parts(recorded):
        apart = difference(ours, theirs.get(what))
        matters = not (fewer and what in _OF_LEARNING)
        if not apart:
            found.append(Finding(what, "same"))
        elif not matters:
            found.append(Finding(what, "cannot be compared", fewer, matters=False))
        elif excuse and what != "data":
            found.append(Finding(what, "cannot be compared", f"{excuse}; {apart}"))
        else:
            found.append(Finding(what, "differs", apart))
    return found


_OF_LEARNING = ("samples seen", "parameters learned")  # whoever takes a module over learns less


def _parts(result: Result) -> Iterator[tuple[str, Any]]:
    yield "key", result.key
    yield "data", result.data
    yield "options", result.options
    yield "tasks", [result.tasks, result.metrics]
    yield "samples", result.samples
    yield "constant answer", result.constant
    for split in result.scores:
        yield f"scores on {split}", _by_task(result, split)
    yield "splits", sorted(result.scores)
    yield "all metrics", result.secondary
    yield "validation", result.validation
    yield "samples seen", [cost.samples_seen for cost in result.costs]
    yield "parameters", result.parameters.get("total")
    yield "parameters learned", result.parameters.get("trainable")
    yield "weights", result.weights
    yield "details", {name: v for name, v in result.details.items() if name != REUSED}


def _by_task(result: Result, split: str) -> list[dict[str, float | None]]:
    """Return R with the names of its columns, as far as there are as many."""
    return [dict(zip(result.tasks, row, strict=False)) for row in result.scores[split]]


def _excuse(recorded: Result, again: Result) -> str:
    """Return why numbers may rightly differ; nothing where they may not."""
    pairs = {
        "other data": (recorded.data[:12], again.data[:12]),
        **{
            f"another {name}": (recorded.versions.get(name), again.versions.get(name))
            for name in PACKAGES
        },
        "another device": (recorded.device or again.device, again.device),
        "another code revision": (recorded.revision, again.revision),
    }
    return ", ".join(
        f"{what}: {before or 'unknown'}, here {now or 'unknown'}"
        for what, (before, now) in pairs.items()
        if before != now
    )


def difference(before: Any, now: Any) -> str:
    """Say in how many places two values differ, by how much, and where first; or nothing."""
    ours, theirs = dict(_places(before)), dict(_places(now))
    places = [
        place
        for place in dict.fromkeys([*ours, *theirs])
        if place not in ours or place not in theirs or ours[place] != theirs[place]
    ]
    if not places:
        return ""
    first = places[0]
    said = f"{_shown(ours, first)}, now {_shown(theirs, first)}"
    if first:
        said = f"{first}: {said}"
    count = len({**ours, **theirs})
    if count == 1:
        return said
    numbers = [(ours.get(place), theirs.get(place)) for place in places]
    steps = [abs(a - b) for a, b in numbers if _is_number(a) and _is_number(b)]
    most = f"by at most {max(steps):.3g}, " if len(steps) == len(places) else ""
    return f"{len(places)} of {count}, {most}first {said}"


def _places(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value inside, with its path; an empty list or mapping is one, too."""
    if not isinstance(value, dict | list) or not value:
        yield place, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value, start=1):
        yield from _places(item, f"{place}.{key}" if place else str(key))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(values: dict[str, Any], place: str) -> str:
    if place not in values:
        return "nothing"
    text = str(values[place])
    return text if len(text) <= 24 else f"{text[:12]}…"


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
    progress: Progress | None = None,
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


def _data(run: RunSpec, cache: Path | None, progress: Progress | None) -> str:
    """Return the digest of the data that a run has here, built first where needed."""
    stream = registry.load("benchmarks.stream:Stream")
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
        with TemporaryDirectory(prefix="pmn-bench-verify-") as place, Watcher(runs, console) as who:
            at_a_time = min(workers or usual, len(runs))
            driver = Driver(Path(place), at_a_time, cache, device)
            found |= {(result.key, device): result for result in driver.run(runs, who)}
        if driver.interrupted:
            break
    return found


def _found(case: _Case, again: Result | None) -> list[Finding]:
    """Return what a case came to, also where the run did not come to its end."""
    if not case.on_same_data:  # then there is nothing to be learned from running it
        others = [what for what, _ in _parts(case.recorded) if what != "data"]
        apart = Finding("data", "differs", difference(case.recorded.data, case.data))
        return [apart, *(Finding(what, "cannot be compared", "other data") for what in others)]
    if again is None:
        return [Finding("run", "cannot be compared", "interrupted before it began")]
    if again.status != "completed":
        said = again.error.message if again.error is not None else "it was told to stop"
        return [Finding("run", "differs", f"completed, now {again.status}: {said}")]
    return findings(case.recorded, again)


def _print(console: Console, case: _Case, found: Sequence[Finding]) -> None:
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
