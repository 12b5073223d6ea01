"""One task learned from less and less of its data, beside the paper's Table 6."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pmn_cl.results.low_data import Gain, gains
from pmn_cl.results.paper import FRACTIONS, GAINS
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus, interval
from reports.blocks import (
    CUT,
    Block,
    Figure,
    Missing,
    Row,
    Section,
    Table,
    keys,
    last_values,
    number,
    point,
)
from reports.folder import Gathered
from reports.svg import PlotPanel, Point, Series, SeriesStyle, lines

_PAPERS, _PAPERS_TASK = SeriesStyle(6, "the paper"), "vqa"
_SPLITS = ("test", "novel")


def low_data(found: Gathered) -> Section:
    """Show the gain over the base at every fraction, and the scores behind it."""
    blocks: list[Block] = []
    for some in _swept(found.sweep):
        blocks += _figures(found, some)
    if not blocks:
        blocks.append(Missing("No sweep has been run yet.", found.commands("sweep")))
    return Section("low-data", "Low data", blocks)


def _swept(results: Sequence[Result]) -> list[list[Result]]:
    """Return sweeps that have task, data and budget in common."""
    found: dict[Hashable, list[Result]] = {}
    for result in results:
        found.setdefault((tuple(result.tasks), result.data, result.budget), []).append(result)
    return list(found.values())


def _figures(found: Gathered, some: list[Result]) -> list[Block]:
    task = some[0].tasks[-1]
    of_split = {split: gains([r for r in some if r.scores.get(split)], split) for split in _SPLITS}
    blocks: list[Block] = []
    if any(of_split.values()):
        blocks.append(_gain(found, task, of_split))
    else:
        said = f"No two strategies were swept over {task} with the same seed: no gain to show."
        blocks.append(Missing(said, found.commands("sweep")))
    blocks.append(_scores(found, task, some))
    return blocks


def _gain(found: Gathered, task: str, of_split: dict[str, list[Gain]]) -> Figure:
    published = [Point(gain, x=at) for at, gain in zip(FRACTIONS, GAINS, strict=True)]
    panels, data = [], []
    drawn: list[Series] = []
    for split, some in of_split.items():
        if not some:
            continue
        series = []
        for other in dict.fromkeys(gain.over for gain in some):
            points = [point(g.pair.difference, g.fraction) for g in some if g.over == other]
            over = SeriesStyle(found.looks[other].number, f"over {found.label(other)}")
            series.append(Series(over, points))
        if task == _PAPERS_TASK and any(gain.paper is not None for gain in some):
            series.append(Series(_PAPERS, published, strategy=False))
        drawn += series
        said = "; ".join(
            f"{g.fraction:g}% {g.pair.difference.mean:+.3f} over {found.label(g.over)}"
            for g in some
        )
        description = f"Gain of {some[0].strategy} on {task} by percent of its data: {said}."
        title = f"Gain of {some[0].strategy} on {task}, {split}"
        panels.append(_panel(title, description, series, task, "gain in score"))
        data += [_row(found, split, gain) for gain in some]
    columns = [
        "split",
        "over",
        "% of the data",
        "gain",
        "low",
        "high",
        "seeds",
        "p (Holm)",
        "paper",
    ]
    return Figure(
        f"Low data: what is gained on {task} over learning it alone",
        panels,
        Table(f"Gains on {task}", columns, data, 3),
        found.commands("sweep"),
        "Differences paired by seed with 95% intervals; a line for each strategy that it is "
        "compared with. The paper's curve (Table 6) is on VQA 2.0, over its base: compare shapes, "
        "not heights." + CUT,
        key=keys(*drawn),
    )


def _row(found: Gathered, split: str, gain: Gain) -> Row:
    cells = [split, found.label(gain.over), f"{gain.fraction:g}"]
    cells += [number(value, "+.4f") for value in gain.pair.difference]
    cells += [str(gain.pair.seeds), number(gain.p), number(gain.paper, "+.4f")]
    return Row(cells, found.number(gain.over))


def _scores(found: Gathered, task: str, some: Sequence[Result]) -> Figure:
    panels, data = [], []
    drawn: list[Series] = []
    for split in _SPLITS:
        series: list[Series] = []
        for name in dict.fromkeys(result.strategy for result in some):
            means = _finals([r for r in some if r.strategy == name], split)
            points = [point(mean, fraction) for fraction, mean in means.items()]
            if points:
                series.append(Series(found.looks[name], points))
            for fraction, mean in means.items():
                cells = [split, found.label(name), f"{fraction:g}", as_plus_minus(mean)]
                data.append(Row(cells, found.number(name)))
        drawn += series
        if series:
            last = last_values(series)
            description = f"Score on {task} by percent of its data; with most of it: {last}."
            title = f"{task}, {split}"
            panels.append(_panel(title, description, series, task, "score", band=True))
    columns = ["split", "strategy", "% of the data", "score"]
    return Figure(
        f"Low data: scores on {task}",
        panels,
        Table(f"Scores on {task} by fraction", columns, data, 3),
        found.commands("sweep"),
        "Mean over seeds with 95% intervals. All other tasks have the data they always have." + CUT,
        key=keys(*drawn),
    )


def _panel(
    title: str,
    description: str,
    series: Sequence[Series],
    task: str,
    y_label: str,
    *,
    band: bool = False,
) -> PlotPanel:
    return lines(
        *(title, description, series),
        x_label=f"% of {task}'s training data",
        y_label=y_label,
        band=band,
        log=True,
        ticks=FRACTIONS,
    )


def _finals(some: Sequence[Result], split: str) -> dict[float, Interval]:
    """Return the last score on the last task over seeds, by fraction."""
    at: dict[float, list[float]] = {}
    for result in sorted(some, key=lambda result: result.fraction):
        last = result.matrix(split)[-1][-1]
        if last is not None:
            at.setdefault(result.fraction, []).append(last)
    return {fraction: interval(values) for fraction, values in at.items()}
