"""What ``pmn-bench merge`` does: joins folders of results from several machines or labs.

All is looked at before anything is written. A folder may mix tasks or budgets, as a sweep or an
ablation does; two are joined where one has no others than the other. Packages and code must be the
same everywhere. No torch here.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from rich.console import Console

from pmn_cl.errors import UserError
from pmn_cl.files import storing
from pmn_cl.results.difference import PACKAGES, findings
from pmn_cl.results.folder import JOURNAL, LEARNED, OUTPUT, RESULT, TRACEBACK
from pmn_cl.results.result import Result, read_result

_TAKEN = (RESULT, f"{JOURNAL}*", OUTPUT, TRACEBACK)  # of a run; no states to go on from


@dataclass
class Merging:
    """What is found in folders: what to take, what to leave, and why not to do it at all."""

    taken: dict[str, tuple[Path, Result]] = field(default_factory=dict)  # by key
    again: list[tuple[Path, Path]] = field(default_factory=list)  # the same twice; the first stays
    left_out: list[str] = field(default_factory=list)  # what is broken or unfinished, and why
    mixed: list[str] = field(default_factory=list)  # what would be refused, but is allowed
    refused: list[str] = field(default_factory=list)


def look_through(folders: Sequence[Path], allowed: Collection[str] = ()) -> Merging:
    """Say what joining these folders would come to; nothing is written.

    Other ``tasks``, ``versions`` or ``revisions`` are no obstacle where they are allowed.
    """
    found = Merging()
    by_folder = {folder: list(_completed(folder, found)) for folder in dict.fromkeys(folders)}
    results = [(path, result) for some in by_folder.values() for path, result in some]
    for path, result in results:
        _take(path, result, found)
    found.refused += _other_subjects(by_folder, _SUBJECTS)
    found.refused += _other_options(results)
    for what, problems in (
        ("tasks", _other_subjects(by_folder, _STREAMS)),
        ("versions", _other_versions(results)),
        ("revisions", _other_revisions(results)),
    ):
        if what in allowed:
            found.mixed += problems
        else:
            found.refused += [f"{said}; --allow-{what} takes them anyway" for said in problems]
    return found


def _completed(folder: Path, found: Merging) -> Iterator[tuple[Path, Result]]:
    """Yield the completed runs of a folder; note the others."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of results")
    known = {path.parent for name in (RESULT, JOURNAL) for path in folder.glob(f"*/{name}")}
    if not known:
        raise UserError(f"{folder}: has no results, expected a folder like runs/NAME of a stream")
    for run in sorted(known):
        if not (run / RESULT).exists():
            found.left_out.append(f"{run}: has no {RESULT}: it goes on, or was cut off")
            continue
        try:
            result = read_result(run / RESULT)
        except UserError as error:
            found.left_out.append(str(error))
            continue
        if result.status == "completed":
            yield run, result
        else:
            found.left_out.append(f"{run}: is {result.status}")


def _take(path: Path, result: Result, found: Merging) -> None:
    """Take a run, once."""
    if result.key not in found.taken:
        found.taken[result.key] = path, result
        return
    first, known = found.taken[result.key]
    apart = [f"{f.what}: {f.why}" for f in findings(known, result) if not f.good]
    if apart:
        found.refused.append(f"{first} and {path}: the same run came out otherwise: {apart[0]}")
        found.refused += [f"  {said}" for said in apart[1:]]
    else:
        found.again.append((first, path))


# --- what keeps folders apart ------------------------------------------------------------


def _tasks(result: Result) -> str:
    """Return the tasks with their call lists; how much data each has is a matter of its own."""
    named = []
    for task in result.run.stream.tasks:
        extra = f" and extra {task.extra}" if task.extra else ""
        named.append(f"{task.task}({', '.join(task.calls or ())}){extra}")
    return ", ".join(named)


_Subjects: TypeAlias = Mapping[str, Callable[[Result], str | None]]
_STREAMS: _Subjects = {"streams": lambda result: result.stream, "tasks": _tasks}
_SUBJECTS: _Subjects = {
    "data": lambda result: result.data[:12],
    "budgets": lambda result: f"{result.budget:g}%",
    "threads": lambda result: str(result.run.stream.threads),
    "devices": lambda result: result.device,  # older records do not say
}


def _other_subjects(
    by_folder: Mapping[Path, Sequence[tuple[Path, Result]]], subjects: _Subjects
) -> Iterator[str]:
    """Yield what two folders each have and the other has not."""
    for what, value_of in subjects.items():
        values = {
            folder: {value for _, result in some if (value := value_of(result)) is not None}
            for folder, some in by_folder.items()
        }
        for (a, ours), (b, theirs) in itertools.combinations(values.items(), 2):
            if not (ours <= theirs or theirs <= ours):
                here, there = (" | ".join(sorted(x)) for x in (ours - theirs, theirs - ours))
                yield f"other {what}: {here} in {a}, {there} in {b}"
                break


def _other_options(results: Sequence[tuple[Path, Result]]) -> Iterator[str]:
    """Yield strategies whose runs are no seeds of one setting."""
    first: dict[str, tuple[Path, str]] = {}
    said = set()
    for path, result in results:
        subject = json.dumps(
            [result.name, result.run.stream.model_dump(exclude={"name"})], sort_keys=True
        )
        options = json.dumps(result.options, sort_keys=True)
        where, usual = first.setdefault(subject, (path, options))
        if options != usual and subject not in said:
            said.add(subject)
            yield f"other options of {result.name!r}: {where} and {path}; give one a variant"


def _other_versions(results: Sequence[tuple[Path, Result]]) -> Iterator[str]:
    for package in PACKAGES:
        yield from _several(
            f"other versions of {package}",
            [(path, result.versions.get(package, "unknown")) for path, result in results],
        )


def _other_revisions(results: Sequence[tuple[Path, Result]]) -> Iterator[str]:
    revisions = [
        (path, result.revision or f"pmn-cl {result.versions.get('pmn-cl', 'unknown')}")
        for path, result in results
    ]
    yield from _several("other code revisions", revisions)
    changed = [path for path, revision in revisions if revision.endswith("+")]
    if changed:
        yield f"made with files that are in no revision: {len(changed)} runs, such as {changed[0]}"


def _several(what: str, values: Sequence[tuple[Path, str]]) -> Iterator[str]:
    """Yield what there is more than one of, each with the first run that has it."""
    first: dict[str, Path] = {}
    for path, value in values:
        first.setdefault(value, path)
    if len(first) > 1:
        yield f"{what}: " + ", ".join(f"{value} in {path}" for value, path in first.items())


# --- the command -------------------------------------------------------------------------


def merge_command(
    folders: Sequence[Path],
    out: Path,
    *,
    console: Console,
    strict: bool,
    allowed: Collection[str],
) -> int:
    """Join folders into a new one and say what came of it; return the exit code."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out}: is there already, expected a new or empty folder")
    found = look_through(folders, allowed)
    refused = [*found.refused, *(found.left_out if strict else [])]
    if not found.taken and not refused:
        refused = [*found.left_out, "no run is completed"]
    if refused:
        raise UserError("\n  ".join(["nothing was written:", *refused]))
    copy(found, out)
    for said in found.left_out:
        console.print(f"left out: {said}", soft_wrap=True)
    for first, second in found.again:
        console.print(f"taken once: {second} is the same as {first}", soft_wrap=True)
    for said in found.mixed:
        console.print(f"taken all the same: {said}", soft_wrap=True)
    console.print(f"{len(found.taken)} runs of {len(folders)} folders: {out}", soft_wrap=True)
    console.print(f"pmn-bench compare {out} puts them side by side", soft_wrap=True)
    return 0


def copy(found: Merging, out: Path) -> None:
    """Put the runs in a new folder, all of them or none."""
    with storing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as place:
            whole = Path(place) / "whole"
            for key, (run, _) in found.taken.items():
                (whole / key).mkdir(parents=True)
                for file in (file for name in _TAKEN for file in run.glob(name)):
                    shutil.copy2(file, whole / key / file.name)
                if (run / LEARNED).is_dir():
                    shutil.copytree(run / LEARNED, whole / key / LEARNED)
            os.rename(whole, out)
