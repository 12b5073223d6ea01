"""Which module is called, by kind of question: the gates of modules that call others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus, interval
from reports.blocks import Block, Figure, Missing, Row, Section, Table
from reports.folder import Gathered
from reports.svg import PlotPanel, heat, scale

GATE = "gate "  # begins the names of what is recorded of gates
_ALL = "all questions"


def gates(found: Gathered) -> Section:
    """Show the mean gate of every callee, for all questions and by kind."""
    blocks: list[Block] = []
    for task in found.tasks:
        used = {name: _usage(some, task) for name, some in found.by_name.items()}
        used = {name: usage for name, usage in used.items() if usage}
        if used:
            blocks.append(_figure(found, task, used))
    if not blocks:
        blocks.append(Missing(_NONE, found.commands("run")))
    return Section("gates", "Which module is asked", blocks)


_NONE = "No completed run has a record of its gates; `pmn` does, unless it is an older result."

Usage = Mapping[str, Mapping[str, Interval]]  # by kind of question, by callee


def _usage(some: Sequence[Result], task: str) -> Usage:
    """Return the mean gates on test over seeds."""
    values: dict[str, dict[str, list[float]]] = {}
    for result in some:
        rows = result.secondary.get("test") or [{}]
        for metric, value in rows[-1].get(task, {}).items():
            if metric.startswith(GATE):
                callee, _, kind = metric.removeprefix(GATE).partition(", ")
                values.setdefault(kind or _ALL, {}).setdefault(callee, []).append(value)
    return {
        kind: {callee: interval(given) for callee, given in callees.items()}
        for kind, callees in values.items()
    }


def _figure(found: Gathered, task: str, used: Mapping[str, Usage]) -> Figure:
    data = [
        Row([found.label(name), kind, callee, as_plus_minus(mean)], found.number(name))
        for name, usage in used.items()
        for kind, callees in usage.items()
        for callee, mean in callees.items()
    ]
    return Figure(
        f"M_{task}: which module it asks, by kind of question",
        [_panel(found, name, task, usage) for name, usage in used.items() if name in found.drawn],
        Table(f"Gates of M_{task}", ["strategy", "questions", "module", "gate"], data, 3),
        found.commands("run"),
        "Mean gate (importance G) over questions of test, steps and seeds. Ω attends to the image "
        "itself, Δ is the module's own residual. The paper's M_vqa has two groups of gates, each "
        "of which adds up to 1: where to look (Ω, rel), and what is known of it (the others).",
        scale("Scale of all heat maps of gates", "0", "1"),
    )


def _panel(found: Gathered, name: str, task: str, usage: Usage) -> PlotPanel:
    callees = list(dict.fromkeys(callee for some in usage.values() for callee in some))
    values = [
        [some[callee].mean if callee in some else None for callee in callees]
        for some in usage.values()
    ]
    said = []
    for kind, some in usage.items():
        most = max(some, key=lambda callee: some[callee].mean)
        said.append(f"{kind}: most {most}, {some[most].mean:.2f}")
    title = f"{found.label(name)}, M_{task}"
    description = f"Mean gate by module and kind of question. {'; '.join(said)}."
    number = found.number(name)
    return heat(title, description, list(usage), callees, values, values, strategy=number)
