"""Random batches of 128 scenes of 36 × 2048 float16 from a store, against a bare memory map."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from timing import compare, report

from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.tasks.objects import ObjectTask

SCENES, REGIONS, FEATURES, BATCH = 4096, 36, 2048, 128  # 600 MB of features
BATCHES = 16


def write(store: StoreWriter) -> None:
    rng = np.random.default_rng(0)
    store.create("train/scenes/regions", SCENES, (REGIONS, FEATURES), "f2")
    store.create("train/scenes/boxes", SCENES, (REGIONS, 4), "f4")
    store.create("train/scenes/mask", SCENES, (REGIONS,), "?")
    store.create("train/obj/scene", SCENES, (), "i4")
    store.create("train/obj/label", SCENES, (REGIONS,), "i2")
    store.create("train/obj/asked", SCENES, (REGIONS,), "?")
    for start in range(0, SCENES, 256):
        features = rng.standard_normal((256, REGIONS, FEATURES), dtype=np.float32)
        store.append("train/scenes/regions", features)
        store.append("train/scenes/boxes", np.zeros((256, REGIONS, 4)))
        store.append("train/scenes/mask", np.ones((256, REGIONS)))
        store.append("train/obj/scene", np.arange(start, start + 256))
        store.append("train/obj/label", np.zeros((256, REGIONS)))
        store.append("train/obj/asked", np.ones((256, REGIONS)))


def main() -> bool:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.h5"
        build_store(path, write, header={}, size=0)
        store = Store(path)
        batches = Batches(
            Samples.whole(store, "train", ObjectTask()),
            Scenes(store, "train", in_memory=False, half=True),
        )
        column = store.table("train", "scenes")["regions"]
        bare = np.memmap(path, column.dtype, "r", column.offset or 0, column.shape)
        order = np.random.default_rng([0, 0]).permutation(SCENES)[: BATCHES * BATCH]

        def by_loader() -> None:
            for _ in zip(range(BATCHES), BatchLoader(batches, BATCH, workers=0), strict=False):
                pass

        def by_memory_map() -> None:
            for rows in order.reshape(BATCHES, BATCH):
                _ = bare[rows]

        found = compare(by_loader, by_memory_map, turns=9)
        gigabytes = BATCHES * BATCH * REGIONS * FEATURES * 2 / 1e9
        share = 1 / found.ratio
        details = f"{gigabytes / found.ours:.2f} against {gigabytes / found.plain:.2f} GB/s"
        what = "reading from a store, share of a bare memory map's speed"
        return report(what, share, "at least 0.7", share >= 0.7, details)


if __name__ == "__main__":
    sys.exit(not main())
