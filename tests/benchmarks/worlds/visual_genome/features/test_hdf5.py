"""The 36-box HDF5 file and its pickle."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features.hdf5 import Hdf5WithPickle
from benchmarks.worlds.visual_genome.features.images import Image, Skipped
from benchmarks.worlds.visual_genome.features.readers import find_reader
from pmn_cl.errors import UserError


@pytest.fixture
def made(tmp_path: Path, photos: Any, writers: Any) -> tuple[Path, Any]:
    images = photos(4, boxes=6)
    return writers["hdf5"](tmp_path, images), images


def index(path: Path) -> Path:
    return path.with_name("photos36_imgid2idx.pkl")


def test_sizes_come_back_out_of_scaled_boxes(made: tuple[Path, Any]) -> None:
    path, images = made
    reader = find_reader(path)
    assert isinstance(reader, Hdf5WithPickle) and reader.size == 4
    for photo, image in zip(images, reader, strict=True):
        assert isinstance(image, Image)
        assert (image.id, image.width, image.height) == photo[:3]
        np.testing.assert_array_equal(image.boxes, photo.boxes)
        np.testing.assert_array_equal(image.features, photo.features)


def test_it_goes_on_from_any_position(made: tuple[Path, Any]) -> None:
    path, images = made
    for position in range(5):
        reader = Hdf5WithPickle(path)
        reader.position = position
        assert [image.id for image in reader] == [photo.id for photo in images[position:]]


def test_any_number_of_boxes_where_their_places_are_said(tmp_path: Path, photos: Any) -> None:
    images = [photos(1, boxes=count, seed=count)[0] for count in (3, 5)]
    images = [photo._replace(id=number) for number, photo in enumerate(images)]
    path = tmp_path / "train.hdf5"
    scaled = [p.boxes / np.array([p.width, p.height] * 2) for p in images]
    with h5py.File(path, "w") as file:
        file["image_features"] = np.concatenate([p.features for p in images])
        file["image_bb"] = np.concatenate([p.boxes for p in images])
        file["spatial_features"] = np.pad(np.concatenate(scaled), ((0, 0), (0, 2)))
        file["pos_boxes"] = np.array([[0, 3], [3, 8], [8, 99]])
    (tmp_path / "train_imgid2idx.pkl").write_bytes(pickle.dumps({0: 0, 1: 1, 2: 2}))
    first, second, third = find_reader(path)
    assert (first.width, len(first.boxes)) == (images[0].width, 3)
    np.testing.assert_array_equal(second.features, images[1].features)
    assert third == Skipped(2, "damaged: its boxes are not in the file")


def test_rows_that_are_not_there_or_never_filled(made: tuple[Path, Any]) -> None:
    path, images = made
    with h5py.File(path, "r+") as file:
        for name in ("image_bb", "spatial_features"):
            file[name][1] = 0
    rows = {photo.id: row for row, photo in enumerate(images)}
    index(path).write_bytes(pickle.dumps({**rows, 1001: 9, 1002: -1, 1003: "three", "x": 2}))
    found = {item.id: item for item in find_reader(path)}
    assert isinstance(found[images[0].id], Image) and isinstance(found[images[2].id], Image)
    assert found[images[1].id].reason == "damaged: no box shows the size of the image"
    for number in (1001, 1002, 1003):
        assert found[number].reason == "damaged: its row is not in the file"
    assert found["x"] == Skipped("x", "damaged: no image id")


class Attack:
    def __reduce__(self) -> Any:
        return os.system, ("touch taken",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "photos36_imgid2idx.pkl: no such file; it lists which image has which row"),
        (pickle.dumps({1: Attack()}), r"system, which is no plain .* nothing of it was run"),
        (pickle.dumps([1, 2]), "holds a list, expected a dict"),
        (pickle.dumps({}), "holds a dict, expected a dict from image id"),
        (b"no pickle", "damaged pickle"),
    ],
)
def test_an_index_that_is_none(made: tuple[Path, Any], content: bytes | None, message: str) -> None:
    path, _ = made
    index(path).unlink()
    if content is not None:
        index(path).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(find_reader(path))
    assert not Path("taken").exists()


def replace(path: Path, name: str, values: Any) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        if values is not None:
            file[name] = values


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("spatial_features", None, "has no spatial_features; expected image_features, image_bb"),
        ("image_bb", np.zeros((4, 6, 5), "f4"), r"image_bb is of shape \(4, 6, 5\), expected"),
        ("image_features", np.zeros((4, 6, 3), "i4"), "no array of floats"),
        ("image_features", np.zeros((4, 6), "f4"), "expected 3 dimensions"),
        ("image_bb", h5py.ExternalLink("/etc/other.h5", "x"), "has no image_bb"),
    ],
)
def test_arrays_that_are_none(made: tuple[Path, Any], name: str, values: Any, message: str) -> None:
    path, _ = made
    replace(path, name, values)
    with pytest.raises(UserError, match=message):
        list(Hdf5WithPickle(path))
