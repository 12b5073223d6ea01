"""Visual Genome's files as columns: the annotations of the images that are kept, nothing else.

Versions 1.0, 1.2 and 1.4 name their fields differently, and do not agree on which objects there
are: attributes and ends of relations that are not among the objects bring a box and a name of
their own, which are then used.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.genome.boxes import fit_to_image
from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.records import (
    Corners,
    box_of,
    image_of,
    names_of,
    object_of,
    texts,
    whole_number,
)
from benchmarks.worlds.visual_genome.annotations.tally import Tally
from benchmarks.worlds.visual_genome.annotations.vocabularies import Classes
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Images:
    """The images that are kept, a row each, in the order of their scenes."""

    id: Ints
    scene: Ints  # the row in features.h5
    size: NDArray[np.float64]  # (n, 2): width, height
    coco: Ints  # -1 where it is none of COCO's
    listed: frozenset[int]  # the ids of all that image_data.json has, kept or not

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True)
class Things:
    """Annotated objects: the image (a row of ``Images``), id, class and box of each."""

    image: Ints
    id: Ints
    label: Ints
    box: NDArray[np.float32]  # (n, 4)

    def __len__(self) -> int:
        return len(self.image)

    def chosen(self, rows: NDArray[Any]) -> Things:
        """Return some of them."""
        return Things(self.image[rows], self.id[rows], self.label[rows], self.box[rows])

    def followed_by(self, others: Things) -> Things:
        """Return these and others."""
        return Things(
            np.concatenate([self.image, others.image]),
            np.concatenate([self.id, others.id]),
            np.concatenate([self.label, others.label]),
            np.concatenate([self.box, others.box]),
        )


class ImageObjects(NamedTuple):
    """Objects, and under which further ids they were known before they were merged."""

    things: Things
    merged_id: Ints
    merged_into: Ints  # a row of ``things``


class Attributes(NamedTuple):
    """Things with attributes, as their file has them."""

    things: Things
    owner: Ints  # a row of ``things`` for each attribute
    attribute: Ints


class Relations(NamedTuple):
    """Triplets: two ends and what stands between them. Labels are -1 for names of no class."""

    subject: Things
    relation: Ints
    object: Things


class _Gathered:
    """Things as they are read, one by one, in little memory."""

    def __init__(self) -> None:
        self.image, self.id, self.label = array("q"), array("q"), array("q")
        self.pixels = array("d")

    def add(self, image: int, number: int, label: int, pixels: Corners) -> int:
        self.image.append(image)
        self.id.append(number)
        self.label.append(label)
        self.pixels.extend(pixels)
        return len(self.image) - 1

    def fitted(self, images: Images, tally: Tally, what: str) -> tuple[Things, NDArray[np.bool_]]:
        """Return all of them with boxes as shares of their images, and which have an area."""
        image = np.array(self.image, np.int64)
        fitted = fit_to_image(np.array(self.pixels), images.size[image])
        for rows, reason in (
            (~fitted.usable, f"{what} without area inside the image: left out"),
            (fitted.reaching_out, f"{what} reaching out of the image: cut at its edge"),
        ):
            for row, times in zip(*np.unique(image[rows], return_counts=True), strict=True):
                tally.note(reason, int(images.id[row]), int(times))
        number, label = np.array(self.id, np.int64), np.array(self.label, np.int64)
        return Things(image, number, label, fitted.boxes), fitted.usable


class ImageRecord(NamedTuple):
    """An image in image_data.json."""

    id: int
    width: int
    height: int
    coco: int | None
    states_coco: bool  # whether it has a coco_id, or that it has none


def read_images(path: Path, tally: Tally, progress: ProgressCallback) -> list[ImageRecord]:
    """Read the list of all images."""
    found: dict[int, ImageRecord] = {}
    for record in records(path, progress=progress):
        image = image_of(record)
        if image is None:
            tally.note(f"records of {path.name} without an image: left out")
            continue
        width, height = whole_number(record.get("width")), whole_number(record.get("height"))
        if width is None or height is None or width < 1 or height < 1:
            tally.note(f"images without a size in {path.name}: left out", image)
        elif image in found:
            tally.note(f"images twice in {path.name}: the first counts", image)
        else:
            coco = whole_number(record.get("coco_id"))
            found[image] = ImageRecord(image, width, height, coco, "coco_id" in record)
    if not found:
        raise UserError(
            f"{path}: no image with image_id, width and height; is it the published file?"
        )
    return list(found.values())


def _by_image(
    path: Path, key: str, images: Images, tally: Tally, progress: ProgressCallback
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the annotations of each image that is kept: its row, and records."""
    row_of = {number: row for row, number in enumerate(images.id.tolist())}
    read: set[int] = set()
    usable, keys_seen = 0, ""
    for record in records(path, progress=progress):
        image = image_of(record)
        found = record.get(key) if isinstance(record, dict) else None
        if image is None or not isinstance(found, list):
            keys_seen = keys_seen or _keys(record)
            tally.note(f"records of {path.name} without an image or {key!r}: left out")
            continue
        usable += 1
        row = row_of.get(image)
        if row is None:
            if image not in images.listed:
                tally.note(f"images in {path.name} that image_data.json lacks: left out", image)
            continue
        if row in read:
            tally.note(f"images twice in {path.name}: the first counts", image)
            continue
        read.add(row)
        good = [item for item in found if isinstance(item, dict)]
        tally.note(f"damaged records in {path.name}: left out", image, len(found) - len(good))
        yield row, good
    if not usable:
        raise UserError(
            f"{path}: its records have {keys_seen or 'nothing'}, expected image_id (or id) and "
            f"{key!r}: another file's JSON? Compare its name with the published one"
        )


def _keys(record: Any) -> str:
    names = [f"{key:.40}" for key in record][:6] if isinstance(record, dict) else ["no object"]
    return ", ".join(names) or "nothing"


def read_objects(
    path: Path, images: Images, classes: Classes, tally: Tally, progress: ProgressCallback
) -> ImageObjects:
    """Read the objects that have a class and a box."""
    found = _Gathered()
    merged_id, merged_into = array("q"), array("q")
    for image, items in _by_image(path, "objects", images, tally, progress):
        for item in items:
            number, pixels, names = object_of(item), box_of(item), names_of(item)
            if number is None or pixels is None or not names:
                tally.note(f"damaged records in {path.name}: left out", int(images.id[image]))
                continue
            label = classes.find_any(names)
            if label is None:
                tally.note("objects of no class of the vocabulary: left out", names[0])
                continue
            row = found.add(image, number, label, pixels)
            if isinstance(item.get("merged_object_ids"), list):
                for other in map(whole_number, item["merged_object_ids"]):
                    if other is not None:
                        merged_id.append(other)
                        merged_into.append(row)
    things, usable = found.fitted(images, tally, "object boxes")
    into = np.array(merged_into, np.int64)
    kept = usable[into] if len(into) else np.zeros(0, bool)
    new_row = np.cumsum(usable) - 1
    ids = np.array(merged_id, np.int64)[kept]
    return ImageObjects(things.chosen(usable), ids, new_row[into[kept]])


def read_attributes(
    path: Path,
    images: Images,
    classes: Classes,
    attributes: Classes,
    tally: Tally,
    progress: ProgressCallback,
) -> Attributes:
    """Read the things that have attributes of the vocabulary."""
    found = _Gathered()
    owner, attribute = array("q"), array("q")
    for image, items in _by_image(path, "attributes", images, tally, progress):
        for item in items:
            given = texts(item["attributes"]) if "attributes" in item else ()
            known = set()
            for name in given:
                number = attributes.find(name)
                if number is None:
                    tally.note("attributes that are none of the vocabulary's: left out", name)
                else:
                    known.add(number)
            if not known:
                continue
            thing, pixels = object_of(item), box_of(item)
            if thing is None or pixels is None:
                tally.note(f"damaged records in {path.name}: left out", int(images.id[image]))
                continue
            label = classes.find_any(names_of(item))
            row = found.add(image, thing, -1 if label is None else label, pixels)
            owner.extend([row] * len(known))
            attribute.extend(sorted(known))
    things, usable = found.fitted(images, tally, "boxes with attributes")
    # One without area can still join the object that has its id.
    things.box[~usable] = 0
    return Attributes(things, np.array(owner, np.int64), np.array(attribute, np.int64))


def read_relations(
    path: Path,
    images: Images,
    classes: Classes,
    relations: Classes,
    tally: Tally,
    progress: ProgressCallback,
) -> Relations:
    """Read the triplets whose relation is one of the vocabulary's, with the boxes they bring."""
    ends = {"subject": _Gathered(), "object": _Gathered()}
    relation = array("q")
    nameless = 0
    for image, items in _by_image(path, "relationships", images, tally, progress):
        for item in items:
            predicate = item.get("predicate")
            boxes = {end: _box_of_end(item.get(end)) for end in ends}
            if not isinstance(predicate, str) or None in boxes.values():
                tally.note(f"damaged records in {path.name}: left out", int(images.id[image]))
                continue
            number = relations.find(predicate)
            if number is None:
                tally.note("relations that are none of the vocabulary's: left out", predicate)
                continue
            relation.append(number)
            for end, gathered in ends.items():
                thing = object_of(item[end])
                if thing is None:  # an end without an id is no other end
                    nameless -= 1
                    thing = nameless
                label = classes.find_any(names_of(item[end]))
                pixels = boxes[end]
                assert pixels is not None
                gathered.add(image, thing, -1 if label is None else label, pixels)
    subject, usable_subject = ends["subject"].fitted(images, tally, "boxes of relations' ends")
    found, usable_object = ends["object"].fitted(images, tally, "boxes of relations' ends")
    both = usable_subject & usable_object
    kept = np.array(relation, np.int64)[both]
    return Relations(subject.chosen(both), kept, found.chosen(both))


def _box_of_end(end: Any) -> Corners | None:
    return box_of(end) if isinstance(end, dict) else None


def join_attributes(objects: ImageObjects, found: Attributes, tally: Tally) -> Attributes:
    """Return all objects with their attributes.

    A thing with attributes that is not among the objects, neither by its id nor by one that was
    merged, is an object of its own: its record has a box and a name.
    """
    things, other = objects.things, found.things
    known_image = np.concatenate([things.image, things.image[objects.merged_into]])
    known_id = np.concatenate([things.id, objects.merged_id])
    known_row = np.concatenate([np.arange(len(things)), objects.merged_into])
    row = find_pairs((known_image, known_id), known_row, (other.image, other.id))
    alone = row < 0
    tally.note("things with attributes joined an object by its id", times=int((~alone).sum()))
    own = alone & (other.label >= 0) & (other.box[:, 2] > other.box[:, 0])
    tally.note(
        "things with attributes not among the objects: their own box and name used",
        times=int(own.sum()),
    )
    tally.note(
        "things with attributes not among the objects, without class or area: left out",
        times=int((alone & ~own).sum()),
    )
    row[own] = len(things) + np.arange(int(own.sum()))
    owner = row[found.owner]
    kept = owner >= 0
    pairs = np.unique(np.stack([owner[kept], found.attribute[kept]], axis=1), axis=0)
    return Attributes(things.followed_by(other.chosen(own)), pairs[:, 0], pairs[:, 1])


def find_pairs(known: Sequence[Ints], rows: Ints, sought: Sequence[Ints]) -> Ints:
    """Return the row of each pair (image, id) that is sought, the first one's; -1 if unknown."""
    ids, numbers = np.unique(np.concatenate([known[1], sought[1]]), return_inverse=True)
    keys = np.concatenate([known[0], sought[0]]) * max(1, len(ids)) + numbers
    known_key, sought_key = keys[: len(rows)], keys[len(rows) :]
    first_key, first = np.unique(known_key, return_index=True)
    if not len(first_key):
        return np.full(len(sought_key), -1, np.int64)
    place = np.searchsorted(first_key, sought_key).clip(max=len(first_key) - 1)
    return np.where(first_key[place] == sought_key, rows[first[place]], -1).astype(np.int64)
