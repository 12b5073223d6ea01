"""Normalised scores of all seeds and tasks as one number, robustly, and as a profile."""

from __future__ import annotations

from pmn_cl.results.compare import (
    BETTER,
    GAP,
    IQM,
    NORMALISED,
    Comparison,
    columns,
    named_rows,
    note,
)
from pmn_cl.results.statistics import performance_profile
from reports.blocks import Figure, Missing, Row, Section, Table, Text, keys, number
from reports.folder import Gathered
from reports.svg import Point, Series, lines

_THRESHOLDS = [n / 20 for n in range(21)]
_IN_TABLE = _THRESHOLDS[2::4]  # 0.1, 0.3, … 0.9


def aggregates(found: Gathered) -> Section:
    """Show what outliers do not move, and which share of scores is how high."""
    title = "Robust aggregates"
    usual = found.comparison("test")
    if usual is None or usual.compared != NORMALISED:
        needed = "Scores of several tasks need what is 1 on each: run executor and joint training."
        return Section("aggregates", title, [Missing(needed, found.commands("run"))])
    robust = found.comparison("test", "iqm")
    assert robust is not None
    said = note(robust)
    prose = Text(f"{said[:1].upper()}{found.shortened(said[1:])}.")
    return Section("aggregates", title, [_table(found, robust), prose, _profile(found, robust)])


def _table(found: Gathered, robust: Comparison) -> Table:
    titles = columns(robust)
    shown = [titles.index(t) for t in titles if t in ("strategy", "seeds", IQM, GAP, BETTER)]
    body = [
        Row([found.label(cells[0]), *(cells[at] for at in shown[1:])], found.number(name))
        for name, cells in named_rows(robust)
        if name is not None
    ]
    return Table("Robust aggregates, test", [titles[at] for at in shown], body)


def _profile(found: Gathered, robust: Comparison) -> Figure:
    drawn, body = [], []
    for line in robust.lines:
        if not line.shares:
            continue
        shares = performance_profile(line.shares, _THRESHOLDS)
        points = [Point(share, x=at) for at, share in zip(_THRESHOLDS, shares, strict=True)]
        if line.name in found.drawn:
            drawn.append(Series(found.looks[line.name], points))
        cells = [number(shares[_THRESHOLDS.index(at)], ".2f") for at in _IN_TABLE]
        body.append(Row([found.label(line.name), *cells], found.number(line.name)))
    panel = lines(
        "Performance profiles",
        "Which share of the normalised scores of all tasks and seeds is above each threshold.",
        drawn,
        x_label="normalised score",
        y_label="share of scores above",
    )
    titles = ["strategy", *(f"above {at:g}" for at in _IN_TABLE)]
    return Figure(
        "Performance profiles, test",
        [panel],
        Table("Share of normalised scores above a threshold", titles, body),
        found.commands("run"),
        "Higher is better everywhere; lines that cross have no order." + found.not_drawn,
        key=keys(*drawn),
    )
