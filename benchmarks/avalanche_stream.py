"""A stream as Avalanche sees it: streams of experiences with data sets and task labels.

Importing this file imports Avalanche, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict

from benchmarks.stream import Stream, StreamTask
from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.data.world import World
from pmn_cl.strategy.avalanche import import_avalanche

import_avalanche()

from avalanche.benchmarks import CLScenario, EagerCLStream  # noqa: E402
from avalanche.benchmarks.scenarios import DatasetExperience  # noqa: E402
from avalanche.benchmarks.utils import AvalancheDataset, TaskLabels  # noqa: E402
from avalanche.benchmarks.utils.flat_data import ConstantSequence  # noqa: E402


class AvalancheExperience(DatasetExperience[Any]):  # type: ignore[misc]  # Avalanche has no types
    """An Avalanche experience that knows its task; the task label is its place in the stream."""

    def __init__(
        self, experience: StreamTask, world: World, split: str, label: int, scenes: Scenes
    ) -> None:
        self.task = experience.task
        self.world = world
        self.calls = experience.calls
        self.curriculum = experience.curriculum
        self.samples = experience.splits[split]
        self.batches = Batches(self.samples, scenes, label)
        self.task_labels = [label]
        dataset = AvalancheDataset(
            [self.batches],
            data_attributes=[TaskLabels(ConstantSequence(label, len(self.batches)))],
            collate_fn=collate,
        )
        super().__init__(dataset=dataset, current_experience=label)

    @property
    def task_label(self) -> int:
        """Return the task's place in the stream."""
        return self.task_labels[0]


def collate(items: Sequence[tuple[Any, Any, int]]) -> tuple[Any, Any, torch.Tensor]:
    """Stack single samples into a batch, with their task labels.

    Samples of one task become plain TensorDicts. Replay buffers mix tasks, whose samples differ
    in keys: those are stacked lazily, to be split by ``y["task"]``. As plugins of Avalanche's call
    a network with x alone, x brings its targets along, as ``x["y"]``.
    """
    xs, ys, labels = zip(*items, strict=True)
    both = [x.copy().set("y", y) for x, y in zip(xs, ys, strict=True)]
    stack = LazyStackedTensorDict.maybe_dense_stack
    return stack(both), stack(ys), torch.tensor(labels)


def make_benchmark(stream: Stream, *, in_memory: bool | None = None) -> CLScenario[Any]:
    """Return a benchmark with one Avalanche stream per split; scenes are read once for all."""
    streams, scenes_of = [], {}
    for split in stream.splits:
        present = [(i, e) for i, e in enumerate(stream.tasks) if split in e.splits]
        if present:
            home = present[0][1].splits[split].split  # the probe's scenes are of another split
            if home not in scenes_of:
                scenes_of[home] = Scenes(stream.store, home, in_memory=in_memory)
            scenes = scenes_of[home]
            experiences = [
                AvalancheExperience(e, stream.world, split, label, scenes) for label, e in present
            ]
            streams.append(EagerCLStream(split, experiences))
    return CLScenario(streams)
