"""The closing table: what runs came to, one row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from pmn_cl.results import formats
from pmn_cl.results.bounds import NORMALISED_MEANS, floor_to_ceiling, with_bound
from pmn_cl.results.formats import Format
from pmn_cl.results.measures.catalogue import (
    FORGETTING,
    NORMALISED_AVERAGE,
    TIME_TO_COMPETENCE,
    Measure,
    Scored,
    in_context,
)
from pmn_cl.results.result import REUSED, REUSED_CPU, Result, leading_split

NORMALISED, HALF_WAY = "normalised", "half-way CPU-s"
_NEAR = 0.01  # of what was to be matched
# Columns that a narrow screen does without, the first of them first.
LEAST = ("parameters", "CPU-s", HALF_WAY, "forgetting")


def closing_table(results: Sequence[Result]) -> Table:
    """Return the final scores of each run, and what it forgot and cost.

    What the best constant answer scores stands first, also where no run gives it. Average and
    forgetting are normalised where that can be.
    """
    split = leading_split(results)
    table = Table(box=None, header_style="bold", title=f"{split}, after the whole stream")
    tasks = list(dict.fromkeys(task for result in results for task in result.tasks))
    units = _units(results, split)
    average = NORMALISED if units else "average"
    for title in ("strategy", "seed", average, *tasks, *LEAST[::-1]):
        table.add_column(title, justify="left" if title == "strategy" else "right")
    if not any(result.bound == "floor" for result in results):
        floor = _constant(results, split)
        if floor:
            none = number(0.0) if units else ""
            table.add_row("constant (floor)", "", none, *(number(floor.get(t)) for t in tasks))
    for result in floor_to_ceiling(results):
        rows = result.scores.get(split) or [[None] * len(result.tasks)]
        last = dict(zip(result.tasks, rows[-1], strict=True))
        size, run = result.parameters["total"], units.get(result.key)
        summary = result.summary(split)
        table.add_row(
            with_bound(result.name, result.bound),
            str(result.seed),
            number(_either(NORMALISED_AVERAGE, run) if units else summary["average"]),
            *(number(last.get(task)) for task in tasks),
            number(_either(FORGETTING, run) if units else summary["forgetting"]),
            _half_way(result, run),
            f"{sum(cost.cpu_seconds for cost in result.costs):.0f}",
            f"{size[-1]:,}" if size else "",
        )
    return table


def _either(measure: Measure, run: Scored | None) -> float | None:
    """Return a measure of a run that has units; one without any has none."""
    return None if run is None else measure(run)


def _units(results: Sequence[Result], split: str) -> dict[str, Scored]:
    """Return the runs whose scores can be put between floor and ceiling, by key."""
    return {run.result.key: run for run in in_context(results, split) if run.matrix}


def _half_way(result: Result, run: Scored | None) -> str:
    """Return when a run was half-way on the last task, where it could be."""
    if run is None or not result.tasks or not result.curves.get(result.tasks[-1]):
        return ""
    found = TIME_TO_COMPETENCE(run)
    return "never" if found is None else f"{found:.0f}"


def said_of_units(results: Sequence[Result]) -> str | None:
    """Say what the columns of the closing table are measured by; None without units."""
    found = _units(results, leading_split(results))
    if not found:
        return None
    last = next(iter(found.values())).result.tasks[-1]
    return (
        f"{NORMALISED}: {NORMALISED_MEANS}; forgetting in these units; {HALF_WAY}: of learning "
        f"{last}, until validation is half-way from floor to ceiling"
    )


def said_of_matching(results: Sequence[Result]) -> list[str]:
    """Say how near each matched strategy came to what it was matched to, where that is known."""
    said = {}
    for result in results:
        given, ratio = result.run.strategy, result.work.matched
        if ratio is not None:
            what = f"the {given.matched_by} of {given.matched_to or 'pmn'}"
            far = "" if abs(ratio - 1) <= _NEAR else ": no width comes nearer"
            said[result.name] = f"{result.name}: {ratio:.3f} of {what}{far}"
    return list(said.values())


def answer_table(results: Sequence[Result]) -> Table | None:
    """Return vqa after the whole stream by type of answer; None where there are none."""
    split = leading_split(results)
    kinds = dict.fromkeys(k for r in results for k in _answer_types(r, split))
    table = Table(box=None, header_style="bold", title=f"{split}, vqa by type of answer")
    for name in ("strategy", "seed", *kinds):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    for result in floor_to_ceiling(results):
        by_type = _answer_types(result, split)
        if by_type:
            cells = (number(by_type.get(kind)) for kind in kinds)
            table.add_row(with_bound(result.name, result.bound), str(result.seed), *cells)
    return table if kinds else None


def _answer_types(result: Result, split: str) -> dict[str, float]:
    """Return the last scores on vqa by type of answer, where a run has come so far."""
    rows = result.secondary.get(split) or [{}]
    found = rows[-1].get("vqa", {})
    return {kind: found[kind] for kind in ("yes/no", "number", "other") if kind in found}


def said_of_reuse(results: Sequence[Result]) -> str:
    """Say how much was learned and taken from other runs, and what that took and counts."""
    reused = sum(int(result.details.get(REUSED, 0)) for result in results)
    learned = sum(len(result.tasks) for result in results) - reused
    counted = sum(cost.cpu_seconds for result in results for cost in result.costs)
    spent = counted - sum(result.details.get(REUSED_CPU, 0.0) for result in results)
    said = f"{learned} modules or tasks learned, {reused} reused, {spent:.0f} CPU-s"
    return f"{said} spent ({counted:.0f} with each run counted alone)" if reused else said


def _constant(results: Sequence[Result], split: str) -> dict[str, float | None]:
    """Return what the best constant answer scores on each task, where all have the same data."""
    found: dict[str, float | None] = {}
    if len({(result.data, result.fraction) for result in results if result.data}) == 1:
        for result in results:
            found = dict(zip(result.tasks, result.constant.get(split, []), strict=False)) | found
    return found


def number(value: float | None) -> str:
    """Return a score as tables show it."""
    return "-" if value is None else f"{value:.3f}"


def as_text(results: Sequence[Result], form: Format) -> str:
    """Return the closing table in a form for documents or programs."""
    if form in ("md", "tex"):
        table = closing_table(results)
        titles = [str(column.header) for column in table.columns]
        rows = list(zip(*([*map(str, column.cells)] for column in table.columns), strict=True))
        return (formats.as_markdown if form == "md" else formats.as_latex)(titles, rows)
    if form == "csv":
        splits = dict.fromkeys(split for result in results for split in result.scores)
        of_all = {(s, key): run for s in splits for key, run in _units(results, s).items()}
        return formats.as_csv([record for r in results for record in _records(r, of_all)])
    units = _units(results, "test")
    normalised = {key: NORMALISED_AVERAGE(run) for key, run in units.items()}
    return formats.as_json(
        [listed(r) | {"normalised_average": normalised.get(r.key)} for r in results]
    )


def _records(result: Result, units: Mapping[tuple[str, str], Scored]) -> Iterator[dict[str, Any]]:
    """Yield a record for each number of a run: its last scores, and what they come to."""
    named = ("key", "strategy", "variant", "seed", "fraction", "status")
    facts = {name: getattr(result, name) for name in named}
    for split, rows in result.scores.items():
        if not rows:  # it was cut off in its first task
            continue
        last = dict(zip(result.tasks, rows[-1], strict=True))
        run = units.get((split, result.key))
        shares = {
            "normalised average": _either(NORMALISED_AVERAGE, run),
            "normalised forgetting": _either(FORGETTING, run),
        }
        for metric, value in {**last, **result.summary(split), **shares}.items():
            if value is not None:
                better = "lower" if "forgetting" in metric else "higher"
                yield {**facts, "split": split, "metric": metric, "better": better, "value": value}
    sizes = result.parameters["total"]
    spent = {"CPU-s": sum(cost.cpu_seconds for cost in result.costs)}
    for metric, value in (({"parameters": sizes[-1]} if sizes else {}) | spent).items():
        yield {**facts, "split": None, "metric": metric, "better": "lower", "value": value}


def listed(result: Result) -> dict[str, Any]:
    """Return what programs are promised of a result."""
    named = ("key", "strategy", "seed", "fraction", "variant", "status", "tasks")
    return {
        **{name: getattr(result, name) for name in named},
        "scores": result.matrix("test"),
        **result.summary("test"),
        "parameters": result.parameters,
        "seconds": result.seconds,
        "error": result.error.message if result.error else None,
    }
