"""Scores by question family, and how they, attention and gates came about while learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from pmn_cl.results.families.at_floor import said_at_floor
from pmn_cl.results.families.table import FLOOR, FamilyTable, family_tables
from pmn_cl.results.result import Epoch, Result
from reports.blocks import Block, Figure, Missing, Row, Section, Table, Text, number
from reports.folder import Gathered
from reports.svg import PlotPanel, heat, scale

_STEPS = 8  # columns of a panel: more would not fit beside each other


def families(found: Gathered) -> Section:
    """Show the last scores by family, what was not learned, and a figure for each task."""
    title = "By question family"
    tables = family_tables(found.field)
    if not tables:
        return Section("families", title, [Missing(_NONE, found.commands("run"))])
    blocks: list[Block] = [Text(_HOW)]
    blocks += [_scores(found, table) for table in tables]
    blocks += [Text(f"{found.shortened(line)}.") for line in said_at_floor(found.field, None)]
    figures = [_figure(found, task) for task in found.tasks]
    blocks += [figure for figure in figures if figure.panels]
    return Section("families", title, blocks)


_NONE = (
    "No completed run has scores by question family: this world has none, or the results are older."
)
_HOW = (
    "The floor of a family is the one answer that serves its questions best, given to all of them: "
    "what is no better has not been learned. Means over seeds with 95% intervals, test, "
    "after the whole stream. A family counts as being at its floor if it is within 3 points of it "
    "at every validation from a third of its training on, and on test afterwards."
)


def _scores(found: Gathered, table: FamilyTable) -> Table:
    rows = [
        Row([cells[0] if cells[0] == FLOOR else found.label(cells[0]), *cells[1:]], at)
        for cells in table.rows()
        for at in [found.number(cells[0])]
    ]
    caption = f"{table.task} by {table.kind}, test"
    return Table(caption, ["strategy", *table.families], rows)


class _Shown(NamedTuple):
    """A part of what a validation shows."""

    title: str
    of: Callable[[Epoch], Mapping[str, float]]
    base: str  # the name of what it is compared with; none: 0


_SHOWN = (
    _Shown("score", lambda epoch: epoch.families, "floor"),
    _Shown("attention", lambda epoch: epoch.mass, "uniform"),
    _Shown("gates", lambda epoch: epoch.gates, ""),
)


def _figure(found: Gathered, task: str) -> Figure:
    """Show what validations of a task showed, up to three panels for each strategy."""
    panels: list[PlotPanel] = []
    data: list[Row] = []
    for name, some in found.by_name.items():
        for shown in _SHOWN:
            curve = _curve(some, task, shown)
            if not curve:
                continue
            base = _base(some, task, shown)
            if name in found.drawn:
                panels.append(_panel(found, name, task, shown, base, curve))
            data += [
                Row([found.label(name), shown.title, row, str(step), number(value)], at)
                for at in [found.number(name)]
                for step, values in curve.items()
                for row, value in values.items()
            ]
    return Figure(
        f"{task}: validation by question family while it is learned, by steps",
        panels,
        Table(
            f"{task} while it is learned, by question family",
            ["strategy", "what", "of", "step", "value"],
            data,
            4,
        ),
        found.commands("run"),
        "Mean over the seeds that got this far. Attention is its share on the regions that a "
        "question is about; uniform: on all regions alike. Shades of scores and attention begin at "
        "the first column, those of gates (how much a module counts, by callee) at 0. Modules that "
        "other runs had learned before are not here." + found.not_drawn,
        scale("Scale of these heat maps", "floor, uniform or 0, or below", "1"),
    )


def _curve(some: Sequence[Result], task: str, shown: _Shown) -> dict[int, dict[str, float]]:
    """Return the means over seeds by step, of not too many steps; the last is among them."""
    at: dict[int, dict[str, list[float]]] = {}
    for result in some:
        for epoch in result.curves.get(task, []):
            for name, value in shown.of(epoch).items():
                at.setdefault(epoch.step, {}).setdefault(name, []).append(value)
    steps = sorted(at)
    every = -(-len(steps) // _STEPS) or 1
    kept = steps[::-every][::-1]
    return {step: {name: fmean(v) for name, v in at[step].items()} for step in kept}


def _base(some: Sequence[Result], task: str, shown: _Shown) -> Mapping[str, float]:
    """Return what values are compared with, by family."""
    floors = next((result.floors[task] for result in some if task in result.floors), None)
    if floors is None or not shown.base:
        return {}
    return floors.mass if shown.base == "uniform" else floors.scores.get("val", {})


def _panel(
    found: Gathered,
    name: str,
    task: str,
    shown: _Shown,
    base: Mapping[str, float],
    curve: Mapping[int, Mapping[str, float]],
) -> PlotPanel:
    rows = list(dict.fromkeys(row for values in curve.values() for row in values))
    values = [[some.get(row) for some in curve.values()] for row in rows]
    shares = [
        [None if v is None else _above(v, base.get(row, 0.0)) for v in line]
        for row, line in zip(rows, values, strict=True)
    ]
    columns = [str(step) for step in curve]
    if shown.base:
        columns = [shown.base, *columns]
        values = [[base.get(row), *line] for row, line in zip(rows, values, strict=True)]
        shares = [[0.0, *line] for line in shares]
    last = curve[max(curve)]
    ends = (f"{row} {value:.2f}" for row, value in last.items())
    title = f"{found.label(name)}: {shown.title}"  # short: a panel of few steps is narrow
    description = f"{task}: {shown.title} on validation by steps. Last: {'; '.join(ends)}."
    return heat(title, description, rows, columns, values, shares, strategy=found.number(name))


def _above(value: float, base: float) -> float:
    """Return the share of the way from what nothing learned comes to, up to 1."""
    return (value - base) / (1 - base) if base < 1 else 0.0
