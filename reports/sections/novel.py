"""Compositions that training never showed, beside the usual test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, Paired, as_plus_minus, interval, paired
from reports.blocks import CUT, Figure, Missing, Row, Section, Table, Text, number, point
from reports.folder import Gathered
from reports.sections.gates import GATE
from reports.svg import DotRow, PlotPanel, dots

# Novel samples are never about background, which makes this metric of obj the one to compare by.
_FAIRER = "top1_objects"


class Both(NamedTuple):
    """A metric on both splits, over the seeds that have it on both."""

    metric: str
    test: Interval
    novel: Interval
    difference: Paired


def novel(found: Gathered) -> Section:
    """Show the test score and the novel one of every strategy and task."""
    title = "Test against novel compositions"
    panels, data = [], []
    for task in found.tasks:
        rows, drawn = [], ""
        for name, some in found.by_name.items():
            both = _both([r for r in some if r.scores.get("novel")], task)
            if both and name in found.drawn:
                drawn = both[0].metric
                rows.append(DotRow(found.looks[name], [point(both[0].test), point(both[0].novel)]))
            data += [_row(found, name, task, one) for one in both]
        if rows:
            panels.append(_panel(task, drawn, rows))
    if not panels:
        missing = Missing("No completed run was scored on novel compositions.")
        return Section("novel", title, [missing])
    columns = ["task", "metric", "strategy", "test", "novel", "novel − test", "seeds", "p"]
    figure = Figure(
        "Test (filled) and novel compositions (hollow), mean over seeds",
        panels,
        Table("Test and novel compositions, by kind of question too", columns, data, 3),
        found.commands("run"),
        "Bars are 95% intervals over seeds; differences in the table are paired by seed."
        + CUT
        + found.not_drawn,
    )
    return Section("novel", title, [Text(_WHY), figure])


_WHY = (
    "Novel samples ask only about compositions that training never shows, though it shows their "
    f"parts. They ask about no background and not about the whole scene: obj is compared by "
    f"{_FAIRER} where results have it, and vqa is best compared by the kind of question, in the "
    "table."
)


def _both(some: Sequence[Result], task: str) -> list[Both]:
    """Return the metrics of a task on both splits, the one to compare by first."""
    if not some:
        return []
    rows = some[0].secondary.get("novel") or [{}]
    others = [metric for metric in rows[-1].get(task, {}) if not metric.startswith(GATE)]
    primary = some[0].metrics[some[0].tasks.index(task)]
    metrics = sorted(dict.fromkeys([primary, *others]), key=lambda metric: metric != _FAIRER)
    found = []
    for metric in metrics:
        test, other = ({r.seed: _last(r, split, task, metric) for r in some} for split in _SPLITS)
        seeds = [s for s in test if test[s] is not None and other[s] is not None]
        here, there = ({s: v for s in seeds if (v := of[s]) is not None} for of in (test, other))
        difference = paired(there, here)
        if difference is not None:
            test_mean, novel_mean = interval([*here.values()]), interval([*there.values()])
            found.append(Both(metric, test_mean, novel_mean, difference))
    return found


_SPLITS = ("test", "novel")


def _last(result: Result, split: str, task: str, metric: str) -> float | None:
    """Return a metric after the whole stream."""
    place = result.tasks.index(task)
    if metric == result.metrics[place]:
        return result.matrix(split)[-1][place]
    rows = result.secondary.get(split) or [{}]
    return rows[-1].get(task, {}).get(metric)


def _row(found: Gathered, name: str, task: str, both: Both) -> Row:
    difference = both.difference
    cells = [
        task,
        both.metric,
        found.label(name),
        as_plus_minus(both.test),
        as_plus_minus(both.novel),
    ]
    cells += [
        as_plus_minus(difference.difference, "+.3f"),
        str(difference.seeds),
        number(difference.p),
    ]
    return Row(cells, found.number(name))


def _panel(task: str, metric: str, rows: Sequence[DotRow]) -> PlotPanel:
    said = "; ".join(
        f"{row.look.label} {test.y:.3f} and {other.y:.3f}"
        for row in rows
        for test, other in [row.points]
        if test and other
    )
    description = f"{task}, {metric}: score on test and on novel compositions. {said}."
    return dots(f"{task} ({metric})", description, rows, x_label="score")
