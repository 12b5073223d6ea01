"""Batches of a task's samples as TensorDicts, read whole rather than sample by sample.

A batch is (x, y): x with the environment (``regions`` (B, N, d), ``boxes`` (B, N, 4) as x1, y1,
x2, y2 in 0 … 1, ``mask`` (B, N), ``scene`` (B,), its number in the store), the task's query and
``sample`` (B,), its place among the samples; y with the task's target and ``task`` (B,), its
label, so that a loss can separate tasks in a mixed batch. Whole numbers come as int64 and
floats as float32.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torch import Tensor
from torch.utils.data import Dataset

from pmn_cl.data.samples import Rows, Samples
from pmn_cl.data.store import ENVIRONMENT, SCENES, MappedArray, Store

MEMORY_LIMIT = 2_000_000_000  # bytes that the scenes of a split may take in memory
READERS = 2  # threads that read a batch ahead each, where scenes are not in memory
_CONVERTED_AT_ONCE = 1 << 22  # bytes that a processor's cache holds
_FLOAT = np.dtype(np.float32)

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


class _Recycled:
    """Memory that is not in use any more, for the next batches.

    The system clears memory that it hands out, which takes as long as to read into it.
    """

    def __init__(self, most: int) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=most)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array of anything; its memory comes back when it is dropped.

        A tensor made of it, and all views of that, hold on to it.
        """
        size = math.prod(shape) * dtype.itemsize
        try:
            memory = self._free.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            memory = np.empty(size, np.uint8)
        if len(memory) < size:
            memory = np.empty(size, np.uint8)
        array = memory[:size].view(dtype).reshape(shape)
        finalize(array, self._free.append, memory).atexit = False
        return array


_recycled, _halves = _Recycled(READERS + 1), _Recycled(READERS)


def _read(column: MappedArray, rows: Rows, dtype: np.dtype[Any]) -> Tensor:
    """Return rows of a column of floats as this type.

    Other floats are converted a few rows at a time, while the processor's cache holds them, and by
    torch: it widens halves several times as fast as numpy does.
    """
    whole = _recycled.array((len(rows), *column.shape[1:]), dtype)
    read = torch.from_numpy(whole)
    if dtype == column.dtype:
        column.read(rows, whole)
        return read
    step = max(1, _CONVERTED_AT_ONCE * len(column) // max(1, column.nbytes))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        stored = _halves.array(whole[some].shape, column.dtype)
        column.read(rows[some], stored)
        read[some] = torch.from_numpy(stored)
    return read


def _in_memory(mapped: MappedArray) -> Tensor:
    """Return a whole column, read once however many ask for it."""
    if mapped not in _loaded:
        _loaded[mapped] = _tensor(mapped.load())
    return _loaded[mapped]


class Scenes:
    """The environments of one split, shared by all tasks on it.

    Small worlds are read into memory, large ones from the file as they are asked for. ``half``
    leaves regions in the store's float16: half the bytes to move to a device, which then casts
    them. Several threads may take scenes at once.
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

    def __len__(self) -> int:
        return self._count

    def take(self, scenes: Tensor) -> dict[str, Tensor]:
        """Return the environments of these scenes, numbered within the split."""
        taken = {}
        for name, column in self._columns.items():
            if isinstance(column, Tensor):
                taken[name] = column.index_select(0, scenes)
            elif name == "regions":
                taken[name] = _read(column, scenes.numpy(), column.dtype if self._half else _FLOAT)
            else:
                taken[name] = _tensor(column.array[scenes.numpy()])
        return taken


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
        """Return how many threads usually read ahead: none, where all is in memory."""
        return 0 if self.scenes.in_memory else READERS

    def holds(self, x: Mapping[str, Tensor]) -> bool:
        """Whether the samples of a batch are those that have their numbers here."""
        sample = x["sample"].cpu()
        if int(sample.max()) >= len(self):
            return False
        if not torch.equal(self._scene[sample] + self.scenes.first, x["scene"].cpu()):
            return False
        return all(torch.equal(ours[sample], x[name].cpu()) for name, ours in self._query.items())

    def by_scene(self, rows: Rows, random: np.random.Generator) -> Rows:
        """Return samples with their scenes in random order, each with its samples in theirs."""
        scenes, scene = np.unique(self._scene.numpy()[rows], return_inverse=True)
        return rows[np.argsort(random.permutation(len(scenes))[scene], kind="stable")]

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


class BatchLoader:
    """Goes through a task's samples in an order that (seed, epoch) alone decide.

    ``by_scene`` shuffles scenes instead of samples: those of a scene follow one another. ``rows``
    are the samples to go through, all by default.
    ``start`` skips that many batches without reading them, to go on where a run was cut.
    ``workers`` threads read ahead, a batch each; the batches are the same with any number of them.
    Usually none are needed: only scenes that are not in memory have some.
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
        by_scene: bool = False,
        rows: Rows | None = None,
        workers: int | None = None,
    ) -> None:
        order = np.arange(len(batches)) if rows is None else rows
        if shuffle:
            random = np.random.default_rng([seed, epoch])
            order = batches.by_scene(order, random) if by_scene else random.permutation(order)
        parts = list(torch.split(torch.from_numpy(order), batch_size))
        if shuffle and len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]  # batch norm cannot learn from one sample
        if not 0 <= start <= len(parts):
            raise ValueError(f"start is {start}, but an epoch has 0 to {len(parts)} batches")
        self._batches, self._workers = batches, batches.readers if workers is None else workers
        self._rows = parts[start:]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Batch]:
        if self._workers == 0:
            return map(self._batches.__getitem__, self._rows)
        return self._read_ahead(self._workers)

    def _read_ahead(self, workers: int) -> Iterator[Batch]:
        """Yield what threads read, in order; they end with the iterator, wherever it is dropped.

        Threads, for a process would have to copy all that it reads once more to hand it over.
        There are none before the first batch is asked for: a process that is forked has no use
        for those of its parent.
        """
        rows, exiting = iter(self._rows), sys.is_finalizing
        pool = ThreadPoolExecutor(workers, "reading ahead")
        try:
            read = self._batches.__getitem__
            ahead = deque(pool.submit(read, some) for some in islice(rows, workers))
            while ahead:
                batch = ahead.popleft().result()
                ahead.extend(pool.submit(read, some) for some in islice(rows, 1))
                yield batch
                del batch  # the next may want its memory
        finally:
            if not exiting():  # then Python has waited for the threads, and taken modules apart
                pool.shutdown(cancel_futures=True)
