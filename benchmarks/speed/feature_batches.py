"""Random batches of 128 scenes from a prepared folder of 3 GB, against a bare memory map.

Once as they are stored, once as the floats that models expect on a CPU. Two threads read ahead, as
they do where scenes do not fit in memory; time counts from the first batch on, when they are at
work. Also how much memory an epoch takes, in which mapped pages count.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from timing import report

from pmn_cl.data.joined_store import JoinedStore, Part
from pmn_cl.data.loader import READERS, Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import StoreWriter, build_store
from pmn_cl.tasks.objects import ObjectTask

REGIONS, FEATURES, BATCH = 36, 2048, 128
ROW = REGIONS * FEATURES * 2  # bytes
FEATURES_PART = Part("features.h5", (), "")
GENOME_PART = Part("genome.h5", ("obj",), "")


def write_features(store: StoreWriter, scenes: int) -> None:
    rng = np.random.default_rng(0)
    store.create("all/scenes/regions", scenes, (REGIONS, FEATURES), "f2")
    store.create("all/scenes/boxes", scenes, (REGIONS, 4), "f4")
    store.create("all/scenes/mask", scenes, (REGIONS,), "?")
    drawn = rng.standard_normal((64, REGIONS, FEATURES), dtype=np.float32).astype("f2")
    for start in range(0, scenes, 64):
        count = min(64, scenes - start)
        store.append("all/scenes/regions", drawn[:count])
        store.append("all/scenes/boxes", np.zeros((count, REGIONS, 4)))
        store.append("all/scenes/mask", np.ones((count, REGIONS)))


def write_samples(store: StoreWriter, scenes: int) -> None:
    for name, shape, dtype in (
        ("scene", (), "i4"),
        ("label", (REGIONS,), "i2"),
        ("asked", (REGIONS,), "?"),
    ):
        store.create(f"train/obj/{name}", scenes, shape, dtype)
        values = np.arange(scenes) if name == "scene" else np.ones((scenes, REGIONS))
        store.append(f"train/obj/{name}", values)


def build(folder: Path, scenes: int) -> JoinedStore:
    features, genome = folder / FEATURES_PART.file, folder / GENOME_PART.file
    build_store(features, lambda store: write_features(store, scenes), header={}, size=0)
    digest = JoinedStore(folder, FEATURES_PART, []).header["parts"]["features.h5"]["digest"]
    header = {"features": digest}
    build_store(genome, lambda store: write_samples(store, scenes), header=header, size=0)
    return JoinedStore(folder, FEATURES_PART, [GENOME_PART])


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def by_loader(store: JoinedStore, epoch: int, half: bool) -> float:
    """Return scenes per second after the first batch."""
    samples = Samples.whole(store, "train", ObjectTask())
    batches = Batches(samples, Scenes(store, "train", in_memory=False, half=half))
    loader = iter(BatchLoader(batches, BATCH, epoch=epoch, workers=READERS))
    next(loader)
    start = perf_counter()
    read = sum(len(x["regions"]) for x, _ in loader)
    return read / (perf_counter() - start)


def by_memory_map(store: JoinedStore, epoch: int, half: bool) -> float:
    """Return scenes per second of a map that is opened for it.

    A batch is kept until the next is read, as by whoever learns from it.
    """
    column = store.table("train", "scenes")["regions"]
    order = np.random.default_rng([0, epoch]).permutation(len(column))
    bare = np.memmap(column.path, column.dtype, "r", column.offset or 0, column.shape)
    start = perf_counter()
    for first in range(0, len(order), BATCH):
        batch = bare[order[first : first + BATCH]]
        if not half:
            batch = batch.astype(np.float32)
    return len(order) / (perf_counter() - start)


def main() -> bool:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scenes", type=int, default=20_000)
    options.add_argument("--turns", type=int, default=5)
    given = options.parse_args()
    torch.set_num_threads(1)
    speeds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenes = min(given.scenes, int(shutil.disk_usage(folder).free * 0.8 / ROW))
        store = build(folder, scenes)
        before = peak()
        for half in speeds:  # alone first: the bare map fills this process with pages
            by_loader(store, 0, half)
        growth = peak() - before
        for turn in range(1, given.turns + 1):
            for half, pairs in speeds.items():
                pairs.append((by_loader(store, turn, half), by_memory_map(store, turn, half)))
    reached = True
    for half, pairs in speeds.items():
        share = statistics.median(ours / bare for ours, bare in pairs)
        ours, bare = (statistics.median(speed) * ROW / 1e9 for speed in zip(*pairs, strict=True))
        details = f"{ours:.2f} against {bare:.2f} GB/s of the file's {scenes * ROW / 1e9:.1f} GB"
        what = f"batches of {'stored' if half else 'widened'} features, share of a bare map's speed"
        reached &= report(what, share, "at least 0.7", share >= 0.7, details)
    what = "GB that the process grew by in an epoch"
    return report(what, growth, "under 1", growth < 1, "the larger of both") and reached


if __name__ == "__main__":
    sys.exit(not main())
