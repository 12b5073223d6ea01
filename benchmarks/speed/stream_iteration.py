"""An epoch of the in-memory stream against slicing the same tensors by hand.

By hand means ``tensor[rows]``; torch's ``index_select`` is about twice as fast, and the loader
uses it, so the ratio to a loop of bare ``index_select`` calls is printed as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from timing import compare, report
from torch import Tensor

from benchmarks.stream import Stream
from pmn_cl.config.stream import parse_stream
from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.store import ENVIRONMENT

BATCH = 128
SPEC = {
    "name": "speed",
    "world": {"name": "digits", "scenes": {"train": 4000, "val": 1, "test": 1, "novel": 1}},
    "tasks": ["obj", "rel", "cnt", "vqa"],
    "strategies": ["constant"],
    "seeds": [0],
}


def by_hand(
    take: Callable[[Tensor, Tensor], Tensor],
    scene: Tensor,
    shared: dict[str, Tensor],
    own: dict[str, Tensor],
) -> None:
    order = torch.from_numpy(np.random.default_rng([0, 0]).permutation(len(scene)))
    for rows in order.split(BATCH):
        scenes = take(scene, rows)
        _batch = (  # kept until the next is there, as a training loop keeps its batch
            {name: take(column, scenes) for name, column in shared.items()},
            {name: take(column, rows) for name, column in own.items()},
        )


def main() -> bool:
    torch.set_num_threads(1)
    stream = Stream.open(parse_stream(SPEC), 0)
    scenes = Scenes(stream.store, "train")
    shared = scenes.take(torch.arange(4000))
    reached = True
    for experience in stream.tasks:
        batches = Batches(experience.splits["train"], scenes)
        x, y = batches[np.arange(len(batches))]
        own = {
            name: column
            for name, column in {**x, **y}.items()
            if name not in (*ENVIRONMENT, "scene")
        }
        scene = torch.from_numpy(experience.splits["train"].columns["scene"].astype(np.int64))

        def by_loader(batches: Batches = batches) -> None:
            for _ in BatchLoader(batches, BATCH):
                pass

        usual, fastest = (
            compare(by_loader, lambda take=take, s=scene, o=own: by_hand(take, s, shared, o))
            for take in (Tensor.__getitem__, lambda column, rows: column.index_select(0, rows))
        )
        count = -(-len(batches) // BATCH) / 1e6
        details = (
            f"{usual.ours / count:.0f} against {usual.plain / count:.0f} µs a batch; "
            f"{fastest.ratio:.2f} against index_select"
        )
        what = f"iterating {experience.task.name}, loader / by hand"
        reached &= report(what, usual.ratio, "at most 1.1", usual.ratio <= 1.1, details)
    return reached


if __name__ == "__main__":
    sys.exit(not main())
