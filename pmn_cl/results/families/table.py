"""Strategies by question family, from results alone: the floor first, the ceiling last.

The floor of a family is the best constant answer to it. The ceiling is what executing the stored
programs comes to, where a run of that is there. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Interval, as_plus_minus, interval

KINDS = ("family", "relation")  # a metric that is a family's begins with one of these
CEILING = "executor"
FLOOR = "floor: best constant for each"


@dataclass(frozen=True)
class FamilyTable:
    """The last scores of a task by question family, over seeds."""

    task: str
    kind: str  # of families: one of KINDS
    families: list[str]
    floor: dict[str, float]  # by family; empty in older records
    lines: dict[str, dict[str, Interval]]  # by strategy, by family

    def rows(self) -> list[list[str]]:
        """Return the lines as text, the strategy first."""
        floor = [f"{self.floor[name]:.3f}" if name in self.floor else "" for name in self.families]
        lines = [
            [strategy, *(as_plus_minus(found.get(name)) for name in self.families)]
            for strategy, found in self.lines.items()
        ]
        return [[FLOOR, *floor], *lines] if self.floor else lines


def family_tables(results: Sequence[Result], split: str = "test") -> list[FamilyTable]:
    """Return a table for each task whose samples are of question families."""
    done = [result for result in results if result.status == "completed"]
    done.sort(key=lambda result: result.strategy == CEILING)  # stable: the others as they come
    tasks = dict.fromkeys(task for result in done for task in result.tasks)
    found = [_table(done, task, kind, split) for task in tasks for kind in KINDS]
    return [table for table in found if table.families]


def _table(done: Sequence[Result], task: str, kind: str, split: str) -> FamilyTable:
    values: dict[str, dict[str, list[float]]] = {}
    for result in done:
        for family, score in last_scores(result, task, kind, split).items():
            values.setdefault(result.name, {}).setdefault(family, []).append(score)
    floors = (result.floors[task] for result in done if task in result.floors)
    return FamilyTable(
        task,
        kind,
        list(dict.fromkeys(family for scores in values.values() for family in scores)),
        next((floor.scores.get(split, {}) for floor in floors), {}),
        {
            name: {family: interval(some) for family, some in scores.items()}
            for name, scores in values.items()
        },
    )


def last_scores(result: Result, task: str, kind: str, split: str = "test") -> dict[str, float]:
    """Return a task's scores by family after the whole stream."""
    rows = result.secondary.get(split) or [{}]
    return of_kind(rows[-1].get(task, {}), kind)


def of_kind(metrics: dict[str, float], kind: str) -> dict[str, float]:
    """Return the metrics that are families', by family."""
    begin = f"{kind} "
    return {k.removeprefix(begin): v for k, v in metrics.items() if k.startswith(begin)}
