"""The closing table: what runs came to, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from pmn_cl.results.bounds import (
    NORMALISED_MEANS,
    floor_to_ceiling,
    has_top,
    normalised_average,
    tops,
    with_bound,
)
from pmn_cl.results.result import REUSED, REUSED_CPU, Result, leading_split


def closing_table(results: Sequence[Result]) -> Table:
    """Return the final scores of each run, and what it forgot and cost.

    What the best constant answer scores stands first, also where no run gives it.
    """
    split = leading_split(results)
    table = Table(box=None, header_style="bold", title=f"{split}, after the whole stream")
    tasks = list(dict.fromkeys(task for result in results for task in result.tasks))
    for title in ("strategy", "seed", *tasks, "average", "forgetting", "parameters", "CPU-s"):
        table.add_column(title, justify="left" if title == "strategy" else "right")
    if not any(result.bound == "floor" for result in results):
        floor = _constant(results, split)
        if floor:
            table.add_row("constant answer (floor)", "", *(number(floor.get(t)) for t in tasks))
    for result in floor_to_ceiling(results):
        rows = result.scores.get(split) or [[None] * len(result.tasks)]
        last = dict(zip(result.tasks, rows[-1], strict=True))
        summary = result.summary(split)
        size = result.parameters["total"]
        table.add_row(
            with_bound(result.name, result.bound),
            str(result.seed),
            *(number(last.get(task)) for task in tasks),
            number(summary["average"]),
            number(summary["forgetting"]),
            f"{size[-1]:,}" if size else "",
            f"{sum(cost.cpu_seconds for cost in result.costs):.0f}",
        )
    return table


def normalised_table(results: Sequence[Result]) -> Table | None:
    """Return how far each run came between floor and ceiling, and its vqa by type of answer.

    None where a task has neither a ceiling nor joint training to be measured by.
    """
    split = leading_split(results)
    kinds = dict.fromkeys(k for r in results for k in _answer_types(r, split))
    table = Table(box=None, header_style="bold", title=f"{split}: {NORMALISED_MEANS}")
    for name in ("strategy", "seed", "normalised average", *(f"vqa, {kind}" for kind in kinds)):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    found, top = False, tops(results, split)
    for result in floor_to_ceiling(results):
        if not result.scores.get(split) or not has_top(result, top):
            continue
        share = normalised_average(result, split, top) if result.competes else None
        found = found or share is not None
        by_type = _answer_types(result, split)
        table.add_row(
            with_bound(result.name, result.bound),
            str(result.seed),
            number(share),
            *(number(by_type.get(kind)) for kind in kinds),
        )
    return table if found else None


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
