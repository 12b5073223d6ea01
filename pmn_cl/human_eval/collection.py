"""What ``pmn-bench judge collect`` prints and writes: which files count, and the paper's table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from pmn_cl.claims.table import JUDGEMENTS, read_grades
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole
from pmn_cl.human_eval.intervals import INTERVALS
from pmn_cl.human_eval.numbers import keep_numbers
from pmn_cl.human_eval.rounds import Round, read_round
from pmn_cl.human_eval.sheets import Collected, collect
from pmn_cl.human_eval.table import (
    GradeTable,
    grades_by_judge,
    make_table,
    numbers,
    paper_note,
)
from pmn_cl.results.paper import ALL, GRADES
from pmn_cl.results.statistics import as_plus_minus

LABELS = {
    "both right": "both right",
    "pmn right": "PMN alone right",
    "baseline right": "baseline alone right",
    "both wrong": "none right",
    ALL: "all",
}
_ALPHA_OF = {"pmn": "PMN's grades", "baseline": "the baseline's", "both": "both"}


def collect_command(
    folder: Path,
    files: Sequence[Path],
    *,
    results: Path | None,
    allow_incomplete: bool,
    as_json: bool,
    console: Console,
) -> tuple[int, Path]:
    """Join what judges saved; return the exit code, and where their grades now are."""
    key = read_round(folder)
    found = collect(key, files, allow_incomplete=allow_incomplete)
    if not found.judged:
        why = [f"{path}: {reason}" for path, reason in found.left_out]
        raise UserError("\n  ".join(["no file has grades that count:", *why]))
    table = make_table(key, found.judged)
    if as_json:
        print(json.dumps(as_data(key, found, table), indent=1), file=console.file)
    else:
        print_table(key, found, table, console)
    place = Path(key.folder) if results is None else results
    write_beside_results(place, key, found, table)
    if not as_json:
        console.print(f"wrote {place / JUDGEMENTS}: pmn-bench claims reads it", soft_wrap=True)
    return int(bool(found.left_out)), place


def write_beside_results(place: Path, key: Round, found: Collected, table: GradeTable) -> None:
    """Let ``claims`` and the mirror see the grades; those of other splits stay."""
    if not place.is_dir():
        raise UserError(
            f"{place}: no such folder; name the one with the results of this round by --results"
        )
    ours = grades_by_judge(key, found.judged)
    mine = f" of round {key.digest[:8]}"
    there = [g for g in read_grades(place / JUDGEMENTS) if not g.judge.endswith(mine)]
    others = sorted({g.judge for g in there if g.split == key.split})
    if others:
        raise UserError(
            f"{place / JUDGEMENTS}: already has grades on {key.split} of others "
            f"({', '.join(others)[:300]}), which this round must not be mixed with; move it away, "
            "or name another folder by --results"
        )
    rows = [grades.model_dump() for grades in [*there, *ours]]
    write_whole(place / JUDGEMENTS, json.dumps(rows, indent=1, ensure_ascii=False))
    keep_numbers(place, key.split, key.digest, numbers(table))


# --- as text -----------------------------------------------------------------------------


def print_table(key: Round, found: Collected, table: GradeTable, console: Console) -> None:
    """Print what counts and what does not, the table beside the paper's, and how to read it."""
    for line in [*heading(key, found), ""]:
        console.print(line, soft_wrap=True)
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    titles = ("who was right", "questions", "paper", "PMN", "paper", "baseline", "paper")
    for title in (*titles, "PMN − baseline", "paper"):
        grid.add_column(title, no_wrap=True, style="dim" if title == "paper" else None)
    for row in table.rows:
        paper = GRADES[row.label]
        grid.add_row(
            *(LABELS[row.label], f"{row.questions:,}", f"{paper.questions:,}"),
            *(as_plus_minus(row.pmn, ".2f"), f"{paper.pmn:.2f}"),
            *(as_plus_minus(row.baseline, ".2f"), f"{paper.baseline:.2f}"),
            *(as_plus_minus(row.difference, "+.2f"), f"{paper.pmn - paper.baseline:+.2f}"),
        )
    console.print(grid)
    console.print("\nKrippendorff's alpha (1: judges agree; 0: no more than by chance)")
    for of, levels in table.alpha.items():
        said = ", ".join(f"{level} {_alpha(value)}" for level, value in levels.items())
        console.print(f"  {_ALPHA_OF[of]:<16}{said}")
    for note in notes(key, table):
        console.print(f"\n{note}")


def heading(key: Round, found: Collected) -> list[str]:
    """Return what the table rests on, file by file."""
    lines = [
        f"round {key.digest[:8]} on {key.split}: {len(key.questions):,} questions, "
        f"{len(found.taken)} of {len(key.sheets)} judges",
        f"PMN       {key.pmn}",
        f"baseline  {key.baseline}",
    ]
    for judge, path in found.taken.items():
        lacking = len(found.missing[judge])
        part = f" ({lacking} of its questions are not graded)" if lacking else ""
        lines.append(f"judge {judge}: {path}{part}")
    absent = [str(sheet.judge) for sheet in key.sheets if sheet.judge not in found.taken]
    if absent:
        lines.append(f"no file that counts of judge {', '.join(absent)}")
    lines += [f"taken once: {path} is {how}" for path, how in found.again]
    lines += [f"left out: {path}: {why}" for path, why in found.left_out]
    return lines


def notes(key: Round, table: GradeTable) -> list[str]:
    """Return how to read the table."""
    said = [" ".join(INTERVALS.split())]
    if key.stratified:
        said.append(
            "The questions were drawn evenly from the groups; in the row for all, groups count by "
            "their share of all questions: "
            + ", ".join(f"{LABELS[group]} {size:,}" for group, size in key.population.items())
            + "."
        )
    if table.lost:
        lost = ", ".join(LABELS[group] for group in table.lost)
        said.append(f"Nothing was judged of the questions with {lost}: all is without them.")
    return [*said, paper_note()]


def _alpha(value: float | None) -> str:
    return "undefined (all grades are the same)" if value is None else f"{value:.3f}"


# --- for programs ------------------------------------------------------------------------


def as_data(key: Round, found: Collected, table: GradeTable) -> dict[str, Any]:
    """Return all of it."""
    shown = [
        {
            **{"who": row.label, "questions": row.questions, "judgements": row.judgements},
            **{of: getattr(row, of)._asdict() for of in ("pmn", "baseline", "difference")},
            "paper": GRADES[row.label]._asdict(),
        }
        for row in table.rows
    ]
    return {
        **{"round": key.digest, "split": key.split, "pmn": key.pmn, "baseline": key.baseline},
        **{"stratified": key.stratified, "population": key.population},
        **{"rows": shown, "alpha": table.alpha, "notes": notes(key, table)},
        "taken": {str(judge): str(path) for judge, path in found.taken.items()},
        "missing": {str(judge): lacking for judge, lacking in found.missing.items() if lacking},
        "taken_once": [{"file": str(path), "why": why} for path, why in found.again],
        "left_out": [{"file": str(path), "why": why} for path, why in found.left_out],
        "judged": [one._asdict() for one in found.judged],
    }
