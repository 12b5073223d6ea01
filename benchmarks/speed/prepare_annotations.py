"""Preparing annotations of Visual Genome's full size: 108,000 images, 3.9 million objects.

The files are the real samples ($PMN_BENCH_SAMPLES), repeated with new ids; region features have
four numbers. What is timed is the command, in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from timing import report, seconds

from pmn_cl.data.store import StoreWriter, build_store

IMAGES, REGIONS = 108_000, 36
VAL_IMAGES, TEST_IMAGES = 40_504, 81_434
_ID = re.compile(r'"(image_id|object_id)": (\d+)')
_COPY = "\0"  # stands for the number of the copy


def numbered(record: dict[str, Any]) -> str:
    """Return a record as JSON with a place for the copy's number before every id."""
    text = json.dumps({key: value for key, value in record.items() if key != "image_url"})
    text = re.sub(r'"merged_object_ids": \[[^\]]*\]', '"merged_object_ids": []', text)
    digits = {"image_id": 3, "object_id": 8}
    return _ID.sub(lambda m: f'"{m[1]}": {_COPY}{int(m[2]):0{digits[m[1]]}d}', text)


def repeat(source: Path, target: Path, copies: int) -> int:
    """Write a list of records so many times; return how many objects and relations it has."""
    records = json.loads(source.read_text("utf-8"))
    whole = ",\n".join(numbered(record) for record in records)
    with target.open("w") as file:
        for copy in range(1, copies + 1):
            file.write("[" if copy == 1 else ",\n")
            file.write(whole.replace(_COPY, str(copy)))
        file.write("]")
    inside = ("objects", "attributes", "relationships")
    return copies * sum(len(record[key]) for record in records for key in inside if key in record)


def write_images(samples: Path, folder: Path, copies: int) -> None:
    """Write image_data.json, every other image being COCO's, and lists of what is tested on."""
    records = json.loads((samples / "visual_genome/image_data.json").read_text("utf-8"))
    listed = []
    for copy in range(1, copies + 1):
        for record in records:
            image = int(f"{copy}{record['image_id']:03d}")
            listed.append({**record, "image_id": image, "coco_id": image if image % 2 else None})
    (folder / "image_data.json").write_text(json.dumps(listed))
    some = [record["image_id"] for record in listed][::20]
    tested = [*some, *range(10**8, 10**8 + TEST_IMAGES)]
    images = {"images": [{"id": image} for image in tested[:TEST_IMAGES]]}
    (folder / "image_info_test2015.json").write_text(json.dumps(images))
    val = {"annotations": [{"image_id": image} for image in tested[-VAL_IMAGES:]]}
    (folder / "captions_val2014.json").write_text(json.dumps(val))


def write_features(samples: Path, folder: Path, copies: int) -> None:
    """Write features.h5: annotated boxes, moved a little, and no features to speak of."""
    rng = np.random.default_rng(0)
    listed = json.loads((samples / "visual_genome/image_data.json").read_text("utf-8"))
    objects = json.loads((samples / "visual_genome/objects_v1_2.json").read_text("utf-8"))
    boxes = np.zeros((len(listed), REGIONS, 4), "f4")
    for row, (image, record) in enumerate(zip(listed, objects, strict=True)):
        size = np.array([image["width"], image["height"]] * 2, float)
        sides = [[o["x"], o["y"], o["x"] + o["w"], o["y"] + o["h"]] for o in record["objects"]]
        some = (np.array(sides, float) / size)[rng.permutation(len(sides))[:REGIONS]]
        boxes[row, : len(some)] = (some + rng.normal(0, 0.01, some.shape)).clip(0, 1)
    mask = boxes.any(axis=2)
    ids = [
        [int(f"{copy}{image['image_id']:03d}") for image in listed] for copy in range(1, copies + 1)
    ]
    order = np.argsort(np.ravel(ids), kind="stable")
    rows = np.tile(np.arange(len(listed)), copies)[order]

    def write(store: StoreWriter) -> None:
        store.name_values("sources", ["coco", "vg"])
        columns = {
            "regions": np.zeros((len(rows), REGIONS, 4), "f2"),
            "boxes": boxes[rows],
            "mask": mask[rows],
            "image": np.ravel(ids)[order].astype("i8"),
            "source": np.ones(len(rows), "u1"),
            "width": np.full(len(rows), 640, "i4"),
            "height": np.full(len(rows), 480, "i4"),
            "simulated": np.ones(len(rows), bool),
        }
        for name, column in columns.items():
            store.create(f"all/scenes/{name}", len(column), column.shape[1:], column.dtype)
            store.append(f"all/scenes/{name}", column)

    build_store(folder / "features.h5", write, header={}, size=0)


def main(images: int = IMAGES) -> bool:
    root = os.environ.get("PMN_BENCH_SAMPLES")
    if not root:
        print("preparing annotations: not measured, PMN_BENCH_SAMPLES is not set")
        return True
    samples, copies = Path(root), images // 100
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_images(samples, folder, copies)
        named = {
            "objects_v1_2": "objects",
            "attributes": "attributes",
            "relationships": "relationships",
        }
        counts = {
            target: repeat(
                samples / f"visual_genome/{source}.json", folder / f"{target}.json", copies
            )
            for source, target in named.items()
        }
        write_features(samples, folder, copies)
        arguments = [folder, "--vocab", samples / "vocab", "--out", folder]
        command = [sys.executable, "-m", "pmn_cl.cli.main", "prepare", "visual-genome", *arguments]
        taken = seconds(lambda: subprocess.run(command, check=True, stderr=subprocess.DEVNULL))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    things = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    details = f"{100 * copies:,} images, {things}; {taken:.0f} s, {peak:.2f} GB at most"
    most = 15 * 60 * images / IMAGES
    what = (
        "preparing annotations of full size, in minutes"
        if images == IMAGES
        else "a part of it, in minutes"
    )
    return all(
        (
            report(what, taken / 60, f"under {most / 60:.1f} min", taken < most, details),
            report("its memory in GB", peak, "under 4", peak < 4, "the command's largest"),
        )
    )


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:2])))
