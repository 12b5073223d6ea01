"""What becomes of all tasks while one of them is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pmn_cl.results.measures.catalogue import Scored, in_context, raw_moments, steps_of
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import interval
from reports.blocks import Figure, Missing, Row, Section, Table, keys, last_values, number, point
from reports.folder import Gathered
from reports.svg import Point, Series, lines

_NONE = (
    "These runs were scored between tasks alone; `evaluate_every: {}` in the stream also scores "
    "them while they learn."
)


def inside(found: Gathered) -> Section:
    """Show every task's score over all steps of a run, in a panel for each task."""
    title = "Inside tasks"
    runs = in_context(found.field, "test")
    by_name: dict[str, list[Scored]] = {}
    for run in runs:
        if run.result.inside.step and run.result.competes:
            by_name.setdefault(run.result.name, []).append(run)
    if not by_name:
        return Section("inside", title, [Missing(_NONE, found.commands("run"))])
    panels, data = [], []
    drawn: list[Series] = []
    for j, task in enumerate(found.tasks):
        series = []
        for name, some in by_name.items():
            points = _points([run.result for run in some], j)
            if name in found.drawn and points:
                series.append(Series(found.looks[name], points))
            data += [_row(found, task, name, p) for p in points]
        drawn += series
        panels.append(
            lines(
                task,
                f"Score of {task} on the probe over the steps of the whole stream. At the end: "
                f"{last_values(series)}.",
                series,
                x_label="steps of the run",
                y_label=found.metric(task),
                band=True,
                origin=True,
            )
        )
    figure = Figure(
        "What becomes of each task while others are learned",
        panels,
        Table(
            "Scores inside tasks, probe",
            ["task", "strategy", "step", "score", "low", "high"],
            data,
            3,
        ),
        found.commands("run"),
        "A line begins where its task is learned; where later tasks begin, lines that fall are "
        "tasks that are being forgotten, and flat ones those that nothing can touch. Mean over "
        "seeds with 95% bands." + found.not_drawn,
        key=keys(*drawn),
    )
    return Section("inside", title, [figure])


def _points(some: Sequence[Result], j: int) -> list[Point]:
    """Return the mean over seeds at each step of the whole run at which all were scored."""
    at: dict[int, list[float]] = {}
    for result in some:
        phases = range(len(result.scores["probe"]))
        begins = [0, *accumulate(steps_of(result, phase) for phase in phases)]
        for moment in raw_moments(result):
            score = moment.scores[j]
            if score is not None:
                at.setdefault(begins[moment.phase] + moment.step, []).append(score)
    return [point(interval(at[step]), step) for step in sorted(at) if len(at[step]) >= len(some)]


def _row(found: Gathered, task: str, name: str, p: Point) -> Row:
    ends = [number(p.y), number(p.low), number(p.high)]
    return Row([task, found.label(name), f"{p.x:.0f}", *ends], found.number(name))
