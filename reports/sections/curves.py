"""How each task was learned: validation scores while it was, and when they were half-way."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pmn_cl.results.bounds import has_top, top_of, tops
from pmn_cl.results.measures.emergence import Reached, family_ceilings, reached
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
    Text,
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
    return Section("curves", "Learning curves", [*blocks, *_competence(found)])


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


# --- when learners were half-way ---------------------------------------------------------

_HOW = (
    "The first validation at which a task, or a question family, is half-way from what a constant "
    "answer comes to, to what the ceiling does, on test: steps, and CPU seconds of learning the "
    "task until then; by seed, and never where it was not reached."
)


def _competence(found: Gathered) -> list[Block]:
    """Show when learners were half-way, where floor and ceiling are known."""
    rows = [row for task in found.tasks for row in _rows(found, task)]
    names = [name for name in found.by_name if _learners(found, name)]
    columns = ["task", "family", *map(found.label, names)]
    return [Text(_HOW), Table("Time to competence", columns, rows, 2)] if rows else []


def _learners(found: Gathered, name: str) -> list[Result]:
    return [result for result in found.by_name[name] if result.competes]


def _rows(found: Gathered, task: str) -> list[Row]:
    """Return a row for a task, and for each of its families, whose floor and ceiling are known."""
    top = tops(found.field, "test")
    names = [name for name in found.by_name if _learners(found, name)]
    levels: dict[str, tuple[float, float]] = {}
    first = next((r for r in found.field if r.competes and has_top(r, top)), None)
    if first is not None:
        place = first.tasks.index(task)
        levels[""] = first.constant["test"][place] or 0.0, top_of(first, top)[place]
    floors = next(
        (r.floors[task].scores.get("test", {}) for r in found.field if task in r.floors), {}
    )
    for family, ceiling in family_ceilings(found.field, "test", task).items():
        if family in floors and ceiling > floors[family]:
            levels[family] = floors[family], ceiling
    rows = []
    for family, (floor, ceiling) in levels.items():
        cells = []
        for name in names:
            curved = [r for r in _learners(found, name) if r.curves.get(task)]
            when = (reached(r, task, floor, ceiling, family or None) for r in curved)
            cells.append(", ".join(map(_said, when)))
        if any(cells):
            rows.append(Row([task, family or "all", *cells]))
    return rows


def _said(found: Reached | None) -> str:
    if found is None:
        return "never"
    return f"{found.step}" + ("" if found.cpu_seconds is None else f" ({found.cpu_seconds:.0f} s)")
