"""Who may ask whom: the module graph of the paper's Figure 1, for this stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import escape

from pmn_cl.results.result import Result
from reports.blocks import Figure, Missing, Row, Section, Table
from reports.folder import Gathered
from reports.svg import PlotPanel, clipped

_WIDE, _TALL, _BOX = 92.0, 56.0, (76.0, 40.0)


def graph(found: Gathered) -> Section:
    """Draw the modules of the stream with their call lists."""
    title = "Module graph"
    calls = next((lists for r in [*found.field, *found.done] if (lists := call_lists(r))), {})
    if not calls:
        missing = Missing("No completed run says which tasks call which.", found.commands("run"))
        return Section("graph", title, [missing])
    levels = _levels(calls)
    rows = [
        Row([f"M_{task}", str(levels[task]), _kind(some), ", ".join(f"M_{c}" for c in some)])
        for task, some in calls.items()
    ]
    figure = Figure(
        "Who may ask whom: the computation graph of PMN (the paper's Figure 1) for this stream",
        [_panel(calls, levels)],
        Table("Call lists, in order", ["module", "level", "kind", "calls"], rows),
        found.commands("run"),
        "Green: terminal modules, which ask nobody. Yellow: compositional ones. Solid blue: a "
        "call, numbered by its place in the caller's list; dashed red: the answer. Modules stand "
        "in the order in which they are learned, the first at the lower left.",
    )
    return Section("graph", title, [figure])


def call_lists(result: Result) -> dict[str, list[str]]:
    """Return what each module of a run may call, as its record has it."""
    found: dict[str, list[str]] = {}
    for item in result.run.stream.tasks:
        found[item.task] = [name for name in item.calls or () if name in found]
    return found


def _levels(calls: Mapping[str, Sequence[str]]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for task, some in calls.items():  # callees come before their callers
        levels[task] = 1 + max((levels[name] for name in some), default=-1)
    return levels


def _kind(calls: Sequence[str]) -> str:
    return "compositional" if calls else "terminal"


def _panel(calls: Mapping[str, Sequence[str]], levels: Mapping[str, int]) -> PlotPanel:
    """Draw a staircase: calls go left from the caller and down onto the callee, past no other."""
    order = list(calls)
    width, height = _WIDE * len(order) + 70, _TALL * len(order) + 10
    centre = {
        task: (_WIDE * (n + 0.5), _TALL * (len(order) - n - 0.5) + 5)
        for n, task in enumerate(order)
    }
    callers = {task: [other for other in order if task in calls[other]] for task in order}
    body = []
    for task in order:
        for place, callee in enumerate(calls[task]):
            shift = callers[callee].index(task) - (len(callers[callee]) - 1) / 2
            across = centre[callee][0] + 14 * shift
            apart = min(9.0, 36 / len(calls[task]))
            along = centre[task][1] + apart * (place - (len(calls[task]) - 1) / 2)
            start, end = centre[task][0] - _BOX[0] / 2, centre[callee][1] - _BOX[1] / 2
            body.append(_call(place + 1, start, along, across, end))
    for task in order:
        body.append(_module(task, calls[task], levels[task], *centre[task]))
    said = "; ".join(
        f"M_{task} calls {', '.join(f'M_{name}' for name in some) or 'nobody'}"
        for task, some in calls.items()
    )
    return PlotPanel("Module graph", f"{said}.", width, height, "".join(body))


def _call(number: int, start: float, along: float, across: float, end: float) -> str:
    """Draw a call and, beside it, the answer."""
    back = across + 3.5
    return (
        f'<path class="call" d="M{start:.1f} {along:.1f}H{across:.1f}V{end - 5:.1f}"/>'
        f'<path class="call-tip" d="M{across:.1f} {end:.1f}l-2.5-6h5z"/>'
        f'<path class="answer" d="M{back:.1f} {end:.1f}V{along + 3:.1f}H{start - 5:.1f}"/>'
        f'<path class="answer-tip" d="M{start:.1f} {along + 3:.1f}l-6-2.5v5z"/>'
        f'<circle class="place" cx="{across:.1f}" cy="{along:.1f}" r="5.5"/>'
        f'<text class="place-text" x="{across:.1f}" y="{along + 3:.1f}" text-anchor="middle">'
        f"{number}</text>"
    )


def _module(task: str, calls: Sequence[str], level: int, x: float, y: float) -> str:
    wide, tall = _BOX
    box = f'x="{x - wide / 2:.1f}" y="{y - tall / 2:.1f}" width="{wide:g}" height="{tall:g}"'
    return (
        f'<rect class="{_kind(calls)}" {box} rx="4"/>'
        f'<text class="module" x="{x:.1f}" y="{y + 1:.1f}" text-anchor="middle">'
        f"M<tspan dy='3'>{escape(clipped(task, 10))}</tspan></text>"
        f'<text class="module small" x="{x:.1f}" y="{y + 15:.1f}" text-anchor="middle">'
        f"level {level}</text>"
    )
