"""Strategies by measure: means over seeds with their intervals. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmn_cl.results.measures.catalogue import Measure, Scored, in_context, known_measures
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus, interval


@dataclass(frozen=True)
class MeasureTable:
    """What each measure comes to for each strategy, where it has a value for every seed."""

    split: str
    strategies: list[str]
    lines: list[tuple[Measure, dict[str, Interval]]]

    def rows(self) -> list[list[str]]:
        """Return the lines as text: the measure, what it says, then a cell for each strategy."""
        return [
            [
                f"{measure.name} ({'↑' if measure.better == 'higher' else '↓'})",
                measure.says,
                *(as_plus_minus(found.get(name)) or "-" for name in self.strategies),
            ]
            for measure, found in self.lines
        ]


def measure_table(results: Sequence[Result], split: str) -> MeasureTable:
    """Return all measures that any strategy has; floor and ceiling learn nothing and are not there.

    They are of runs of the whole stream that share data, as ``compare`` has them.
    """
    runs: dict[str, list[Scored]] = {}
    for scored in in_context(results, split):
        if scored.result.competes:
            runs.setdefault(scored.result.name, []).append(scored)
    lines = []
    for measure in known_measures(results):
        found = {name: over_seeds(measure, some) for name, some in runs.items()}
        known = {name: interval(values) for name, values in found.items() if values}
        if known:
            lines.append((measure, known))
    return MeasureTable(split, list(runs), lines)


def over_seeds(measure: Measure, runs: Sequence[Scored]) -> list[float]:
    """Return a measure by seed; nothing as soon as one seed has none: a mean would be another."""
    values = [measure(run) for run in runs]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
