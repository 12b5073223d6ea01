"""Features in HDF5 with a pickle beside: rows of arrays, and which image has which row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from benchmarks.worlds.visual_genome.features.images import (
    MOST_DETECTED,
    Floats,
    Image,
    Skipped,
    UnreadableError,
    checked,
    image_number,
)
from benchmarks.worlds.visual_genome.features.pickles import RefusedError, load_plain
from benchmarks.worlds.visual_genome.features.readers import Reader
from pmn_cl.errors import UserError

_NEEDED = ("image_features", "image_bb", "spatial_features")
# What h5py raises where a file is damaged.
_DAMAGED = (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError)
_WIDEST = 1 << 16  # features of a box
_FARTHEST = 0.05  # of a side: nearer to the origin, a quotient is a poor estimate of the size


class Hdf5WithPickle(Reader):
    """What is often made of the 36-box TSV for VQA: ``train36.hdf5`` and its index.

    It keeps no sizes of images; they are what boxes in pixels are divided by to give
    ``spatial_features``. Where there is ``pos_boxes``, images have any number of boxes, which it
    says the place of.
    """

    summary = "a HDF5 file of image_features, image_bb, spatial_features with NAME_imgid2idx.pkl"
    fixed_is_ordered = True

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether it is a HDF5 file with features and boxes."""
        try:
            if not path.is_file() or not h5py.is_hdf5(path):
                return False
            with h5py.File(path, "r") as file:
                return "image_features" in file and "image_bb" in file
        except _DAMAGED:
            return False

    @property
    def size(self) -> int:
        """Return the number of images."""
        return len(self._rows)

    def files(self) -> list[Path]:
        """Return the HDF5 file and the pickle."""
        return [self.path, self._index]

    @cached_property
    def _index(self) -> Path:
        expected = self.path.with_name(f"{self.path.stem}_imgid2idx.pkl")
        if not expected.is_file():
            raise UserError(
                f"{expected}: no such file; it lists which image has which row of "
                f"{self.path.name}: put it beside"
            )
        return expected

    @cached_property
    def _rows(self) -> list[tuple[int, str]]:
        """Row and name of each image, in the order of rows."""
        try:
            kept = load_plain(self._index.read_bytes())
        except RefusedError as error:
            raise UserError(
                f"{self._index}: {error}; expected a dict from image id to row. Get it anew"
            ) from error
        if not isinstance(kept, dict) or not kept:
            raise UserError(
                f"{self._index}: holds a {type(kept).__name__}, expected a dict from image id "
                "to row. Get it anew"
            )
        whole = (int, np.integer)
        return sorted(
            (int(row) if isinstance(row, whole) else -1, str(name)) for name, row in kept.items()
        )

    def __iter__(self) -> Iterator[Image | Skipped]:
        rows = self._rows[self.position :]
        try:
            with h5py.File(self.path, "r") as file:
                parts = _Parts(file, self.path)
                for row, name in rows:
                    self.position += 1
                    yield self._image(parts, row, name)
        except _DAMAGED as error:
            raise UserError(f"{self.path}: cannot be read ({error}); get it anew") from error

    def _image(self, parts: _Parts, row: int, name: str) -> Image | Skipped:
        number: int | str = name[:100]
        try:
            number = image_number(name)
            if reason := self.unwanted(number):
                return Skipped(number, reason)
            return checked(parts.image(number, row))
        except UnreadableError as error:
            return Skipped(number, f"damaged: {error}")


class _Parts:
    """The arrays of the file, as far as they are what they should be."""

    def __init__(self, file: h5py.File, path: Path) -> None:
        for name in _NEEDED:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise UserError(f"{path}: has no {name}; expected {', '.join(_NEEDED)}")
            if not isinstance(file[name], h5py.Dataset) or file[name].dtype.kind != "f":
                raise UserError(f"{path}: {name} is no array of floats")
        self.features, self.boxes, self.scaled = (file[name] for name in _NEEDED)
        self.places = file.get("pos_boxes")
        dimensions = 3 if self.places is None else 2
        widths = (None, 4, 6)
        for name, width in zip(_NEEDED, widths, strict=True):
            shape = file[name].shape
            if len(shape) != dimensions or width not in (None, shape[-1]):
                expected = f"{dimensions} dimensions" + (f", the last of {width}" if width else "")
                raise UserError(f"{path}: {name} is of shape {shape}, expected {expected}")
        if self.features.shape[-1] > _WIDEST or (dimensions == 3 and self.features.shape[1] > 1000):
            raise UserError(f"{path}: image_features of shape {self.features.shape}: damaged")

    def image(self, number: int, row: int) -> Image:
        """Read the image of one row."""
        try:
            place = self._place(row)
            boxes, scaled = self.boxes[place], self.scaled[place]
            features = self.features[place]
        except UnreadableError:
            raise
        except _DAMAGED as error:
            raise UnreadableError("its row cannot be read") from error
        width = _side(boxes[:, 2], scaled[:, 2])
        height = _side(boxes[:, 3], scaled[:, 3])
        return Image(number, width, height, boxes, features)

    def _place(self, row: int) -> int | slice:
        images = self.boxes if self.places is None else self.places
        if not 0 <= row < len(images):
            raise UnreadableError("its row is not in the file")
        if self.places is None:
            return row
        start, stop = map(int, self.places[row])
        if not 0 <= start < stop <= min(len(self.boxes), start + MOST_DETECTED):
            raise UnreadableError("its boxes are not in the file")
        return slice(start, stop)


def _side(pixels: Floats, scaled: Floats) -> int:
    """Return the side of an image that pixels are divided by."""
    usable = (scaled > _FARTHEST) & np.isfinite(pixels) & np.isfinite(scaled)
    if not usable.any():
        raise UnreadableError("no box shows the size of the image")
    side = float(np.median(pixels[usable].astype("f8") / scaled[usable]))
    if not 0.5 <= side <= 1e6:
        raise UnreadableError("width or height is none of an image")
    return round(side)
