"""Preparing a TSV of 36 × 2048 features against just decoding it and writing the same bytes.

Each is done in a process of its own, so that both start with nothing in memory.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from timing import report

from benchmarks.worlds.visual_genome.features.preparation import prepare_features
from benchmarks.worlds.visual_genome.features.request import Request

REGIONS, FEATURES = 36, 2048
ROW = REGIONS * FEATURES * 2  # bytes of float16
DISK = 2.7 * REGIONS * FEATURES * 4  # bytes for an image in all files that are there at once


def write_tsv(path: Path, images: int) -> None:
    """Write images with ids in no order; features repeat, since drawing them takes longest."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((64, REGIONS, FEATURES), dtype=np.float32)
    features = [base64.b64encode(np.maximum(some, 0).tobytes()) for some in drawn]
    with path.open("wb") as file:
        for place, image in enumerate(rng.permutation(images).tolist()):
            near = rng.uniform(0, 320, (REGIONS, 2))
            boxes = np.concatenate([near, near + rng.uniform(20, 160, (REGIONS, 2))], axis=1)
            numbers = f"{image}\t640\t480\t{REGIONS}\t".encode()
            boxes_text = base64.b64encode(boxes.astype("<f4").tobytes())
            file.write(numbers + boxes_text + b"\t" + features[place % 64] + b"\n")


def prepare(source: Path, out: Path) -> None:
    quiet = nullcontext(lambda done, total: None)
    prepare_features(Request(sources=(source,)), out, lambda doing: quiet, print)


def decode_and_write(source: Path, out: Path) -> None:
    with source.open("rb") as lines, out.open("wb", buffering=0) as file:
        for line in lines:
            raw = bytearray(binascii.a2b_base64(line[line.rindex(b"\t") + 1 :]))
            file.write(torch.frombuffer(raw, dtype=torch.float32).half().numpy().data)
        os.fsync(file.fileno())


def measure(which: str, source: Path, out: Path) -> tuple[float, float]:
    """Return seconds and gigabytes at the peak of one of them in a process of its own."""
    command = [sys.executable, __file__, "--only", which, str(source), str(out)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    return float(said[-2]), float(said[-1])


def only(which: str, source: Path, out: Path) -> None:
    torch.set_num_threads(1)
    start = perf_counter()
    {"ours": prepare, "bare": decode_and_write}[which](source, out)
    taken = perf_counter() - start
    print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def main() -> bool:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=20_000)
    options.add_argument("--turns", type=int, default=2)
    options.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only:
        only(given.only[0], *map(Path, given.only[1:]))
        return True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        room = int(shutil.disk_usage(folder).free * 0.8 / DISK)
        images = min(given.images, room)
        if images < given.images:
            print(f"only {images:,} images: there is no more room in {folder}")
        write_tsv(folder / "features.tsv", images)
        pairs = []
        for turn in range(given.turns):  # who goes first alternates
            order = ("bare", "ours") if turn % 2 else ("ours", "bare")
            pairs.append({w: measure(w, folder / "features.tsv", folder / w) for w in order})
    ours = sum(pair["ours"][0] for pair in pairs) / len(pairs)
    bare = sum(pair["bare"][0] for pair in pairs) / len(pairs)
    peak = max(pair["ours"][1] for pair in pairs)
    ratio = ours / bare
    details = (
        f"{images / ours:.0f} images per second against {images / bare:.0f}, {images:,} images; "
        f"peak memory {peak:.2f} GB (goal: under 1)"
    )
    reached = ratio <= 1.5 and peak < 1
    what = "preparing features / decoding and writing them"
    return report(what, ratio, "at most 1.5", reached, details)


if __name__ == "__main__":
    sys.exit(not main())
