"""Results of frozen modules that are kept from batch to batch, by scene or by sample.

Which results these are the modules say, in the words of ``memoisation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.modules.runtime.environment import Environment

_SETS = 2  # of samples on the same scenes, such as a split and what is set apart of it
_BLOCK = 256  # scenes or samples that are worked on together when their results are to be kept

Compute = Callable[[Environment], Tensor]


class Memory:
    """Results of frozen modules, worked out once per scene, or once per sample.

    Scenes and samples are always worked on in the same blocks, so that a result has the same bits
    whatever is asked for first. Beyond ``limit`` bytes nothing more is kept, but worked out anew.
    """

    def __init__(self, limit: int = 4_000_000_000) -> None:
        self._limit = limit
        self._scenes: dict[int, Scenes] = {}  # by their first scene
        # By task and first scene: sets of samples with a number of their own each.
        self._samples: dict[tuple[str, int], dict[int, Batches]] = {}
        self._numbers = 0  # that were given
        # Called with what is worked out, how many rows of it, and of how many there are.
        self.watch: Callable[[str, int, int], AbstractContextManager[None]] | None = None
        self._tables: dict[str, MemoryTable | None] = {}  # None: no room

    def attach(self, scenes: Scenes) -> None:
        """Let results about the scenes of a split be kept; those of another world are dropped."""
        if any(scenes.world != known.world for known in self._scenes.values()):
            self._scenes, self._samples, self._tables = {}, {}, {}
        self._scenes[scenes.first] = scenes

    def attach_samples(self, task: str, batches: Batches) -> None:
        """Let results about samples, a scene and a query each, be kept, too."""
        self.attach(batches.scenes)
        there = self._samples.setdefault((task, batches.scenes.first), {})
        if any(known is batches for known in there.values()):
            return
        while len(there) >= _SETS:
            oldest = next(iter(there))
            del there[oldest]
            self._tables = {k: t for k, t in self._tables.items() if not k.endswith(f"#{oldest}")}
        self._numbers += 1
        there[self._numbers] = batches

    def by_scene(self, key: str, env: Environment, compute: Compute) -> Tensor:
        """Return a result about the scenes of a batch."""
        scenes = self._scenes_of(env)
        if scenes is None:
            return compute(env)

        def of_rows(rows: Tensor) -> Tensor:
            return compute(Environment.of(_on_device_of(env, scenes.take(rows))))

        place, number = f"{key}/{scenes.first}", env["scene"] - scenes.first
        found = self._look_up(place, number, len(scenes), of_rows)
        return compute(env) if found is None else found

    def by_sample(self, key: str, env: Environment, compute: Compute) -> Tensor:
        """Return a result about the samples of a batch: their scenes, and what they ask."""
        scenes = self._scenes_of(env)
        sets = self._samples.get((env.task, scenes.first), {}) if scenes is not None else {}
        number, batches = next(
            ((n, some) for n, some in reversed(sets.items()) if some.holds(env.fields)), (0, None)
        )
        if batches is None:
            return compute(env)

        def of_rows(rows: Tensor) -> Tensor:
            return compute(Environment.of(_on_device_of(env, batches[rows][0]), self))

        place = f"{key}/{env.task}#{number}"
        found = self._look_up(place, env["sample"], len(batches), of_rows)
        return compute(env) if found is None else found

    def _look_up(
        self, place: str, number: Tensor, count: int, of_rows: Callable[[Tensor], Tensor]
    ) -> Tensor | None:
        """Return the results by these numbers, after working out those that are missing.

        None where there is no room for them.
        """
        if place not in self._tables:
            with torch.no_grad(), self._watched(place, 1, count):
                example = of_rows(torch.arange(1))
            size = example.numel() * example.element_size() * count
            room = self._size() + size <= self._limit
            self._tables[place] = MemoryTable.like(example, count) if room else None
        table = self._tables[place]
        if table is None:
            return None
        missing = number[~table.known[number]]
        for block in sorted(set((missing // _BLOCK).tolist())):
            first, end = block * _BLOCK, min((block + 1) * _BLOCK, count)
            with torch.no_grad(), self._watched(place, end - first, count):
                table.put(slice(first, end), of_rows(torch.arange(first, end)))
        return table.values.index_select(0, number)

    def _watched(self, place: str, rows: int, count: int) -> AbstractContextManager[None]:
        return nullcontext() if self.watch is None else self.watch(place, rows, count)

    def _scenes_of(self, env: Environment) -> Scenes | None:
        """Return the split that holds all scenes of a batch."""
        low, high = int(env["scene"].min()), int(env["scene"].max())
        for first, scenes in self._scenes.items():
            if first <= low and high < first + len(scenes):
                return scenes
        return None

    def _size(self) -> int:
        kept = [table.values for table in self._tables.values() if table is not None]
        return sum(values.numel() * values.element_size() for values in kept)


@dataclass
class MemoryTable:
    """One result for every scene of a split, or every sample of a batch, as far as it is known."""

    values: Tensor  # (rows, …)
    known: Tensor  # (rows,)

    @classmethod
    def like(cls, example: Tensor, rows: int) -> MemoryTable:
        """Return an empty table for results such as this one."""
        values = example.new_empty((rows, *example.shape[1:]))
        return cls(values, torch.zeros(rows, dtype=torch.bool, device=example.device))

    def put(self, rows: Tensor | slice, found: Tensor) -> None:
        """Keep the results of some rows."""
        self.values[rows] = found
        self.known[rows] = True


def _on_device_of(env: Environment, taken: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.to(env.regions.device) for name, value in taken.items()}
