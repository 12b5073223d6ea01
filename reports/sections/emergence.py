"""When each task and question family was half-way from its floor to its ceiling."""

from __future__ import annotations

from pmn_cl.results.bounds import has_top, top_of, tops
from pmn_cl.results.measures.emergence import Reached, family_ceilings, reached
from pmn_cl.results.result import Result
from reports.blocks import Missing, Row, Section, Table, Text
from reports.folder import Gathered

_TITLE = "Time to competence"
_HOW = (
    "The first validation at which a task, or a question family, is half-way from what a constant "
    "answer comes to, to what the ceiling does, on test: steps, and CPU seconds of learning the "
    "task until then; by seed, and never where it was not reached."
)


def emergence(found: Gathered) -> Section:
    """Show when learners were half-way, by task and by family."""
    rows = [row for task in found.tasks for row in _rows(found, task)]
    if not rows:
        needed = "It takes learning curves, and runs of executor or joint training to go by."
        return Section("emergence", _TITLE, [Missing(needed, found.commands("run"))])
    names = [name for name in found.by_name if _learners(found, name)]
    columns = ["task", "family", *map(found.label, names)]
    return Section("emergence", _TITLE, [Text(_HOW), Table(_TITLE, columns, rows, 2)])


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
