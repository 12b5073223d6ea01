"""Small prepared folders for annotations: features are made up, annotations are real or tiny."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions, prepare_coco
from benchmarks.worlds.visual_genome.annotations.genome.preparation import (
    GenomeOptions,
    prepare_genome,
)
from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions, prepare_vqa
from pmn_cl.data.store import StoreWriter, build_store
from pmn_cl.progress import ProgressCallback

REGIONS, WIDTH = 36, 4

Boxes = Sequence[Sequence[float]]


def write_features(
    folder: Path, images: Mapping[tuple[str, int], Boxes], *, simulated: bool = False
) -> Path:
    """Write features.h5 with these boxes (shares of the image) for each (source, image)."""
    sources = ["coco", "vg"]
    order = sorted(images, key=lambda key: (sources.index(key[0]), key[1]))
    boxes = np.zeros((len(order), REGIONS, 4), "f4")
    mask = np.zeros((len(order), REGIONS), bool)
    for row, key in enumerate(order):
        given = np.asarray(images[key], "f4").reshape(-1, 4)[:REGIONS]
        boxes[row, : len(given)], mask[row, : len(given)] = given, True
    columns: dict[str, NDArray[Any]] = {
        "regions": np.zeros((len(order), REGIONS, WIDTH), "f2"),
        "boxes": boxes,
        "mask": mask,
        "image": np.array([image for _, image in order], "i8"),
        "source": np.array([sources.index(source) for source, _ in order], "u1"),
        "width": np.full(len(order), 100, "i4"),
        "height": np.full(len(order), 100, "i4"),
        "simulated": np.full(len(order), simulated),
    }

    def write(store: StoreWriter) -> None:
        store.name_values("sources", sources)
        for name, column in columns.items():
            store.create(f"all/scenes/{name}", len(column), column.shape[1:], column.dtype)
            store.append(f"all/scenes/{name}", column)

    path = folder / "features.h5"
    build_store(path, write, header={"part": "features"}, size=0)
    return path


@contextmanager
def quiet(doing: str) -> Iterator[ProgressCallback]:
    """Watch nothing, but check that what is reported makes sense."""

    def report(done: int, total: int) -> None:
        assert 0 <= done <= total and total > 0, f"{doing}: {done} of {total}"

    yield report


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder with real annotations."""
    root = os.environ.get("PMN_BENCH_SAMPLES")
    if not root:
        pytest.skip("PMN_BENCH_SAMPLES is not set: no real annotations to read")
    return Path(root)


def real_boxes(samples: Path) -> dict[tuple[str, int], NDArray[Any]]:
    """Boxes for the real images: annotated objects, moved a little, as a detector would."""
    rng = np.random.default_rng(8)
    listed = json.loads((samples / "visual_genome/image_data.json").read_text("utf-8"))
    size = {record["image_id"]: (record["width"], record["height"]) * 2 for record in listed}
    images: dict[tuple[str, int], NDArray[Any]] = {}
    for record in json.loads((samples / "visual_genome/objects_v1_2.json").read_text("utf-8")):
        given = [[o["x"], o["y"], o["x"] + o["w"], o["y"] + o["h"]] for o in record["objects"]]
        boxes = np.array(given, float)[rng.permutation(len(given))[:REGIONS]]
        sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
        boxes += rng.normal(0, 0.08, boxes.shape) * sides
        images["vg", record["image_id"]] = (boxes / size[record["image_id"]]).clip(0, 1)
    for name in ("train", "val"):
        asked = samples / f"vqa_v2/v2_OpenEnded_mscoco_{name}2014_questions.json"
        told = samples / f"coco_captions/captions_{name}2014.json"
        records = json.loads(asked.read_text("utf-8"))["questions"]
        for record in [*records, *json.loads(told.read_text("utf-8"))["annotations"]]:
            images["coco", record["image_id"]] = np.array([[0.1, 0.1, 0.9, 0.9]])
    return images


@pytest.fixture(scope="session")
def prepared(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all three parts, made of the real samples."""
    out = tmp_path_factory.mktemp("prepared")
    write_features(out, real_boxes(samples), simulated=True)
    genome = GenomeOptions(skip_leakage_check=True, held_out=10)
    prepare_genome(samples / "visual_genome", out, samples / "vocab", [], genome, quiet, print)
    prepare_vqa(samples / "vqa_v2", out, None, VqaOptions(min_answers=3), quiet, print)
    prepare_coco(samples / "coco_captions", out, None, CocoOptions(min_words=2), quiet, print)
    return out


@pytest.fixture(scope="session")
def features() -> Callable[..., Path]:
    """Return what writes features.h5."""
    return write_features


@pytest.fixture(scope="session")
def watch() -> Callable[[str], Any]:
    """Return a way of watching that shows nothing."""
    return quiet
