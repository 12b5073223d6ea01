"""What came out, in a sentence and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from pmn_cl.results.bounds import NORMALISED_MEANS
from pmn_cl.results.compare import NORMALISED, Comparison, StrategyRow, columns, named_rows, note
from pmn_cl.results.statistics import Interval, as_plus_minus
from pmn_cl.results.summary import meaning
from reports.blocks import CUT, Block, Figure, Missing, Row, Section, Table, Text, point
from reports.folder import Gathered
from reports.svg import DotRow, dots


def summary(found: Gathered) -> Section:
    """Show who is ahead, by how much and how surely; what it means, and what is missing."""
    said = [found.shortened(sentence) for sentence in meaning(found.field)]
    blocks: list[Block] = [Text(said[0], lead=True)] if said else []
    comparison = found.comparison("test")
    if comparison is not None:
        blocks.append(_standing(found, comparison))
    blocks += [Text(sentence) for sentence in said[1:]]
    blocks.append(Text(_inventory(found)))
    if comparison is None:
        blocks.append(Missing("No plain run is completed yet.", found.commands("run")))
    else:
        titles, marks = columns(comparison), _marks(found, comparison)
        lines = [
            Row(
                [found.label(cells[0]), *cells[1:]],
                found.number(name) if name else None,
                {titles.index(column): mark for column, mark in marks.get(name or "", {}).items()},
            )
            for name, cells in named_rows(comparison)
        ]
        shown = [found.label(title) for title in titles]
        blocks.append(Table("Strategies after the whole stream, test", shown, lines))
        blocks.append(Text(_MARKED))
        blocks.append(Text(f"{_capital(found.shortened(note(comparison)))}. {_UNITS}"))
    return Section("summary", "Summary", blocks)


_MARKED = (
    "Marked with a bar are the best value of a column, in bold, and those that cannot be told from "
    "it: the difference is within the interval of either. One seed has no interval, and no ties."
)


def _columns(comparison: Comparison) -> dict[str, Callable[[StrategyRow], Interval | None]]:
    """Return what strategies are ranked by: the normalised average, then each task."""
    found: dict[str, Callable[[StrategyRow], Interval | None]] = {}
    if comparison.compared == NORMALISED:
        found[NORMALISED] = lambda line: line.measures[NORMALISED]
    return found | {task: partial(_of_task, task=task) for task in comparison.tasks}


def _of_task(line: StrategyRow, task: str) -> Interval | None:
    return line.tasks[task]


def _standing(found: Gathered, comparison: Comparison) -> Figure:
    """Draw where each strategy stands between floor and ceiling, with its interval."""
    lines = [line for line in comparison.lines if line.bound is None]
    drawn = [line for line in lines if line.name in found.drawn]
    floors = dict(zip(comparison.tasks, comparison.constant, strict=True)) | {NORMALISED: 0.0}
    ranked, panels = _columns(comparison), []
    for column, value_of in ranked.items():
        rows = [
            DotRow(found.looks[line.name], [point(value)])
            for line in drawn
            if (value := value_of(line)) is not None
        ]
        top = 1.0 if column == NORMALISED else _ceiling(comparison, value_of)
        both = {"floor": floors[column], "ceiling": top}
        bounds = {name: value for name, value in both.items() if value is not None}
        said = ", ".join(f"{name} {value:.2f}" for name, value in bounds.items())
        values = "; ".join(f"{r.look.label} {p.y:.3f}" for r in rows for p in r.points if p)
        panels.append(
            dots(column, f"{said}. {values}.", rows, x_label=said, bounds=[*bounds.values()])
        )
    titles = ["strategy", *ranked]
    data = [
        Row(
            [
                found.label(line.name),
                *(as_plus_minus(of(line)) for of in ranked.values()),
            ],
            found.number(line.name),
        )
        for line in lines
    ]
    return Figure(
        "Where strategies stand after the whole stream, between floor and ceiling (dashed), test",
        panels,
        Table("Where strategies stand, test", titles, data),
        found.commands("run"),
        "Means over seeds with 95% intervals (Student's t)." + CUT + found.not_drawn,
    )


def _ceiling(
    comparison: Comparison, value_of: Callable[[StrategyRow], Interval | None]
) -> float | None:
    """Return what the ceiling comes to, where it was run and does the task."""
    tops = [value_of(line) for line in comparison.lines if line.bound == "ceiling"]
    return next((top.mean for top in tops if top is not None), None)


def _marks(found: Gathered, comparison: Comparison) -> dict[str, dict[str, str]]:
    """Return the columns in which a strategy is the best, or cannot be told from it, by name."""
    marks: dict[str, dict[str, str]] = {}
    competing = [
        line for line in comparison.lines if line.bound is None and found.competes(line.name)
    ]
    for column, value_of in _columns(comparison).items():
        known = {line.name: value for line in competing if (value := value_of(line)) is not None}
        if not known:
            continue
        best = max(known, key=lambda name: known[name].mean)
        for name, value in known.items():
            if name == best or _tied(value, known[best]):
                marks.setdefault(name, {})[column] = "best" if name == best else "tie"
    return marks


def _tied(one: Interval, best: Interval) -> bool:
    """Whether the difference of two means is within the interval of either."""
    halves = [i.high - i.mean for i in (one, best) if i.high is not None]
    return bool(halves) and best.mean - one.mean <= max(halves)


_UNITS = (
    "Scores are of each task's primary metric, higher is better. Their average would mix units; "
    f"the normalised average does not: {NORMALISED_MEANS}. "
    "Forgetting is max − last (lower is better); transfer over scratch is against `independent`."
)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _inventory(found: Gathered) -> str:
    """Return what is in the folder, and what of it could not be used."""
    ended = Counter(result.status for result in found.results)
    states = ", ".join(f"{count} {status}" for status, count in sorted(ended.items()))
    seeds = sorted({result.seed for result in found.results})
    of_seeds = ", ".join(map(str, seeds[:8]))
    of_seeds += f", … ({len(seeds)} in all)" if len(seeds) > 8 else ""
    said = f"{len(found.results)} results ({states}); seeds {of_seeds}."
    said += f" {found.under_way} more under way." if found.under_way else ""
    if found.left_out:
        said += (
            f" {found.left_out} completed runs have other tasks, data, fraction or budget than the "
            "most, and are not compared with them; they are in the table of runs."
        )
    unusable = ended["completed"] - len(found.done)
    if unusable:
        said += f" {unusable} completed results lack test scores or parameters, and are not used."
    if found.problems:
        said += f" {len(found.problems)} files could not be read: see the runs."
    return said
