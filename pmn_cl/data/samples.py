"""The samples of one task in one split, and how a fraction of them is chosen. No torch here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.data.store import ENVIRONMENT, SCENES, Store
from pmn_cl.errors import UserError
from pmn_cl.tasks.base import Task

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Which rows of a task's table are used; columns are read when they are asked for.

    Further samples may be ``added`` behind them, as columns like the table's, in memory.
    """

    store: Store
    split: str
    task: Task
    rows: Rows
    added: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def whole(cls, store: Store, split: str, task: Task) -> Samples:
        """Return all samples of a split; a table that lacks a column of the task is refused."""
        taken = {*ENVIRONMENT, "scene", "sample", "task"} & {*task.query, *task.target}
        if taken:
            raise UserError(
                f"the task {task.name!r} names a column {', '.join(sorted(taken))}, which every "
                "batch has already; name it otherwise"
            )
        asked = (*task.query, *task.target, *task.scored)
        needed = {SCENES: ENVIRONMENT, task.table_name: ("scene", *asked)}
        for name, columns in needed.items():
            table = store.table(split, name)
            missing = [column for column in columns if column not in table]
            if missing:
                raise UserError(
                    f"{store.path}: the task {task.name!r} needs {', '.join(missing)} in "
                    f"{split}/{name}, which has {', '.join(table)}"
                )
        return cls(store, split, task, np.arange(len(table["scene"])))

    def fraction(self, percent: float, seed: int) -> Samples:
        """Return so many percent of these samples.

        Of the table's and of those added each: which of the table's are chosen depends on no other.
        """
        kinds = self.columns["kind"] if "kind" in self.columns else np.zeros(len(self), np.int64)
        own = choose_fraction(kinds[: len(self.rows)], percent, seed)
        if not self.added:
            return replace(self, rows=self.rows[own])
        chosen = choose_fraction(kinds[len(self.rows) :], percent, seed)
        added = {name: column[chosen] for name, column in self.added.items()}
        return replace(self, rows=self.rows[own], added=added)

    def apart(self, count: int) -> tuple[Samples, Samples]:
        """Return so many of these samples, and the others: the same always."""
        kinds = self.columns["kind"] if "kind" in self.columns else np.zeros(len(self), np.int64)
        chosen = choose(kinds, count, seed=0)
        rest = np.setdiff1d(np.arange(len(self)), chosen)
        return replace(self, rows=self.rows[chosen]), replace(self, rows=self.rows[rest])

    def adding(self, columns: Mapping[str, NDArray[Any]]) -> Samples:
        """Return these samples with others behind them."""
        missing = [name for name in self.columns if name not in columns]
        if missing:
            raise UserError(
                f"samples to be added to {self.task.name!r} lack {', '.join(missing)}; they need "
                f"every column of {self.split}/{self.task.table_name}"
            )
        return replace(self, added=columns)

    def __len__(self) -> int:
        return len(self.rows) + len(self.added.get("scene", ()))

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the columns of these samples, read when used."""
        return _Columns(self)


def digest_of_rows(rows: Rows) -> str:
    """Return a digest of which rows these are."""
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()


def digest_of_samples(samples: Samples) -> str:
    """Return a digest of which samples these are; the store has what they are."""
    whole = hashlib.sha256(np.ascontiguousarray(samples.rows).tobytes())
    for name in sorted(samples.added):
        whole.update(np.ascontiguousarray(samples.added[name]).tobytes())
    return whole.hexdigest()


class _Columns(Mapping[str, NDArray[Any]]):
    """The columns of some rows, as a mapping that reads lazily."""

    def __init__(self, samples: Samples) -> None:
        self._table = samples.store.table(samples.split, samples.task.table_name)
        self._rows, self._added = samples.rows, samples.added

    def __getitem__(self, name: str) -> NDArray[Any]:
        own = np.asarray(self._table[name].array[self._rows])
        return np.concatenate([own, self._added[name]]) if self._added else own

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def choose_fraction(kinds: NDArray[Any], percent: float, seed: int) -> Rows:
    """Choose exactly round(n · percent / 100) of n samples, at least one, in their old order.

    Smaller fractions are part of larger ones, and each kind keeps its share to within about one
    sample: within a kind of m samples, the one drawn k-th stands at (k + ½) / m, and a
    fraction takes the lowest standings. Depends on the seed alone.
    """
    if not 0 < percent <= 100:
        raise UserError(f"a fraction of {percent}%, expected more than 0 and at most 100")
    return choose(kinds, max(1, round(len(kinds) * percent / 100)), seed)


def choose(kinds: NDArray[Any], count: int, seed: int) -> Rows:
    """Choose so many samples, as ``choose_fraction`` does."""
    rng = np.random.default_rng([seed, 0x5A3])
    standing = np.empty(len(kinds))
    for kind in np.unique(kinds):
        of_kind = np.flatnonzero(kinds == kind)
        standing[rng.permutation(of_kind)] = (np.arange(len(of_kind)) + 0.5) / len(of_kind)
    tie_break = rng.permutation(len(kinds))
    return np.sort(np.lexsort((tie_break, standing))[:count])
