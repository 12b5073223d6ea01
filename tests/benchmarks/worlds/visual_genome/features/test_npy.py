"""Folders of numpy's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features.images import Image, Skipped
from benchmarks.worlds.visual_genome.features.npy import NpyFolder
from benchmarks.worlds.visual_genome.features.readers import find_reader


@pytest.fixture
def made(tmp_path: Path, photos: Any, writers: Any) -> tuple[Path, Any]:
    images = sorted(photos(3, boxes=4))
    return writers["npy"](tmp_path, images), images


def files(folder: Path, number: int) -> tuple[Path, Path]:
    name = f"COCO_train2014_{number:012d}"
    return folder / f"{name}.npy", folder / f"{name}_info.npy"


ABSENT = object()


def change_info(path: Path, **changes: Any) -> None:
    info = {**np.load(path, allow_pickle=True).item(), **changes}
    kept: Any = {name: value for name, value in info.items() if value is not ABSENT}
    np.save(path, kept)


def test_what_files_say(made: tuple[Path, Any]) -> None:
    folder, images = made
    reader = find_reader(folder)
    assert isinstance(reader, NpyFolder) and reader.size == 3
    for photo, image in zip(images, reader, strict=True):
        assert isinstance(image, Image)
        assert (image.id, image.width, image.height) == photo[:3]
        np.testing.assert_array_equal(image.boxes, photo.boxes)
        np.testing.assert_array_equal(image.features, photo.features)
        np.testing.assert_array_equal(image.confidences, photo.confidences)


def test_rows_beyond_the_number_of_boxes_are_padding(made: tuple[Path, Any]) -> None:
    folder, images = made
    features, info = files(folder, images[0].id)
    np.save(features, np.asfortranarray(np.pad(images[0].features, ((0, 9), (0, 0)))))
    change_info(info, num_boxes=3, image_width=np.float32(640), cls_prob=images[0].confidences)
    image = next(iter(find_reader(folder)))
    assert isinstance(image, Image) and image.width == 640 and len(image.boxes) == 3
    np.testing.assert_array_equal(image.features, images[0].features[:3])
    assert image.confidences is not None
    np.testing.assert_array_equal(image.confidences, images[0].confidences[:3])


def test_without_confidences(made: tuple[Path, Any]) -> None:
    folder, images = made
    change_info(files(folder, images[0].id)[1], cls_prob=ABSENT)
    image = next(iter(find_reader(folder)))
    assert isinstance(image, Image) and image.confidences is None


class Attack:
    def __reduce__(self) -> Any:
        return os.system, ("touch taken",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bbox": ABSENT}, "has no bbox"),
        ({"bbox": None}, "bbox is no array of floats"),
        ({"bbox": [[0, 0, 1, 1]]}, "bbox is no array of floats"),
        ({"bbox": np.zeros((4, 5), "f4")}, "another shape"),
        ({"image_width": ABSENT}, "has no image_width"),
        ({"image_height": "tall"}, "image_height is no number"),
        ({"image_height": 10**400}, "image_height is no number"),
        ({"image_height": float("nan")}, "image_height is no number"),
        ({"image_height": -4}, "width or height is none"),
        ({"num_boxes": -4}, "no boxes"),
        ({"cls_prob": np.zeros((2, 2), "f4")}, "not as many confidences"),
        ({"objects": Attack()}, "system, which is no plain"),
    ],
)
def test_what_is_wrong_with_an_info(
    made: tuple[Path, Any], changes: dict[str, Any], reason: str
) -> None:
    folder, images = made
    change_info(files(folder, images[1].id)[1], **changes)
    first, skipped, third = find_reader(folder)
    assert isinstance(first, Image) and isinstance(third, Image)
    assert isinstance(skipped, Skipped) and skipped.id == images[1].id
    assert reason in skipped.reason
    assert not Path("taken").exists()


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        header("(4, 4)"),  # nothing follows
        header(f"({10**15}, {10**15})") + bytes(64),
        header("(4, -4)") + bytes(64),
        header("(4, 4)", "<i4") + bytes(64),
        header("(4, 4)", "|O") + bytes(64),
        header("(4, 4") + bytes(64),
        header("__import__('os').system('touch taken')") + bytes(64),
        b"\x93NUMPY\x09\x00" + bytes(64),
    ],
)
def test_features_that_are_none(made: tuple[Path, Any], content: bytes) -> None:
    folder, images = made
    files(folder, images[0].id)[0].write_bytes(content)
    skipped = next(iter(find_reader(folder)))
    assert isinstance(skipped, Skipped) and skipped.id == images[0].id
    assert skipped.reason.startswith("damaged: ") and not Path("taken").exists()


def test_half_of_a_pair(made: tuple[Path, Any]) -> None:
    folder, images = made
    files(folder, images[0].id)[0].unlink()
    files(folder, images[1].id)[1].unlink()
    both = "not both of NAME.npy and NAME_info.npy"
    expected = [Skipped(images[0].id, both), Skipped(images[1].id, both)]
    assert list(find_reader(folder))[:2] == expected
