"""Made-up region features, to try annotations without extracted features.

An annotated object gives a box that is a little off, as a detector's would be. Its features are
those of its class, the same in every image, with some of each of its attributes and noise, so that
tasks can be learned from them. Where nothing is known, boxes and features are noise.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.records import box_of, image_of, names_of, texts
from benchmarks.worlds.visual_genome.features.image_lists import VISUAL_GENOME, Sizes, size_or_usual
from benchmarks.worlds.visual_genome.features.images import Floats, Image, Skipped
from benchmarks.worlds.visual_genome.features.readers import Reader
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

_OFF = 0.05  # of a side, at most, so that boxes still overlap the true ones by 0.8
_ATTRIBUTE_SHARE, _NOISE = 0.5, 0.25
_MOST_OBJECTS, _BACKGROUND, _UNKNOWN = 48, 6, 18  # boxes

Box = tuple[float, float, float, float]


class SimulatedObjects:
    """Annotated objects of all images, in arrays: lists of millions would fill memory."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._image, self._name = array("q"), array("l")
        self._box = array("d")
        self._of, self._attribute = array("l"), array("l")  # object and attribute, in pairs

    def read(self, path: Path, progress: ProgressCallback | None = None) -> None:
        """Add the objects of a file, with their attributes where it has them."""
        found = len(self._image)
        for record in records(path, progress=progress):
            image = image_of(record)
            things = record.get("objects", record.get("attributes")) if image is not None else None
            for thing in things if isinstance(things, list) else ():
                if isinstance(thing, dict):
                    self._add(image or 0, thing)
        if len(self._image) == found:
            raise UserError(
                f"{path}: no objects in it, expected Visual Genome's objects.json or "
                "attributes.json"
            )

    def _add(self, image: int, thing: dict[str, Any]) -> None:
        names, box = names_of(thing), box_of(thing)
        if not names or box is None or not np.isfinite(box).all():
            return
        for attribute in texts(thing.get("attributes")):
            self._of.append(len(self._image))
            self._attribute.append(self._number(attribute))
        self._image.append(image)
        self._name.append(self._number(names[0]))
        self._box.extend(box)

    def _number(self, word: str) -> int:
        return self._words.setdefault(word.strip().lower(), len(self._words))

    def sealed(self) -> ObjectsByImage:
        """Return all that was read, to be asked by image."""
        return ObjectsByImage(
            list(self._words),
            np.array(self._image, "i8"),
            np.array(self._name, "i8"),
            np.array(self._box, "f8").reshape(-1, 4),
            np.array([self._of, self._attribute], "i8"),
        )


class ObjectsByImage:
    """What each image shows: boxes (x, y, width, height), names and attributes."""

    def __init__(
        self,
        words: list[str],
        image: NDArray[np.int64],
        name: NDArray[np.int64],
        box: NDArray[np.float64],
        attributes: NDArray[np.int64],
    ) -> None:
        order = np.argsort(image, kind="stable")
        self._words, self._order = words, order
        self._image, self._name, self._box = image[order], name, box
        by_object = attributes[:, np.argsort(attributes[0], kind="stable")]
        self._of, self._attribute = by_object

    def of(self, image: int) -> list[tuple[Box, str, tuple[str, ...]]]:
        """Return the objects of an image, those with attributes first."""
        first, last = np.searchsorted(self._image, [image, image + 1])
        found = []
        for place in self._order[first:last].tolist():
            start, stop = np.searchsorted(self._of, [place, place + 1])
            attributes = tuple(self._words[a] for a in self._attribute[start:stop].tolist())
            x, y, width, height = self._box[place].tolist()
            found.append(((x, y, width, height), self._words[self._name[place]], attributes))
        return sorted(found, key=lambda thing: not thing[2])


class Simulated(Reader):
    """Makes up images of one list, each from its id and the seed alone."""

    summary = "simulated"

    def __init__(
        self,
        paths: tuple[Path, ...],
        source: int,
        images: Sizes,
        objects: ObjectsByImage | None,
        dimensions: int,
        seed: int,
    ) -> None:
        super().__init__(paths[0])
        self._paths, self._source, self._seed = paths, source, seed
        self._images = [(image, size) for image, size in images.items() if image.source == source]
        self._objects = objects if source == VISUAL_GENOME else None
        self.dimensions = dimensions

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return False: no file has a form that is made up."""
        return False

    @property
    def size(self) -> int:
        """Return the number of images."""
        return len(self._images)

    def files(self) -> list[Path]:
        """Return the lists, and the objects."""
        return list(self._paths)

    def fingerprint(self) -> str:
        """Return what decides everything that it makes up."""
        return f"{super().fingerprint()} {self._source} {self.dimensions} {self._seed}"

    def __iter__(self) -> Iterator[Image | Skipped]:
        for (_, image), size in self._images[self.position :]:
            self.position += 1
            if reason := self.unwanted(image):
                yield Skipped(image, reason)
            else:
                yield self._make(image, *size_or_usual(size))

    def _make(self, image: int, width: int, height: int) -> Image:
        rng = np.random.default_rng([self._seed, self._source, image])
        things = self._objects.of(image)[:_MOST_OBJECTS] if self._objects else []
        found = np.array([_corners(box) for box, _, _ in things]).reshape(-1, 4)
        sides = np.tile(found[:, 2:] - found[:, :2], 2)
        found += rng.uniform(-_OFF, _OFF, found.shape) * sides
        others = _anywhere(_BACKGROUND if things else _UNKNOWN, width, height, rng)
        boxes = np.concatenate([found, others])
        features = rng.standard_normal((len(boxes), self.dimensions), "f4") * np.float32(_NOISE)
        for row, (_, name, attributes) in enumerate(things):
            features[row] += self._look(f"object {name}")
            for attribute in attributes:
                features[row] += _ATTRIBUTE_SHARE * self._look(f"attribute {attribute}")
        confidences = np.linspace(1, 0, len(boxes), dtype="f4")
        return Image(image, width, height, boxes.astype("f4"), np.maximum(features, 0), confidences)

    def _look(self, name: str) -> Floats:
        return _look(name, self.dimensions, self._seed)


@lru_cache(maxsize=4096)
def _look(name: str, dimensions: int, seed: int) -> Floats:
    """Return what things of this name look like."""
    number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
    drawn = np.random.default_rng([seed, number]).standard_normal(dimensions, "f4")
    return np.maximum(drawn, 0)


def _corners(box: Box) -> Box:
    x, y, width, height = box
    return x, y, x + width, y + height


def _anywhere(count: int, width: int, height: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random boxes of all sizes."""
    size = rng.uniform(0.1, 0.6, (count, 2))
    start = rng.uniform(0, 1 - size)
    return np.concatenate([start, start + size], axis=1) * [width, height, width, height]
