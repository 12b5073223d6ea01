"""Copies of experiences that notice what is read of them, and refuse what may not be read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmn_cl.data.loader import Batch, Batches
from pmn_cl.data.samples import Rows
from pmn_cl.data.store import ENVIRONMENT, SCENES, MappedArray
from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience
from pmn_cl.strategy.promises import ContractError, Promise

Place = tuple[str, str]  # a split and a table of the store


@dataclass
class Watch:
    """Knows what may be read at the moment, and refuses anything else."""

    doing: str = ""
    allowed: list[Experience] | None = None  # None: anything
    hide: bool = False  # show the targets of the first sample as those of all
    reads: tuple[str, ...] = ()  # columns that are no targets for this strategy
    refused: list[ContractError] = field(default_factory=list)

    @contextmanager
    def only(
        self, doing: str, experiences: list[Experience], *, hide: bool = False
    ) -> Iterator[None]:
        """Let these experiences be read, and no others."""
        self.doing, self.allowed, self.hide = doing, experiences, hide
        try:
            yield
        finally:
            self.allowed, self.hide = None, False
        if self.refused:  # and the strategy made nothing of it
            raise self.refused[0]

    def read(self, place: Place, column: str = "") -> None:
        """Note that something is read."""
        if self.allowed is None or any(
            _is_of(experience, place, column) for experience in self.allowed
        ):
            return
        what = "/".join((*place, column) if column else place)
        how = f"while {self.doing} it read {what}, which it may not"
        if place[0] != "test":
            how += "; one that keeps samples of earlier tasks says so: keeps_data = True"
        self.refused.append(ContractError(Promise.OWN_DATA, how))
        raise self.refused[-1]


def _place(experience: Experience) -> Place:
    return experience.samples.split, experience.task.table_name


def _is_of(experience: Experience, place: Place, column: str) -> bool:
    """Whether a column belongs to an experience: its samples, and what there is to see."""
    split, table = _place(experience)
    return place == (split, table) or (place == (split, SCENES) and column in ENVIRONMENT)


class _WatchedBatches(Batches):
    """Batches that report when they are read."""

    watch: Watch
    place: Place

    @property
    def readers(self) -> int:
        """None: what is read ahead may not be what is allowed by then."""
        return 0

    def __getitem__(self, index: int | Rows | Tensor) -> Batch:
        self.watch.read(self.place)
        x, y = super().__getitem__(index)
        if self.watch.hide and y.batch_dims:  # a single sample comes out of a batch, and is done
            _, y = super().__getitem__(torch.zeros(len(y), dtype=torch.int64))
        return x, y


class _WatchedArray(MappedArray):
    """A column of the store that reports when it is read."""

    def __init__(self, column: MappedArray, watch: Watch, place: Place, name: str) -> None:
        super().__init__(column.path, column.offset, column.shape, column.dtype)
        self._watch, self._place, self._name = watch, place, name
        self.is_target = False

    @property
    def array(self) -> NDArray[Any]:
        self._watch.read(self._place, self._name)
        whole = super().array
        hide = self._watch.hide and self.is_target and self._name not in self._watch.reads
        return np.broadcast_to(whole[:1], whole.shape) if hide else whole

    def blocks(self, most: int = 1 << 24) -> Iterator[bytes]:
        self._watch.read(self._place, self._name)
        return super().blocks(most)

    def read(self, rows: Rows, into: NDArray[Any]) -> None:
        self._watch.read(self._place, self._name)
        super().read(rows, into)


def watched(
    experiences: Mapping[str, Sequence[Experience]], watch: Watch
) -> tuple[list[Experience], list[Experience], list[Experience]]:
    """Return copies of the experiences of training, validation and test that are watched."""
    missing = [split for split in ("train", "val", "test") if split not in experiences]
    if missing:
        raise UserError(f"no experiences of {', '.join(missing)}, expected train, val and test")
    # All in one go: experiences share a store, and know of each other.
    streams = copy.deepcopy([list(experiences[split]) for split in ("train", "val", "test")])
    tasks = [[experience.task.name for experience in stream] for stream in streams]
    if len(tasks[0]) < 2 or not tasks[0] == tasks[1] == tasks[2]:
        raise UserError(
            f"experiences of {tasks}, expected the same tasks in training, validation and test, "
            "two or more of them"
        )
    everything = [experience for stream in streams for experience in stream]
    for store in {
        id(experience.samples.store): experience.samples.store for experience in everything
    }.values():
        for split in store.splits:
            for table in (SCENES, *store.tasks(split)):
                columns = store.table(split, table)
                for name, column in columns.items():
                    columns[name] = _WatchedArray(column, watch, (split, table), name)
    for experience in everything:
        samples, batches = experience.samples, experience.batches
        for name, column in samples.store.table(*_place(experience)).items():
            assert isinstance(column, _WatchedArray)
            column.is_target = name not in ("scene", *experience.task.query)
        # In its place, as Avalanche's data set of the experience reads the same batches.
        kind: Any = type("Watched", (_WatchedBatches, type(batches)), {})
        batches.__class__ = kind
        assert isinstance(batches, _WatchedBatches)
        batches.watch, batches.place = watch, _place(experience)
    train, val, test = streams
    return train, val, test
