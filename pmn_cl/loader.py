"""Batches of a task's samples as TensorDicts, read whole rather than sample by sample.

A batch is (x, y): x with the environment (``regions`` (B, N, d), ``boxes`` (B, N, 4) as x1, y1,
x2, y2 in 0 … 1, ``mask`` (B, N), ``scene`` (B,), its number in the store), the task's query and
``sample`` (B,), its place among the samples; y with the task's target and ``task`` (B,), its
label, so that a loss can tell tasks apart in a mixed batch. Whole numbers come as int64 and
floats as float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pmn_cl.samples import Rows, Samples
from pmn_cl.store import ENVIRONMENT, SCENES, MappedArray, Store

MEMORY_LIMIT = 2_000_000_000  # bytes that the scenes of a split may take in memory
READERS = 2  # processes that read ahead, where scenes are read through a memory map
_MAPPED_AT_ONCE = 1 << 28  # bytes read through a map, after which its pages are let go of

Batch = tuple[TensorDict, TensorDict]
# Columns in memory: splits may have their scenes in common.
_loaded: WeakKeyDictionary[MappedArray, Tensor] = WeakKeyDictionary()


def _tensor(array: NDArray[Any]) -> Tensor:
    """Return the array as a tensor of the type that models and losses expect."""
    if array.dtype.kind in "iu":
        return torch.from_numpy(array.astype(np.int64, copy=False))
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32, copy=False))
    return torch.from_numpy(np.ascontiguousarray(array))


def _in_memory(mapped: MappedArray) -> Tensor:
    """Return a whole column, read once however many ask for it."""
    if mapped not in _loaded:
        _loaded[mapped] = _tensor(mapped.load())
    return _loaded[mapped]


class Scenes:
    """The environments of one split, shared by all tasks on it.

    Small worlds are read into memory, large ones through a memory map. ``half`` leaves mapped
    regions in the store's float16: half the bytes to move to a device, which then casts them.
    """

    def __init__(
        self, store: Store, split: str, *, in_memory: bool | None = None, half: bool = False
    ) -> None:
        splits = list(dict.fromkeys([*store.splits, split]))  # one that is never scored comes last
        sizes = [len(store.table(other, SCENES)["mask"]) for other in splits]
        place = splits.index(split)
        self.first, self._count = sum(sizes[:place]), sizes[place]
        self.world = store.digest
        columns = {name: store.table(split, SCENES)[name] for name in ENVIRONMENT}
        as_floats = sum(4 * int(np.prod(mapped.shape)) for mapped in columns.values())
        self.in_memory = as_floats <= MEMORY_LIMIT if in_memory is None else in_memory
        self._half = half
        self._columns: dict[str, Tensor | MappedArray] = {
            name: _in_memory(mapped) if self.in_memory else mapped
            for name, mapped in columns.items()
        }
        self._read = 0  # bytes, since the maps were last let go of

    def __len__(self) -> int:
        return self._count

    def take(self, scenes: Tensor) -> dict[str, Tensor]:
        """Return the environments of these scenes, numbered within the split."""
        taken = {}
        for name, column in self._columns.items():
            if isinstance(column, Tensor):
                taken[name] = column.index_select(0, scenes)
            else:
                rows = column.array[scenes.numpy()]
                as_stored = self._half and name == "regions"
                taken[name] = torch.from_numpy(rows) if as_stored else _tensor(rows)
                self._read += rows.nbytes
        if self._read > _MAPPED_AT_ONCE:  # else an epoch would fill memory with the whole file
            self._forget()
        return taken

    def _forget(self) -> None:
        self._read = 0
        for column in self._columns.values():
            if isinstance(column, MappedArray):
                column.forget()


class Batches(Dataset[Batch]):
    """The samples of a task as a torch data set that takes one index or many at once."""

    def __init__(self, samples: Samples, scenes: Scenes, task_label: int = 0) -> None:
        task, columns = samples.task, samples.columns
        self.scenes = scenes
        self._scene = _tensor(columns["scene"])
        self._query = {name: _tensor(columns[name]) for name in task.query}
        self._target = {name: _tensor(columns[name]) for name in task.target}
        self._target["task"] = torch.full_like(self._scene, task_label)

    def __len__(self) -> int:
        return len(self._scene)

    @property
    def readers(self) -> int:
        """Return how many processes usually read ahead: none, where all is in memory."""
        return 0 if self.scenes.in_memory else READERS

    def holds(self, x: Mapping[str, Tensor]) -> bool:
        """Whether the samples of a batch are those that have their numbers here."""
        sample = x["sample"].cpu()
        if int(sample.max()) >= len(self):
            return False
        if not torch.equal(self._scene[sample] + self.scenes.first, x["scene"].cpu()):
            return False
        return all(torch.equal(ours[sample], x[name].cpu()) for name, ours in self._query.items())

    def __getitem__(self, index: int | Rows | Tensor) -> Batch:
        """Return one sample, or a batch of samples."""
        if isinstance(index, (int, np.integer)):
            one_x, one_y = self[torch.tensor([index])]
            return one_x[0], one_y[0]
        rows = torch.as_tensor(index)
        scene = self._scene.index_select(0, rows)
        x = self.scenes.take(scene)
        x["scene"] = scene + self.scenes.first
        x["sample"] = rows
        for name, column in self._query.items():
            x[name] = column.index_select(0, rows)
        y = {name: column.index_select(0, rows) for name, column in self._target.items()}
        return TensorDict(x, [len(rows)]), TensorDict(y, [len(rows)])


def _as_it_is(batch: Any) -> Any:
    return batch


class BatchLoader:
    """Goes through a task's samples in an order that (seed, epoch) alone decide.

    ``start`` skips that many batches without reading them, to go on where a run was cut.
    ``workers`` processes read ahead; the batches are the same with any number of them. Usually
    nobody needs to: only scenes that are read through a memory map have some.
    """

    def __init__(
        self,
        batches: Batches,
        batch_size: int,
        *,
        seed: int = 0,
        epoch: int = 0,
        start: int = 0,
        shuffle: bool = True,
        workers: int | None = None,
    ) -> None:
        order = np.arange(len(batches))
        if shuffle:
            order = np.random.default_rng([seed, epoch]).permutation(order)
        rows = list(torch.split(torch.from_numpy(order), batch_size))
        if shuffle and len(rows) > 1 and len(rows[-1]) == 1:
            rows[-2:] = [torch.cat(rows[-2:])]  # batch norm cannot learn from one sample
        if not 0 <= start <= len(rows):
            raise ValueError(f"start is {start}, but an epoch has 0 to {len(rows)} batches")
        self._batches, self._workers = batches, batches.readers if workers is None else workers
        self._rows = rows[start:]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Batch]:
        if self._workers == 0:
            return map(self._batches.__getitem__, self._rows)
        # Without a batch size of its own, the DataLoader hands over our rows as they are.
        reader: DataLoader[Batch] = DataLoader(
            self._batches,
            batch_size=None,
            sampler=self._rows,  # the rows of a whole batch at a time
            num_workers=self._workers,
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # not the one that a run's own draws come from
        )
        return iter(reader)
