"""A world and a task of somebody else's, in one file: is the number of marks odd?

This is all it takes. A stream's YAML beside this file names them as ``parity:MarkWorld`` and
``parity:ParityTask``; nothing in pmn-bench knows of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from pmn_cl.data.store import StoreWriter
from pmn_cl.data.world import World, WorldOptions
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.base import Columns, Names, Task
from pmn_cl.tasks.metrics import accuracy

MOST_MARKS = 5


class MarkOptions(WorldOptions):
    seed: int = 0
    scenes: int = Field(40, ge=1)


class MarkWorld(World):
    name = "marks"
    summary = "scenes of one to five marks"
    Options = MarkOptions

    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        rows = self.options.scenes
        for number, split in enumerate(("train", "val", "test")):
            rng = np.random.default_rng([self.options.seed, number])
            marks = rng.integers(1, MOST_MARKS + 1, rows)
            mask = np.arange(MOST_MARKS) < marks[:, None]
            columns: dict[str, Any] = {
                "scenes/regions": rng.normal(size=(rows, MOST_MARKS, 4)).astype("f2"),
                "scenes/boxes": rng.random((rows, MOST_MARKS, 4)).astype("f4"),
                "scenes/mask": mask,
                "parity/scene": np.arange(rows),
                "parity/odd": marks % 2,
            }
            for name, values in columns.items():
                store.create(f"{split}/{name}", rows, values.shape[1:], values.dtype)
                store.append(f"{split}/{name}", values)
            progress(number + 1, 3)


class ParityTask(Task):
    name = "parity"
    summary = "say whether the number of marks is odd"
    level = 1
    target = ("odd",)
    metric = "accuracy"

    def score(self, predictions: Any, columns: Columns, names: Names) -> dict[str, float]:
        return {"accuracy": accuracy(predictions, columns["odd"])}

    def loss(self, outputs: Any, targets: Mapping[str, Any]) -> Any:
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets["odd"])

    def decode(self, outputs: Any) -> Any:
        return outputs.argmax(-1).numpy()

    def constant(self, columns: Columns, names: Names) -> Any:
        return np.asarray(int(columns["odd"].mean() > 0.5))

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        odd = float(columns["odd"].mean())
        return {"": sorted([("odd", odd), ("even", 1 - odd)], key=lambda answer: -answer[1])}
