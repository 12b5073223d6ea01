"""Score matrices: every task after every experience, a heat map for each strategy."""

from __future__ import annotations

from math import isfinite

from pmn_cl.results.statistics import as_plus_minus
from reports.blocks import Figure, Missing, Row, Section, Table
from reports.folder import Gathered, mean_matrix
from reports.svg import PlotPanel, heat, scale


def matrices(found: Gathered) -> Section:
    """Show the mean score matrix of each strategy, all in one scale."""
    title = "Score matrices"
    if not found.field:
        missing = Missing("No plain run is completed yet.", found.commands("run"))
        return Section("matrices", title, [missing])
    means = {name: mean_matrix(some) for name, some in found.by_name.items()}
    rows = [row for matrix in means.values() for row in matrix]
    best = [
        max((cell.mean for row in rows if (cell := row[j])), default=0.0)
        for j in range(len(found.tasks))
    ]
    panels, data = [], []
    for name, matrix in means.items():
        values = [[cell.mean if cell else None for cell in row] for row in matrix]
        shares = [
            [v / best[j] if v is not None and best[j] > 0 else None for j, v in enumerate(row)]
            for row in values
        ]
        if name in found.drawn:
            panels.append(_panel(found, name, values, shares))
        for i, row in enumerate(matrix):
            cells = [found.label(name), str(i + 1), found.tasks[i], *map(as_plus_minus, row)]
            data.append(Row(cells, found.number(name)))
    figure = Figure(
        "Score of each task (columns) after each experience (rows), mean over seeds",
        panels,
        Table("Score matrices, test", ["strategy", "after", "learned", *found.tasks], data, 3),
        found.commands("run"),
        "Numbers are raw scores on test. Shades are one scale for all strategies: the share of the "
        "highest score that any of them has on the task. Empty: not measured; joint training has "
        "only a last row." + found.not_drawn,
        scale("Scale of all heat maps", "0", "the task's highest score"),
    )
    return Section("matrices", title, [figure])


def _panel(
    found: Gathered,
    name: str,
    values: list[list[float | None]],
    shares: list[list[float | None]],
) -> PlotPanel:
    last = [
        f"{task} {v:.3f}"
        for task, v in zip(found.tasks, values[-1], strict=True)
        if v is not None and isfinite(v)
    ]
    return heat(
        found.label(name),
        f"Score matrix of {found.label(name)}; after the whole stream: {', '.join(last)}.",
        [f"after {task}" for task in found.tasks],
        found.tasks,
        values,
        shares,
        strategy=found.number(name),
    )
