"""Which question families a run has not learned: they stay where a constant answer is. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pmn_cl.results.families.table import KINDS, of_kind
from pmn_cl.results.result import Epoch, Result

NEAR = 0.03  # so far above its floor a family may be and still count as not learned
AFTER = 1 / 3  # of a task's training
_LINES = 12  # at most, below a table
_FEW = 3  # families of a task that get a line each


class AtFloor(NamedTuple):
    """A question family that a run has not learned."""

    kind: str  # "family", or "relation"
    family: str
    score: float  # at the last validation
    floor: float
    mass: float | None  # attention on what its questions are about, where that was seen
    uniform: float | None  # what looking anywhere would have of it


def families_at_floor(
    curve: Sequence[Epoch], floor: dict[str, float], near: float = NEAR, after: float = AFTER
) -> list[str]:
    """Return the families that are at their floor at every validation after a part of training.

    At its floor is what is not above it by more than ``near``. Without validation none is.
    """
    if not curve:
        return []
    late = [epoch for epoch in curve if epoch.step >= after * curve[-1].step]
    return [
        family
        for family in curve[-1].families
        if family in floor
        and all(epoch.families.get(family, 1.0) <= floor[family] + near for epoch in late)
    ]


def at_floor(result: Result, task: str) -> list[AtFloor]:
    """Return the families of a task that a run has not learned, by validation and, then, by test.

    Test is that of right after the task was learned: what was forgotten later had been learned.
    """
    curve, floors = result.curves.get(task, []), result.floors.get(task)
    if floors is None:
        return []
    found = []
    for family in families_at_floor(curve, floors.scores.get("val", {})):
        kind, tested = _tested(result, task, family)
        limit = floors.scores.get("test", {}).get(family, 1.0) + NEAR
        if tested is None or tested <= limit:
            score, floor = curve[-1].families[family], floors.scores["val"][family]
            mass, uniform = curve[-1].mass.get(family), floors.mass.get(family)
            found.append(AtFloor(kind, family, score, floor, mass, uniform))
    return found


def _tested(result: Result, task: str, family: str) -> tuple[str, float | None]:
    """Return the kind of family, and its score on test right after its task was learned."""
    rows = result.secondary.get("test") or [{}]
    metrics = rows[min(result.tasks.index(task), len(rows) - 1)].get(task, {})
    kinds = (kind for kind in KINDS if family in of_kind(metrics, kind))
    kind = next(kinds, KINDS[0])
    return kind, of_kind(metrics, kind).get(family)


def said_at_floor(results: Sequence[Result], most: int | None = _LINES) -> Iterator[str]:
    """Yield which families runs have not learned; at most so many lines, and how many more.

    Of a task with many of them, one line has all.
    """
    lines = [
        f"{result.name}, seed {result.seed}: {task} {said}"
        for result in results
        for task in result.tasks
        for said in _said(at_floor(result, task))
    ]
    yield from lines[:most]
    if most is not None and len(lines) > most:
        yield f"… and {len(lines) - most} more: `pmn-bench report` shows all by question family"


def _said(found: Sequence[AtFloor]) -> Iterator[str]:
    if len(found) <= _FEW:
        yield from map(_said_of_one, found)
        return
    each = ", ".join(f"{one.family} {one.score:.2f} ({_beside(one)})" for one in found)
    yield (
        f"has {len(found)} families at their floor or below, each with its score (constant; "
        f"attention on what it asks about, uniform): {each}"
    )


def _beside(found: AtFloor) -> str:
    seen = [f"{value:.2f}" for value in (found.mass, found.uniform) if value is not None]
    return "; ".join([f"{found.floor:.2f}", *([", ".join(seen)] if seen else [])])


def _said_of_one(found: AtFloor) -> str:
    where = "below" if found.score < found.floor - NEAR else "at"
    said = f"{found.kind} {found.family!r} is {where} its floor "
    said += f"({found.score:.2f}; constant {found.floor:.2f})"
    if found.mass is not None and found.uniform is not None:
        said += f": attention on what it asks about {found.mass:.2f}, uniform {found.uniform:.2f}"
    return said
