"""What a score costs: parameters, computing, samples, memory."""

from __future__ import annotations

from statistics import fmean

from pmn_cl.results.compare import Comparison
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus
from reports.blocks import CUT, Figure, Missing, Row, Section, Table, point
from reports.folder import Gathered
from reports.svg import PlotPanel, Series, scatter


def cost(found: Gathered) -> Section:
    """Show parameters and CPU time against score."""
    comparison = found.comparison("test")
    title = "Parameters and cost against score"
    if comparison is None:
        missing = Missing("No plain run is completed yet.", found.commands("run"))
        return Section("cost", title, [missing])
    what, heights = _heights(comparison)
    amounts = {line.name: _amounts(found.by_name[line.name]) for line in comparison.lines}
    panels = [
        _panel(found, of, what, heights, {name: some[n] for name, some in amounts.items()})
        for n, of in enumerate(("parameters", "CPU seconds"))
    ]
    columns = ["strategy", what, "parameters", "CPU s", "learning s", "samples seen", "peak MB"]
    data = [
        Row(
            [found.label(line.name), as_plus_minus(heights.get(line.name))]
            + [f"{amount:,.0f}" for amount in amounts[line.name]],
            found.number(line.name),
        )
        for line in comparison.lines
    ]
    figure = Figure(
        f"Parameters and CPU time of a whole run against the {what}",
        panels,
        Table("What a run takes, mean over seeds", columns, data),
        found.commands("run"),
        "Up and to the left is better; the lower axis grows by factors, and has no place for what "
        "has no parameters. Bars are 95% intervals over seeds. CPU time depends on the machine; "
        "modules that were taken from other runs count as if learned." + CUT + found.not_drawn,
    )
    return Section("cost", title, [figure])


def _heights(comparison: Comparison) -> tuple[str, dict[str, Interval]]:
    """Return the measure to hold costs against: what mixes no units, where it is there."""
    found: dict[str, Interval] = {}
    for measure in ("normalised average", "average"):
        known = ((line.name, line.measures[measure]) for line in comparison.lines)
        found = {name: value for name, value in known if value is not None}
        if found:
            break
    return measure, found


def _amounts(some: list[Result]) -> tuple[float, ...]:
    """Return parameters, CPU and learning seconds, samples seen and peak memory of a run."""
    return (
        fmean(result.parameters["total"][-1] for result in some),
        fmean(sum(c.cpu_seconds for c in result.costs) for result in some),
        fmean(sum(c.learn_seconds for c in result.costs) for result in some),
        fmean(result.costs[-1].samples_seen if result.costs else 0 for result in some),
        fmean(max((c.learn_peak_bytes for c in r.costs), default=0) for r in some) / 1e6,
    )


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
        if name in found.drawn
    ]
    said = "; ".join(f"{s.look.label} {p.y:.3f} with {p.x:,.0f}" for s in series for p in s.points)
    title = f"{what} by {of}"
    return scatter(title, f"{title}: {said}.", series, x_label=of, y_label=what)
