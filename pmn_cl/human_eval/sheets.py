"""The files that judges save: which of them count, and why the others do not.

A file carries a checksum over its contents. It finds a file that was cut off, mixed up or
edited by hand. It is no signature: the page is in the judge's hands,
and who reads its source can make any file that they like, as they can click any grade.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmn_cl.human_eval.rounds import Round, Sheet

FORMAT: Literal["pmn-bench judge 1"] = "pmn-bench judge 1"
_NAMED = 5  # questions that are named of those that are missing
_LARGEST = 50_000_000  # bytes: a file of 100,000 grades has a tenth of it


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Marks(_Part):
    """What a judge gave to the two explanations of a question; None is not graded yet."""

    A: int | None = Field(ge=0, le=4)
    B: int | None = Field(ge=0, le=4)
    milliseconds: int = Field(ge=0)  # for which the question was in sight
    at: int = Field(ge=0)  # when it was last graded, in milliseconds since 1970


class Saved(_Part):
    """What a judge's page saves."""

    format: Literal["pmn-bench judge 1"]
    round: str
    judge: int
    token: str  # of the browser that the judge used
    saved: int  # when, in milliseconds since 1970
    marks: dict[str, Marks]
    checksum: str

    def expected_checksum(self) -> str:
        """Return what the checksum is if nothing was changed; the page works it out alike.

        Over lines of plain letters and whole numbers: JSON can write the same in many ways.
        """
        lines = [self.format, self.round, str(self.judge), self.token, str(self.saved)]
        for name, given in sorted(self.marks.items()):
            grades = ["-" if grade is None else str(grade) for grade in (given.A, given.B)]
            lines.append(" ".join([name, *grades, str(given.milliseconds), str(given.at)]))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class GradedSheet(NamedTuple):
    """What one judge gave to both explanations of one question."""

    question: str
    judge: int
    pmn: int
    baseline: int


class LeftOut(NamedTuple):
    """A file that does not count, and why."""

    path: Path
    why: str


class _File(NamedTuple):
    path: Path
    saved: Saved


@dataclass
class Collected:
    """What came of the judges' files."""

    judged: list[GradedSheet] = field(default_factory=list)
    taken: dict[int, Path] = field(default_factory=dict)  # by judge
    left_out: list[LeftOut] = field(default_factory=list)
    again: list[LeftOut] = field(default_factory=list)  # the same as a file that counts
    missing: dict[int, list[str]] = field(default_factory=dict)  # of judges whose files are taken


def collect(key: Round, paths: Sequence[Path], *, allow_incomplete: bool = False) -> Collected:
    """Check the files of a round's judges, and join those that count. No file is changed."""
    found = Collected()
    sheets = {sheet.judge: sheet for sheet in key.sheets}
    whole: dict[int, list[_File]] = defaultdict(list)
    for path in paths:
        saved = _read(path)
        why = saved if isinstance(saved, str) else _problem(saved, key, sheets)
        if isinstance(saved, str) or why:
            found.left_out.append(LeftOut(path, why))
        else:
            whole[saved.judge].append(_File(path, saved))
    for judge, files in sorted(whole.items()):
        counts = _the_one_that_counts(files, sheets[judge], allow_incomplete, found)
        if counts is not None:
            found.taken[judge] = counts.path
            found.missing[judge] = _missing(counts.saved, sheets[judge])
            found.judged += _judged(counts.saved, sheets[judge])
    return found


def _judged(saved: Saved, sheet: Sheet) -> Iterator[GradedSheet]:
    """Yield what was given to each model, where both of a question's explanations are graded."""
    for name, pmn_is_a in sheet.letters().items():
        marks = saved.marks.get(name)
        if marks is not None and marks.A is not None and marks.B is not None:
            pmn, baseline = (marks.A, marks.B) if pmn_is_a else (marks.B, marks.A)
            yield GradedSheet(name, sheet.judge, pmn, baseline)


def _read(path: Path) -> Saved | str:
    """Return a file's contents, or why it cannot be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return "not a judge's file: too large"
        content = path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    try:
        return Saved.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))[:80] or "the file"
        return f"not as a judge's page saves it ({where}: {first['msg'][:120]}): save it again"


def _problem(saved: Saved, key: Round, sheets: dict[int, Sheet]) -> str:
    """Return why a file cannot count whatever it holds, or nothing."""
    if saved.checksum != saved.expected_checksum():
        return "edited after the page saved it: its checksum does not fit; save it again"
    if saved.round != key.digest:
        return f"of another round ({saved.round[:8]}, this one is {key.digest[:8]})"
    if saved.judge not in sheets:
        return f"of judge {saved.judge}; the round has judges 1 to {len(sheets)}"
    strange = sorted(set(saved.marks) - set(sheets[saved.judge].questions))
    if strange:
        return f"has questions that judge {saved.judge} was not given ({_named(strange)})"
    return ""


def _the_one_that_counts(
    files: Sequence[_File], sheet: Sheet, allow_incomplete: bool, found: Collected
) -> _File | None:
    """Return the file that counts for a judge, if one does; say why the others do not."""
    last: dict[str, _File] = {}  # by browser: what it saved last has all that it saved before
    for file in sorted(files, key=lambda file: file.saved.saved):
        last[file.saved.token] = file
    for file in files:
        newest = last[file.saved.token]
        if file is not newest:
            how = "the same as" if file.saved == newest.saved else "saved before"
            found.again.append(LeftOut(file.path, f"{how} {newest.path}"))
    complete = []
    for file in last.values():
        lacking = _missing(file.saved, sheet)
        if lacking and not allow_incomplete:
            why = f"incomplete: {len(lacking)} of {len(sheet.questions)} questions lack a grade"
            advice = "finish it, or take what is there with --allow-incomplete"
            found.left_out.append(LeftOut(file.path, f"{why} ({_named(lacking)}); {advice}"))
        else:
            complete.append(file)
    if len(complete) > 1:  # two people, or one who began anew: not for us to decide
        names = " and ".join(str(file.path) for file in complete)
        why = f"judge {sheet.judge} was judged in {len(complete)} browsers ({names}); give one"
        found.left_out += [LeftOut(file.path, why) for file in complete]
    return complete[0] if len(complete) == 1 else None


def _missing(saved: Saved, sheet: Sheet) -> list[str]:
    """Return the questions without both grades."""
    marks = saved.marks
    return sorted(
        name
        for name in sheet.questions
        if name not in marks or marks[name].A is None or marks[name].B is None
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED])[:200] + more
