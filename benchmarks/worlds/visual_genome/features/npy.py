"""Features as a folder of numpy's files: ``NAME.npy`` and ``NAME_info.npy`` for each image."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from benchmarks.worlds.visual_genome.features.images import (
    LONGEST_SIDE,
    Floats,
    Image,
    Skipped,
    UnreadableError,
    checked,
    image_number,
)
from benchmarks.worlds.visual_genome.features.pickles import RefusedError, load_plain
from benchmarks.worlds.visual_genome.features.readers import Reader

_LARGEST = 1 << 28  # bytes of one file
_INFO = "_info.npy"


class NpyFolder(Reader):
    """The form of Pythia and MMF: features as an array, boxes and sizes as a pickled dict."""

    summary = "a folder of NAME.npy and NAME_info.npy (bbox, num_boxes, image_width, image_height)"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether it is a folder with one of the files that go with features."""
        return path.is_dir() and any(name.endswith(_INFO) for name in _names(path))

    @cached_property
    def _images(self) -> list[str]:
        """Names of all images, with features or without."""
        names = {name.removesuffix(_INFO) for name in _names(self.path) if name.endswith(_INFO)}
        names |= {name.removesuffix(".npy") for name in _names(self.path) if _is_features(name)}
        return sorted(names)

    @property
    def size(self) -> int:
        """Return the number of images."""
        return len(self._images)

    def files(self) -> list[Path]:
        """Return the files of all images."""
        return [self.path / name for name in sorted(_names(self.path)) if name.endswith(".npy")]

    def fingerprint(self) -> str:
        """Return what identifies the folder: names and sizes of its files."""
        found = hashlib.sha256()
        for path in self.files():
            found.update(f"{path.name} {path.stat().st_size} ".encode("utf-8", "surrogateescape"))
        return found.hexdigest()

    def __iter__(self) -> Iterator[Image | Skipped]:
        for name in self._images[self.position :]:
            self.position += 1
            yield self._image(name)

    def _image(self, name: str) -> Image | Skipped:
        number: int | str = name[:100]
        try:
            number = image_number(name)
            if reason := self.unwanted(number):
                return Skipped(number, reason)
            features = _read_array(self.path / f"{name}.npy")
            return checked(_image_of(number, features, _read_info(self.path / f"{name}{_INFO}")))
        except UnreadableError as error:
            return Skipped(number, f"damaged: {error}")
        except FileNotFoundError:
            return Skipped(number, "not both of NAME.npy and NAME_info.npy")
        except OSError as error:
            return Skipped(number, f"cannot be read: {error.strerror}")


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder)]


def _is_features(name: str) -> bool:
    return name.endswith(".npy") and not name.endswith((_INFO, "_full.npy"))


def _image_of(number: int, features: Floats, info: dict[Any, Any]) -> Image:
    """Return an image of its two files; programs that write them differ in names."""
    boxes = _array(info, "bbox", "boxes")
    count = min(len(boxes), len(features), _whole(info, "num_boxes", default=len(boxes)))
    scores = _array(info, "cls_prob", "objects_conf", default=None)
    if scores is not None and scores.ndim == 2 and scores.shape[1]:
        scores = scores.max(axis=1)
    return Image(
        number,
        _whole(info, "image_width", "image_w", "width"),
        _whole(info, "image_height", "image_h", "height"),
        boxes[: max(0, count)],
        features[: max(0, count)],
        None if scores is None else scores[: max(0, count)],
    )


_ABSENT = object()


def _value(info: dict[Any, Any], *names: str, default: Any = _ABSENT) -> Any:
    for name in names:
        if name in info:
            return info[name]
    if default is _ABSENT:
        raise UnreadableError(f"NAME_info.npy has no {names[0]}")
    return default


def _array(info: dict[Any, Any], *names: str, default: Any = _ABSENT) -> Any:
    found = _value(info, *names, default=default)
    if found is None and default is None:
        return None
    if not isinstance(found, np.ndarray) or found.ndim < 1 or found.dtype.kind != "f":
        raise UnreadableError(f"{names[0]} is no array of floats")
    return found


def _whole(info: dict[Any, Any], *names: str, default: Any = _ABSENT) -> int:
    found = _value(info, *names, default=default)
    if isinstance(found, np.ndarray) and found.size == 1:
        found = found.item()
    is_number = isinstance(found, (int, float, np.integer, np.floating))
    if not is_number or not abs(found) <= LONGEST_SIDE:  # nor NaN
        raise UnreadableError(f"{names[0]} is no number")
    return int(found)


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of the array in a file."""
    read = {
        (1, 0): npy_format.read_array_header_1_0,
        (2, 0): npy_format.read_array_header_2_0,
    }
    try:
        shape, by_columns, dtype = read[npy_format.read_magic(file)](file)
        return shape, by_columns, np.dtype(dtype)
    except Exception as error:  # damaged bytes can make it raise anything
        raise UnreadableError("no file of numpy's") from error


def _bytes_of(path: Path) -> BinaryIO:
    if path.stat().st_size > _LARGEST:
        raise UnreadableError("a file larger than an image's can be")
    return io.BytesIO(path.read_bytes())


def _read_array(path: Path) -> Floats:
    """Read an array of floats: no more of it than the file has."""
    file = _bytes_of(path)
    shape, by_columns, dtype = _header(file)
    raw = file.read()
    if dtype.kind != "f" or dtype.itemsize * math.prod(shape) != len(raw) or not raw:
        raise UnreadableError("features are no floats, or cut off")
    array: Floats = np.frombuffer(raw, dtype).reshape(shape, order="F" if by_columns else "C")
    return array


def _read_info(path: Path) -> dict[Any, Any]:
    """Read a pickled dict in an array of one object."""
    file = _bytes_of(path)
    shape, _, dtype = _header(file)
    if dtype.kind != "O" or math.prod(shape) != 1:
        raise UnreadableError("NAME_info.npy holds no dict")
    try:
        held = load_plain(file.read())
        info = held.item() if isinstance(held, np.ndarray) else held
    except (RefusedError, ValueError) as error:
        raise UnreadableError(f"NAME_info.npy is {error}") from error
    if not isinstance(info, dict):
        raise UnreadableError("NAME_info.npy holds no dict")
    return info
