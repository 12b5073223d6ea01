"""Made-up features: from annotated objects, deterministic, and such that classes can be told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features.simulated import SimulatedObjects
from pmn_cl.errors import UserError

THINGS = ("dog", "tree", "car")


@pytest.fixture
def annotated(tmp_path: Path) -> tuple[Path, Path]:
    """Sixty images with three things far from each other, of random kinds."""
    rng = np.random.default_rng(0)
    images, objects = [], []
    for number in range(1, 61):
        images.append({"image_id": number, "width": 600, "height": 200, "coco_id": None})
        kinds = rng.integers(0, 3, 3).tolist()
        things = [
            {"names": [THINGS[kind]], "x": 200 * place + 20, "y": 20, "w": 120, "h": 150}
            for place, kind in enumerate(kinds)
        ]
        for thing in things[:1]:
            thing["attributes"] = ["red"] if number % 2 else ["blue"]
        objects.append({"image_id": number, "attributes": things})
    paths = tmp_path / "image_data.json", tmp_path / "attributes.json"
    for path, content in zip(paths, (images, objects), strict=True):
        path.write_text(json.dumps(content))
    return paths


def simulate(prepare: Any, out: Path, annotated: tuple[Path, Path], **options: Any) -> Any:
    images, objects = annotated
    given = {"image_data": (images,), "objects": (objects,), "dimensions": 64, **options}
    return prepare(out, simulate=True, **given)


def iou(one: Any, other: Any) -> float:
    shared = np.prod(np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, 9))
    areas = np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])
    return float(shared / (areas - shared))


def labelled(columns: dict[str, Any], objects: Path) -> tuple[Any, list[str], list[Any]]:
    """Features of each annotated object's best box, with what the object is."""
    features, names, attributes = [], [], []
    by_image = {r["image_id"]: r["attributes"] for r in json.loads(objects.read_text())}
    for row, image in enumerate(columns["image"].tolist()):
        for thing in by_image[image]:
            box = np.array([thing["x"], thing["y"], thing["w"], thing["h"]]) / [600, 200, 600, 200]
            corners = np.concatenate([box[:2], box[:2] + box[2:]])
            boxes = columns["boxes"][row][columns["mask"][row]]
            overlaps = [iou(found, corners) for found in boxes]
            assert max(overlaps) > 0.75
            features.append(columns["regions"][row, int(np.argmax(overlaps))].astype("f8"))
            names.append(thing["names"][0])
            attributes.append(thing.get("attributes"))
    return np.stack(features), names, attributes


def test_boxes_are_near_and_classes_and_attributes_can_be_told(
    tmp_path: Path, annotated: tuple[Path, Path], prepare: Any
) -> None:
    columns = simulate(prepare, tmp_path / "out", annotated).columns
    features, names, attributes = labelled(columns, annotated[1])
    half = len(names) // 2
    means = {
        name: features[:half][[n == name for n in names[:half]]].mean(axis=0) for name in THINGS
    }
    nearest = [
        min(means, key=lambda name: float(np.square(f - means[name]).sum()))
        for f in features[half:]
    ]
    assert np.mean([n == m for n, m in zip(nearest, names[half:], strict=True)]) > 0.9
    red = features[[a == ["red"] for a in attributes]].mean(axis=0)
    blue = features[[a == ["blue"] for a in attributes]].mean(axis=0)
    none = features[[a is None for a in attributes]].mean(axis=0)
    assert np.corrcoef(red - none, blue - none)[0, 1] < 0.5  # they do not look the same


def test_it_is_said_everywhere(
    tmp_path: Path, annotated: tuple[Path, Path], prepare: Any, photos: Any, writers: Any
) -> None:
    made = simulate(prepare, tmp_path / "out", annotated)
    assert made.columns["simulated"].all()
    assert made.summary.startswith("SIMULATED: features of 60 of 60 images are made up.")
    assert made.store.header["simulated"] == 60
    real = photos(5, boxes=4)  # ids 7, 14, …, of Visual Genome here
    source = writers["bottom_up"](tmp_path, real)
    mixed = simulate(prepare, tmp_path / "mixed", annotated, vg=(source,), dimensions=None)
    rows = mixed.columns
    assert rows["image"][~rows["simulated"]].tolist() == sorted(p.id for p in real)
    assert rows["regions"].shape == (60, 36, 4)  # as many features as real ones have
    assert mixed.summary.startswith("SIMULATED: features of 55 of 60 images")
    assert not (tmp_path / "mixed/features.skipped.txt").exists()  # that was the idea


def test_the_same_seed_gives_the_same_and_another_other_features(
    tmp_path: Path, annotated: tuple[Path, Path], prepare: Any
) -> None:
    digests = [
        simulate(prepare, tmp_path / name, annotated, seed=seed, limit=9).store.digest
        for name, seed in (("one", 0), ("same", 0), ("other", 1))
    ]
    assert digests[0] == digests[1] != digests[2]
    few = simulate(prepare, tmp_path / "few", annotated, limit=3).columns
    many = simulate(prepare, tmp_path / "many", annotated, limit=8).columns
    np.testing.assert_array_equal(few["regions"], many["regions"][:3])  # each by itself


def test_images_without_objects_and_without_size(tmp_path: Path, prepare: Any) -> None:
    questions = tmp_path / "questions.json"
    questions.write_text(json.dumps({"questions": [{"image_id": 5}, {"image_id": 6}]}))
    made = prepare(tmp_path / "out", simulate=True, image_data=(questions,), dimensions=8)
    columns = made.columns
    assert columns["source"].tolist() == [0, 0] and columns["width"].tolist() == [640, 640]
    assert columns["mask"].sum(axis=1).min() > 5
    assert (columns["boxes"] >= 0).all() and (columns["boxes"] <= 1).all()
    assert not np.array_equal(columns["boxes"][0], columns["boxes"][1])


def test_every_version_of_the_files_and_their_gaps(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    box = {"x": 1, "y": 2, "w": 3, "h": 4}
    records = [
        {"image_id": 2, "objects": [{"names": ["A dog "], **box}, {"names": [], **box}]},
        {"id": 1, "objects": [{"name": "cat", **box}, {"names": ["no box"]}, "text"]},
        {"id": 1, "attributes": [{"object_names": ["bird"], "attributes": ["Red", "tall"], **box}]},
        {"image_id": 4, "objects": None},
        {"image_id": "x", "objects": [{"names": ["lost"], **box}]},
    ]
    path.write_text(json.dumps(records))
    objects = SimulatedObjects()
    objects.read(path)
    known = objects.sealed()
    assert known.of(2) == [((1, 2, 3, 4), "a dog", ())]
    assert known.of(1) == [((1, 2, 3, 4), "bird", ("red", "tall")), ((1, 2, 3, 4), "cat", ())]
    assert known.of(3) == known.of(4) == []
    path.write_text("[]")
    with pytest.raises(UserError, match=r"no objects in it, expected Visual Genome's objects.json"):
        SimulatedObjects().read(path)


def test_published_files(tmp_path: Path, prepare: Any) -> None:
    if "PMN_BENCH_SAMPLES" not in os.environ:
        pytest.skip("needs the samples that PMN_BENCH_SAMPLES names")
    genome = Path(os.environ["PMN_BENCH_SAMPLES"]) / "visual_genome"
    for name in ("objects.json", "objects_v1_2.json", "attributes.json"):
        made = simulate(
            prepare,
            tmp_path / name,
            (genome / "image_data.json", genome / name),
            dimensions=8,
            limit=20,
        )
        assert made.columns["image"].tolist() == list(range(1, 21))
        assert made.columns["width"][0] == 800
        assert made.columns["mask"].sum() > 20 * 10
