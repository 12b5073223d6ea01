"""How each task was learned: the validation score at the end of every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pmn_cl.results.result import Result
from pmn_cl.results.statistics import interval
from reports.blocks import (
    CUT,
    Block,
    Figure,
    Missing,
    Row,
    Section,
    Table,
    keys,
    last_values,
    number,
    point,
)
from reports.folder import Gathered
from reports.svg import Point, Series, lines

_POINTS = 60  # of a line: more cannot be seen


def curves(found: Gathered) -> Section:
    """Show the mean curve of each strategy with its band, a panel for each task."""
    panels, data = [], []
    drawn: list[Series] = []
    for task in found.tasks:
        series = []
        for name, some in found.by_name.items():
            points = _curve(some, task) if name in found.drawn else []
            if points:
                series.append(Series(found.looks[name], points))
            data += [_row(found, task, name, p) for p in points]
        drawn += series
        if series:
            panels.append(
                lines(
                    task,
                    f"Validation score of {task} by steps. At the end: {last_values(series)}.",
                    series,
                    x_label="steps",
                    y_label=found.metric(task),
                    band=True,
                    origin=True,
                )
            )
    blocks: list[Block] = [Missing(_NONE, found.commands("run"))]
    if panels:
        columns = ["task", "strategy", "step", "score", "low", "high"]
        blocks = [
            Figure(
                "Validation score while each task is learned",
                panels,
                Table("Learning curves, validation", columns, data, 3),
                found.commands("run"),
                "Mean over the seeds that got this far, with 95% bands. Modules that other runs "
                "had learned before have no curve here." + CUT + found.not_drawn,
                key=keys(*drawn),
            )
        ]
    return Section("curves", "Learning curves", blocks)


_NONE = "These results hold no learning curves: they were made before those were kept."


def _curve(some: Sequence[Result], task: str) -> list[Point]:
    """Return the mean over seeds at each step."""
    at: dict[int, list[float]] = {}
    for result in some:
        for epoch in result.curves.get(task, []):
            if isfinite(epoch.score):
                at.setdefault(epoch.step, []).append(epoch.score)
    steps = sorted(at)
    every = -(-len(steps) // _POINTS)
    kept = steps[:: every or 1]
    if steps and kept[-1] != steps[-1]:
        kept.append(steps[-1])
    return [point(interval(at[step]), step) for step in kept]


def _row(found: Gathered, task: str, name: str, p: Point) -> Row:
    ends = [number(p.y), number(p.low), number(p.high)]
    return Row([task, found.label(name), f"{p.x:.0f}", *ends], found.number(name))
