"""What a score costs: parameters, operations, computing, samples, memory."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from pmn_cl.results.compare import Comparison
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus
from reports.blocks import CUT, Figure, Missing, Row, Section, Table, Text, point
from reports.folder import Gathered
from reports.svg import PlotPanel, Series, scatter

_AXES = {
    "parameters": "parameters",
    "operations to learn": "GFLOP to learn",
    "bytes kept": "MB kept",
    "CPU seconds": "CPU s",
}


def cost(found: Gathered) -> Section:
    """Show parameters, operations, bytes and CPU time against score, and who is on each front."""
    comparison = found.comparison("test")
    title = "Parameters and cost against score"
    if comparison is None:
        missing = Missing("No plain run is completed yet.", found.commands("run"))
        return Section("cost", title, [missing])
    what, heights = _heights(comparison)
    amounts = {line.name: _amounts(found.by_name[line.name]) for line in comparison.lines}
    panels, fronts = [], {}
    for of, column in _AXES.items():
        known = {name: a for name, some in amounts.items() if (a := some[column]) is not None}
        if known:
            panels.append(_panel(found, of, what, heights, known))
            fronts[of] = front({n: heights[n].mean for n in heights}, known)
    titles = list(next(iter(amounts.values())))
    columns = ["strategy", what, *titles, "best at its cost by"]
    data = [
        Row(
            [
                found.label(line.name),
                as_plus_minus(heights.get(line.name)),
                *("" if a is None else f"{a:,.0f}" for a in amounts[line.name].values()),
                ", ".join(of for of, names in fronts.items() if line.name in names),
            ],
            found.number(line.name),
        )
        for line in comparison.lines
    ]
    figure = Figure(
        f"What a whole run takes against the {what}",
        panels,
        Table("What a run takes, mean over seeds", columns, data),
        found.commands("run"),
        "Up and to the left is better; the lower axis grows by factors, and has no place for what "
        "has no parameters. Bars are 95% intervals over seeds. CPU time depends on the machine; "
        "modules that were taken from other runs count as if learned. Operations are matrix "
        "products, convolutions and attention, two for each product that is added up; each result "
        "lists what else was carried out. Best at its cost is what no other strategy beats with as "
        "little: the Pareto front." + CUT + found.not_drawn,
    )
    others = {name for r in found.field for name in r.work.uncounted}
    uncounted = f"Carried out, and not counted as operations: {', '.join(sorted(others))}."
    return Section("cost", title, [figure, *([Text(uncounted)] if others else [])])


def _heights(comparison: Comparison) -> tuple[str, dict[str, Interval]]:
    """Return the measure to hold costs against: what mixes no units, where it is there."""
    found: dict[str, Interval] = {}
    for measure in ("normalised average", "average"):
        known = ((line.name, line.measures[measure]) for line in comparison.lines)
        found = {name: value for name, value in known if value is not None}
        if found:
            break
    return measure, found


def _amounts(some: list[Result]) -> dict[str, float | None]:
    """Return what a run takes, mean over seeds; None where older records do not say it."""
    learned = [[n for n in r.work.learned if n is not None] for r in some]
    counted = all(r.costs and len(n) == len(r.costs) for n, r in zip(learned, some, strict=True))
    kept = [sum(sizes[-1] for sizes in r.work.bytes.values()) for r in some if r.work.bytes]
    return {
        "parameters": fmean(result.parameters["total"][-1] for result in some),
        "GFLOP to learn": fmean(map(sum, learned)) / 1e9 if counted else None,
        "MB kept": fmean(kept) / 1e6 if len(kept) == len(some) else None,
        "CPU s": fmean(sum(c.cpu_seconds for c in result.costs) for result in some),
        "learning s": fmean(sum(c.learn_seconds for c in result.costs) for result in some),
        "samples seen": fmean(r.costs[-1].samples_seen if r.costs else 0 for r in some),
        "peak MB": fmean(max((c.learn_peak_bytes for c in r.costs), default=0) for r in some) / 1e6,
    }


def front(heights: Mapping[str, float], amounts: Mapping[str, float]) -> list[str]:
    """Return the names that no other beats with as little: the Pareto front."""
    known = [name for name in heights if name in amounts]
    return [
        name
        for name in known
        if not any(
            heights[other] >= heights[name]
            and amounts[other] <= amounts[name]
            and (heights[other], amounts[other]) != (heights[name], amounts[name])
            for other in known
        )
    ]


def _panel(
    found: Gathered,
    of: str,
    what: str,
    heights: dict[str, Interval],
    amounts: dict[str, float],
) -> PlotPanel:
    series = [
        Series(found.looks[name], [point(height, amounts[name])])
        for name, height in heights.items()
        if name in found.drawn and name in amounts
    ]
    said = "; ".join(f"{s.look.label} {p.y:.3f} with {p.x:,.0f}" for s in series for p in s.points)
    title = f"{what} by {of}"
    return scatter(title, f"{title}: {said}.", series, x_label=of, y_label=what)
