"""What later tasks do to earlier ones, and earlier ones for later ones."""

from __future__ import annotations

from pmn_cl.results import scores
from pmn_cl.results.compare import Comparison
from pmn_cl.results.statistics import as_plus_minus
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
from reports.folder import Gathered, mean, mean_matrix
from reports.svg import DotRow, PlotPanel, Series, dots, lines

_MEASURES = {
    "forgetting": "max − last, mean over earlier tasks; lower is better",
    "bwt": "backward transfer: last − first; below 0 is forgetting",
    "transfer over scratch": "just after learning, over learning alone; higher is better",
    "fwt": "forward transfer: before learning, over the constant answer",
}


def forgetting(found: Gathered) -> Section:
    """Show forgetting and transfer of each strategy, and each task along the stream."""
    title = "Forgetting and transfer"
    comparison = found.comparison("test")
    if comparison is None:
        missing = Missing("No plain run is completed yet.", found.commands("run"))
        return Section("forgetting", title, [missing])
    blocks: list[Block] = [_measures(found, comparison), _along(found)]
    if len(found.tasks) > 1:
        blocks.insert(1, _per_task(found))
    return Section("forgetting", title, blocks)


def _measures(found: Gathered, comparison: Comparison) -> Figure:
    panels = []
    for measure, meaning in _MEASURES.items():
        rows = [
            DotRow(found.looks[line.name], [point(value)])
            for line in comparison.lines
            if line.name in found.drawn and (value := line.measures[measure]) is not None
        ]
        if rows:
            said = "; ".join(f"{r.look.label} {p.y:.3f}" for r in rows for p in r.points if p)
            description = f"{meaning}. {said}."
            panels.append(dots(measure, description, rows, x_label=meaning, zero=True))
    data = [
        Row(
            [found.label(line.name), *(as_plus_minus(line.measures[m]) for m in _MEASURES)],
            found.number(line.name),
        )
        for line in comparison.lines
    ]
    return Figure(
        "Forgetting and transfer, mean over seeds with 95% intervals",
        panels,
        Table("Forgetting and transfer, test", ["strategy", *_MEASURES], data),
        found.commands("run"),
        "Intervals are Student's t over seeds. What compares two rows of the matrix is not there "
        "for joint training; transfer over scratch takes runs of `independent`; forward transfer, "
        "a method that answers tasks it has not learned." + CUT + found.not_drawn,
    )


def _per_task(found: Gathered) -> Table:
    rows = []
    for name, some in found.by_name.items():
        lost = [scores.forgetting_per_task(result.matrix()) for result in some]
        of_task = [mean(values[j] for values in lost) for j in range(len(found.tasks) - 1)]
        rows.append(Row([found.label(name), *map(as_plus_minus, of_task)], found.number(name)))
    return Table("Forgetting of each task (max − last)", ["strategy", *found.tasks[:-1]], rows)


def _along(found: Gathered) -> Figure:
    """Show what becomes of each task while later ones are learned."""
    means = {name: mean_matrix(some) for name, some in found.by_name.items()}
    panels: list[PlotPanel] = []
    data: list[Row] = []
    drawn: list[Series] = []
    for j, task in enumerate(found.tasks):
        series = []
        for name, matrix in means.items():
            points = [point(cell, i) for i, row in enumerate(matrix) if (cell := row[j])]
            if name in found.drawn and points:
                series.append(Series(found.looks[name], points))
            for i, row in enumerate(matrix):
                if (cell := row[j]) is not None:
                    cells = [task, found.label(name), found.tasks[i]]
                    ends = [number(cell.mean), number(cell.low), number(cell.high)]
                    data.append(Row([*cells, *ends], found.number(name)))
        drawn += series
        panels.append(
            lines(
                task,
                f"Test score of {task} after each experience. At the end: {last_values(series)}.",
                series,
                x_label="after learning",
                y_label=found.metric(task),
                names=found.tasks,
                band=True,
            )
        )
    columns = ["task", "strategy", "after", "score", "low", "high"]
    return Figure(
        "What becomes of each task along the stream",
        panels,
        Table("Each task along the stream, test", columns, data, 3),
        found.commands("run"),
        "Mean over seeds with 95% bands, where there are not too many lines to see them; the table "
        "has all. A line that falls is a task that is forgotten." + CUT + found.not_drawn,
        key=keys(*drawn),
    )
