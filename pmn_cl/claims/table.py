"""What ``pmn-bench claims`` prints: what was checked, the claims split by split, how many hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pmn_cl.claims.claims import CLAIMS
from pmn_cl.claims.evidence import Evidence, Grades
from pmn_cl.claims.rule import FAILED, RULE, SPLITS, CheckedClaim, Finding, check_claims
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole
from pmn_cl.results import formats
from pmn_cl.results.folder import RESULT
from pmn_cl.results.formats import Format
from pmn_cl.results.result import Result, read_results
from pmn_cl.results.statistics import Interval, Paired, as_plus_minus

FROZEN = "FROZEN"  # beside the results: the commit at which the settings were frozen
JUDGEMENTS = "judgements.json"  # beside the results: mean grades by judge and group of questions

COLUMNS = [
    "claim",
    "in the paper",
    "ours",
    "against",
    "difference",
    "n",
    "p",
    "Holm",
    "verdict",
    "note",
]
_WIDTHS = {
    "claim": 38,
    "in the paper": 26,
    "verdict": 17,
    "note": 18,
}  # where it is folded; 160 for all
_STYLES = {
    "holds": "green",
    "holds before correction only": "yellow",
    "practically the same": "yellow",
    "does not hold": "red",
    "not learned here": "dim",
    "not enough data": "dim",
}


@dataclass(frozen=True)
class Basis:
    """What the verdicts rest on."""

    results: int
    left_out: int  # not completed
    streams: list[str]
    seeds: list[int]
    budget: float
    data: str
    code: list[str]  # revisions
    frozen: str | None  # the commit of the settings, where it is written down


def claims_command(
    folder: Path, *, console: Console, strict: bool, form: Format, save: Path | None
) -> int:
    """Check the claims on a folder of results; return the exit code."""
    if save is not None and save.suffix != ".md":
        raise UserError(f"--save {save}: expected a name that ends in .md")
    results = gather(folder)
    evidence = Evidence(results, read_grades(folder / JUDGEMENTS))
    basis = basis_of(results, evidence, read_frozen(folder / FROZEN))
    checked = check_claims(evidence, CLAIMS)
    if form == "table":
        print_claims(basis, checked, console)
    else:
        print(as_text(basis, checked, form), end="", file=console.file)
    if save is not None:
        write_whole(save, as_markdown(basis, checked))
        if form == "table":
            console.print(f"wrote {save}", soft_wrap=True)
    return int(strict and any(j.finding.verdict in FAILED for j in checked))


# --- what is in the folder ---------------------------------------------------------------


def gather(folder: Path) -> list[Result]:
    """Return the results of a folder, and of the folders of several commands inside it."""
    found = read_results(folder)
    for inside in sorted(folder.iterdir()):
        if inside.is_dir() and not (inside / RESULT).exists():
            found += read_results(inside)
    return found


def read_frozen(path: Path) -> str | None:
    """Return the commit at which settings were frozen: the first word of a file, if it is there."""
    if not path.exists():
        return None
    words = path.read_text("utf-8").split()
    if not words or not re.fullmatch("[0-9a-f]{7,40}", words[0]):
        raise UserError(f"{path}: begins with {words[:1]}, expected a commit of 7 to 40 hex digits")
    return words[0]


def read_grades(path: Path) -> list[Grades]:
    """Return what judges thought, if there is a file: a list of what `Grades` has."""
    if not path.exists():
        return []
    try:
        found = TypeAdapter(list[Grades]).validate_json(path.read_bytes())
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
        said = error.errors()[0]["msg"]
        raise UserError(
            f"{path}: {where}: {said}; expected a list of "
            f"{{{', '.join(Grades.model_fields)}}}, one for each judge, split and group"
        ) from None
    if len({(g.judge, g.split, g.group) for g in found}) < len(found):
        raise UserError(f"{path}: a judge has a group of questions twice on a split; keep one")
    return found


def basis_of(results: Sequence[Result], evidence: Evidence, frozen: str | None) -> Basis:
    """Return what the verdicts rest on."""
    used = evidence.results
    return Basis(
        len(used),
        len(results) - len(used),
        sorted({result.stream for result in used}),
        sorted({result.seed for result in used}),
        used[0].budget,
        used[0].data,
        sorted({result.revision or "unknown" for result in used}),
        frozen,
    )


# --- as text -----------------------------------------------------------------------------


def heading(basis: Basis) -> list[str]:
    """Return what to know before any verdict."""
    left_out = f" ({basis.left_out} not completed, left out)" if basis.left_out else ""
    frozen = basis.frozen or f"not written down (no file {FROZEN}); those of the code above"
    changed = any(code.endswith("+") for code in basis.code)
    return [
        f"{basis.results} results{left_out} of {_listed(basis.streams)}; "
        f"seeds {_listed(basis.seeds)}; budget {basis.budget:g}%",
        f"data             {basis.data}",
        f"code             {_listed(basis.code)}" + (" (+: changed files)" if changed else ""),
        f"frozen settings  {frozen}",
    ]


def row(checked: CheckedClaim) -> list[str]:
    """Return the cells of a claim."""
    claim, finding = checked.claim, checked.finding
    pair = finding.difference
    return [
        claim.statement,
        f"{claim.where}: {claim.paper}" if claim.paper else claim.where,
        as_plus_minus(finding.higher),
        as_plus_minus(finding.lower),
        as_plus_minus(pair.difference if pair else None, "+.3f"),
        str(pair.seeds) if pair else "0",
        _p(pair.p if pair else None),
        _p(finding.holm),
        finding.verdict,
        finding.note,
    ]


def tally(checked: Iterable[CheckedClaim]) -> str:
    """Return how many claims have each verdict."""
    found = Counter(j.finding.verdict for j in checked)
    return (
        f"{found['holds']} hold, {found['holds before correction only']} only before correction; "
        f"{found['practically the same']} are practically the same, "
        f"{found['does not hold']} do not hold, {found['not learned here']} not learned here, "
        f"{found['not enough data']} lack data"
    )


def parts(checked: Sequence[CheckedClaim]) -> Iterator[tuple[str, list[CheckedClaim]]]:
    """Yield the claims split by split, primary ones first where some were named, with a title."""
    named = any(j.primary for j in checked)
    for split in SPLITS:
        for primary in (True, False) if named else (False,):
            some = [j for j in checked if j.split == split and j.primary == primary]
            kind = ("primary" if primary else "secondary") if named else "all claims"
            yield f"{split}, {kind}: {tally(some)}", some


def print_claims(basis: Basis, checked: Sequence[CheckedClaim], console: Console) -> None:
    """Print what was checked, a table for each split, and the rule."""
    for line in heading(basis):
        console.print(line, soft_wrap=True)
    for title_of_part, some in parts(checked):
        table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
        for title in COLUMNS:
            table.add_column(title, no_wrap=title not in _WIDTHS, max_width=_WIDTHS.get(title))
        for one in some:
            *cells, verdict, note = row(one)
            table.add_row(*cells, Text(verdict, _STYLES[verdict]), note)
        console.print(f"\n{title_of_part}")
        console.print(table)
    console.print(f"\n{RULE}")


def as_text(basis: Basis, checked: Sequence[CheckedClaim], form: Format) -> str:
    """Return all of it in a form for documents or programs."""
    if form == "json":
        return formats.as_json(as_data(basis, checked))
    if form == "csv":
        return formats.as_csv([_record(one) for one in checked])
    if form == "tex":
        splits = [[one.split, *row(one)] for one in checked]
        return formats.as_latex(["split", *COLUMNS], splits)
    return as_markdown(basis, checked)


def _record(checked: CheckedClaim) -> dict[str, Any]:
    """Return a claim as one row for spreadsheets."""
    claim, finding = checked.claim, checked.finding
    data = _finding(finding)
    found: dict[str, Any] = {
        **{"claim": claim.name, "split": checked.split, "primary": checked.primary},
        **{"statement": claim.statement, "where": claim.where, "paper": claim.paper},
        "verdict": finding.verdict,
    }
    for side in ("ours", "against", "difference"):
        of_side = data[side] or {"mean": None, "low": None, "high": None}
        found |= {side: of_side["mean"], **{f"{side}_{e}": of_side[e] for e in ("low", "high")}}
    return found | {name: data[name] for name in ("n", "p", "holm", "note")}


def as_markdown(basis: Basis, checked: Sequence[CheckedClaim]) -> str:
    """Return all of it for a document."""
    lines = [*(f"- {' '.join(line.split())}" for line in heading(basis)), "", RULE]
    for title, some in parts(checked):
        lines += ["", f"### {title}", "", formats.as_markdown(COLUMNS, map(row, some)).rstrip()]
    return "\n".join(lines) + "\n"


def as_data(basis: Basis, checked: Sequence[CheckedClaim]) -> dict[str, Any]:
    """Return all of it for programs."""
    claims = [
        {
            **{"name": j.claim.name, "split": j.split, "statement": j.claim.statement},
            "primary": j.primary,
            **{"where": j.claim.where, "paper": j.claim.paper},
            **_finding(j.finding),
        }
        for j in checked
    ]
    return {"basis": asdict(basis), "rule": " ".join(RULE.split()), "claims": claims}


def _finding(finding: Finding) -> dict[str, Any]:
    pair = finding.difference or Paired(Interval(0.0, None, None), 0, None)
    sides = {"ours": finding.higher, "against": finding.lower}
    sides["difference"] = pair.difference if finding.difference else None
    return {
        **{"verdict": finding.verdict, "note": finding.note, "numbers_of": finding.shown},
        **{name: side._asdict() if side else None for name, side in sides.items()},
        **{"n": pair.seeds, "p": pair.p, "p_of_sign_flips": pair.p_flipped, "holm": finding.holm},
        "parts": [_finding(part) for part in finding.parts],
    }


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.001 else "<.001"


def _listed(some: Sequence[object]) -> str:
    return ", ".join(map(str, some))
