"""Curricula: which of a task's samples are learned from first. No torch here.

A curriculum belongs to the stream, so that it is the same for every strategy.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pmn_cl.data.samples import Rows, Samples
from pmn_cl.data.store import SCENES
from pmn_cl.errors import UserError, did_you_mean

Curriculum = tuple[tuple[float, Rows], ...]  # until which percent, which samples are learned from
_THINGS = "thing_box"  # of the scenes: a box for each object, -1 where there is none


class Stage(Protocol):
    """A part of a task's training that leaves out what is hard, as a stream's YAML says it."""

    until: float  # percent of the task's steps at which it ends
    without: list[str]  # question families
    most_operations: int | None  # of a question's program
    most_objects: int | None  # of a scene


def rows_of_stage(samples: Samples, stage: Stage) -> Rows:
    """Return which of the samples a stage leaves; refuse one that leaves none."""
    kept = np.ones(len(samples), dtype=bool)
    if stage.without:
        column, families = _families(samples)
        numbers = [_number(name, families, samples) for name in stage.without]
        kept &= ~np.isin(_column(samples, column), numbers)
    if stage.most_operations is not None:
        kept &= operations(_column(samples, "program")) <= stage.most_operations
    if stage.most_objects is not None:
        kept &= _objects(samples)[samples.columns["scene"]] <= stage.most_objects
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise UserError(
            f"curriculum of {samples.task.name!r}: the stage until {stage.until:g}% leaves none of "
            f"{len(samples)} training samples"
        )
    return rows


def operations(programs: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many operations each program has, one for each bracket that opens."""
    return np.char.count(programs.astype(bytes), b"(").astype(np.int64)


def _objects(samples: Samples) -> NDArray[np.int64]:
    """Return how many objects each scene has."""
    table = samples.store.table(samples.split, SCENES)
    if _THINGS not in table:
        raise UserError(
            f"curriculum of {samples.task.name!r}: {samples.store.path} does not say how many "
            "objects a scene has; leave `most_objects` out"
        )
    boxes = np.asarray(table[_THINGS].array[:])
    return np.asarray((boxes[:, :, 0] >= 0).sum(axis=1), dtype=np.int64)


def _column(samples: Samples, name: str) -> NDArray[Any]:
    if name not in samples.columns:
        raise UserError(
            f"curriculum of {samples.task.name!r}: its samples have no {name}; they have "
            f"{', '.join(samples.columns)}"
        )
    return samples.columns[name]


def _families(samples: Samples) -> tuple[str, list[str]]:
    """Return the column that numbers the families of a task's samples, and their names."""
    if samples.task.family is None:
        raise UserError(
            f"curriculum of {samples.task.name!r}: its samples are of no families; leave `without` "
            "out"
        )
    column, names = samples.task.family
    return column, list(samples.store.names.get(names, []))


def _number(name: str, families: list[str], samples: Samples) -> int:
    if name not in families:
        raise UserError(
            f"curriculum of {samples.task.name!r}: unknown family {name!r}, expected one "
            f"of {', '.join(families) or 'none: the world has no families'}"
            f"{did_you_mean(name, families)}"
        )
    return families.index(name)
