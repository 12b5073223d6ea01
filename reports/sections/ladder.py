"""Each module with less and with more to call, beside the paper's numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pmn_cl.results.ladder import TABLES, RungRow, tables
from pmn_cl.results.paper import RUNGS as PAPER_RUNGS
from pmn_cl.results.statistics import as_plus_minus
from reports.blocks import (
    CUT,
    Block,
    Figure,
    Missing,
    Row,
    Section,
    Table,
    Text,
    number,
    point,
)
from reports.folder import Gathered, largest
from reports.svg import DotRow, PlotPanel, Point, SeriesStyle, dots

_OURS, _PAPERS = 0, 6  # whose colours and markers
_COLUMNS = ["module", "score", "seeds", "gain", "p", "score, novel", "gain, novel", "paper"]
_COLUMNS += ["paper's gain"]


def ladder(found: Gathered) -> Section:
    """Show the ladders of the ablation, ours and the paper's side by side."""
    title = "Ablation ladder"
    some = largest(found.ablation, lambda result: (result.data, result.budget))
    if not some:
        missing = Missing("No ablation has been run yet.", found.commands("ablate"))
        return Section("ladder", title, [missing])
    here, novel = tables(some), tables([r for r in some if r.scores.get("novel")], "novel")
    blocks: list[Block] = [Text(_HOW)]
    if len(some) < len(found.ablation):
        said = f"{len(found.ablation) - len(some)} results have other data or another budget"
        blocks.append(Text(f"{said}, and are left out here."))
    for name, rungs in here.items():
        if len(rungs) > 1:
            blocks.append(_figure(found, name, rungs, novel.get(name, [])))
    lacking = [name for name in TABLES if len(here.get(name, [])) < 2]
    if lacking:
        said = f"No two rungs yet of {', '.join(lacking)}."
        blocks.append(Missing(said, found.commands("ablate")))
    return Section("ladder", title, blocks)


_HOW = (
    "Scores are of the module's own task on test, mean over seeds with 95% intervals; gains are "
    "over the first rung, paired by seed. The paper's numbers are from Visual Genome, COCO and "
    "VQA 2.0, in percent (of M_rel by object, filled, and by subject, hollow; of M_cap CIDEr): "
    "compare the order of rungs, not heights." + CUT
)


def _figure(found: Gathered, name: str, rungs: list[RungRow], novel: list[RungRow]) -> Figure:
    panels = [_ours(name, rungs)]
    if any(_numbers(rung.paper) for rung in rungs):
        panels.append(_papers(name, rungs))
    elsewhere = {line.name: line for line in novel}
    data = []
    for rung in rungs:
        cells = [rung.name, as_plus_minus(rung.score), str(rung.seeds), *_gain(rung)]
        other = elsewhere.get(rung.name)
        cells += [as_plus_minus(other.score), _gain(other)[0]] if other else ["", ""]
        data.append(Row([*cells, rung.paper, _papers_gain(name, rung)]))
    only = " ".join(f"--only {shlex.quote(rung.name)}" for rung in rungs)
    commands = [f"{found.command('ablate')} {only}", *found.commands()]
    return Figure(name, panels, Table(name, _COLUMNS, data), commands)


def _numbers(paper: str) -> list[float]:
    """Return the paper's numbers, of which M_rel has two."""
    return [float(part) for part in paper.split(",") if re.fullmatch(r"\s*\d+(\.\d+)?\s*", part)]


def _papers_gain(name: str, rung: RungRow) -> str:
    """Return what the paper has over the first rung."""
    first = TABLES[name][0]
    if rung.name == first:
        return ""
    pairs = zip(_numbers(rung.paper), _numbers(PAPER_RUNGS.get(first, "")), strict=False)
    return ", ".join(f"{value - base:+.2f}" for value, base in pairs)


def _gain(rung: RungRow) -> tuple[str, str]:
    if rung.gain is None:
        return "", ""
    return as_plus_minus(rung.gain.difference, "+.3f"), number(rung.gain.p)


def _ours(name: str, rungs: Sequence[RungRow]) -> PlotPanel:
    rows = [
        DotRow(SeriesStyle(_OURS, rung.name), [point(rung.score)], strategy=False) for rung in rungs
    ]
    said = "; ".join(f"{rung.name} {rung.score.mean:.3f}" for rung in rungs)
    return dots(f"{name}: here", f"Scores on test: {said}.", rows, x_label="score on test")


def _papers(name: str, rungs: Sequence[RungRow]) -> PlotPanel:
    rows = [
        DotRow(
            SeriesStyle(_PAPERS, rung.name),
            [Point(v) for v in _numbers(rung.paper)],
            strategy=False,
        )
        for rung in rungs
    ]
    said = "; ".join(f"{rung.name} {rung.paper or 'none'}" for rung in rungs)
    return dots(f"{name}: the paper", f"The paper's: {said}.", rows, x_label="percent, or CIDEr")
