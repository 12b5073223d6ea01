"""How soon a task is learned: from the scores at its validations, by question family, too.

The measure of learning speed: when a learner is half-way between floor and ceiling. No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pmn_cl.results.families.table import of_kind
from pmn_cl.results.result import Epoch, Result
from pmn_cl.results.scores import learning_curve_area

HALF = 0.5  # of the way from floor to ceiling


class Reached(NamedTuple):
    """When a task or a family was so far."""

    step: int
    cpu_seconds: float | None  # of learning the task; None where its cost is not known


def first_step(curve: Sequence[tuple[int, float]], goal: float) -> int | None:
    """Return the step of the first validation (step, score) that is at the goal or above it."""
    return next((step for step, score in curve if score >= goal), None)


def reached(
    result: Result, task: str, floor: float, ceiling: float, family: str | None = None
) -> Reached | None:
    """Return when a run was half-way on a task, or on one of its question families; None: never."""
    curve = result.curves.get(task, [])
    step = first_step(points(curve, family), floor + HALF * (ceiling - floor))
    return None if step is None else Reached(step, cpu_seconds_at(result, task, step))


def points(curve: Sequence[Epoch], family: str | None = None) -> list[tuple[int, float]]:
    """Return step and score of each validation that has one."""
    if family is None:
        return [(epoch.step, epoch.score) for epoch in curve]
    return [(epoch.step, epoch.families[family]) for epoch in curve if family in epoch.families]


def cpu_seconds_at(result: Result, task: str, step: int) -> float | None:
    """Return the CPU-seconds that learning a task had taken at a step, if all steps took as long.

    Where all tasks are learned at once, those of all of them.
    """
    curve, at_once = result.curves.get(task, []), len(result.costs) == 1
    place = 0 if at_once else result.tasks.index(task)
    if not curve or place >= len(result.costs):
        return None
    cost = result.costs[place]
    spent = cost.learn_seconds + cost.evaluate_seconds
    learning = cost.cpu_seconds * (cost.learn_seconds / spent if spent else 1.0)
    return learning * step / curve[-1].step


def area(curve: Sequence[Epoch], floor: float, ceiling: float) -> float | None:
    """Return the area under a learning curve between floor (0) and ceiling (1).

    Over training from its beginning, at the floor, to its last validation. Higher is better.
    """
    if not curve or ceiling <= floor:
        return None
    heights = [0.0, *((epoch.score - floor) / (ceiling - floor) for epoch in curve)]
    return learning_curve_area(heights, [0.0, *(float(epoch.step) for epoch in curve)])


def family_ceilings(results: Sequence[Result], split: str, task: str) -> Mapping[str, float]:
    """Return what the ceiling comes to on each family of a task: mean over its runs."""
    found: dict[str, list[float]] = {}
    for result in results:
        if result.bound == "ceiling" and result.secondary.get(split):
            metrics = result.secondary[split][-1].get(task, {})
            for family, score in of_kind(metrics, "family").items():
                found.setdefault(family, []).append(score)
    return {family: sum(scores) / len(scores) for family, scores in found.items()}
