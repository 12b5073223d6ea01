"""The tables of genome.h5: samples of obj, att and rel, and facts that questions are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.genome.files import (
    Attributes,
    ImageObjects,
    Images,
    Ints,
    Relations,
)
from benchmarks.worlds.visual_genome.annotations.genome.matches import DIRECTIONS, Matched
from benchmarks.worlds.visual_genome.annotations.parts import Made, Table
from benchmarks.worlds.visual_genome.annotations.splits import (
    SPLITS,
    TRAIN,
    split_by_standing,
    standing,
)
from benchmarks.worlds.visual_genome.annotations.tally import Summary
from benchmarks.worlds.visual_genome.annotations.vocabularies import Classes
from pmn_cl.data.store import StoreWriter
from pmn_cl.errors import UserError

_CHUNK = 500  # scenes whose attributes are spread out at a time
# Of the publication, section 4.1 and appendix B.2.
_PAPERS_INSTANCES = {"train": "780,000 instances", "val": "195,000"}
_PAPERS_TUPLES = {"train": "200,000", "val": "38,000"}


@dataclass(frozen=True)
class Labelled:
    """Images with what was found about their boxes."""

    images: Images
    objects: ImageObjects
    attributes: Attributes  # of all objects
    relations: Relations
    owner: Ints  # (images, N): the thing of ``attributes`` that a box shows, or -1
    matched: list[Matched]

    @cached_property
    def has_owner(self) -> NDArray[np.bool_]:
        """Return which boxes show an object (images, N)."""
        return self.owner >= 0

    @cached_property
    def attribute_lists(self) -> tuple[Ints, Ints]:
        """Return where each thing's attributes begin (things + 1,), and all attributes."""
        order = np.argsort(self.attributes.owner, kind="stable")
        ends = np.arange(len(self.attributes.things) + 1)
        starts = np.searchsorted(self.attributes.owner[order], ends)
        return starts, self.attributes.attribute[order]

    @cached_property
    def has_attributes(self) -> NDArray[np.bool_]:
        """Return which boxes show an object with attributes (images, N)."""
        some = np.append(np.diff(self.attribute_lists[0]) > 0, False)  # the last belongs to none
        return np.asarray(some[self.owner])


def make_tables(
    found: Labelled,
    classes: Mapping[str, Classes],
    summary: Summary,
    *,
    held_out: float,
    limit: int | None,
) -> Made:
    """Choose the images, split them, and make the tables."""
    chosen = _choose(found, limit, summary)
    images = found.images
    standings = [
        standing("coco", int(images.coco[row])) if images.coco[row] >= 0
        else standing("vg", int(images.id[row]))
        for row in chosen
    ]  # fmt: skip
    numbers = split_by_standing(standings, held_out, held_out)
    rows_of = {split: chosen[numbers == number] for number, split in enumerate(SPLITS)}
    tables: dict[str, Table] = {}
    for split, rows in rows_of.items():
        tables[f"{split}/obj"] = _object_table(found, rows)
        tables[f"{split}/rel"] = _relation_table(found, rows)
        _count(found, split, rows, summary)
    shares = f"{100 - 2 * held_out:g}/{held_out:g}/{held_out:g}"
    summary.add("percent of the images, by a hash of their ids", shares, "about 84/16, train/val")
    matched = [found.matched[row] for row in chosen]
    summary.tally.note(
        "relations without an extracted box at each end (IoU > 0.7): left out",
        times=sum(len(m.rows) - m.fitting for m in matched),
    )
    train = rows_of[SPLITS[TRAIN]]
    tables["facts/objects"] = _object_facts(found, train)
    tables["facts/relations"] = _relation_facts(found, train)
    regions, width = found.owner.shape[1], len(classes["attributes"])
    names = {
        "objects": ["background", *classes["objects"].names],
        "attributes": classes["attributes"].names,
        "relations": classes["relations"].names,
        "directions": list(DIRECTIONS),
        "rel kinds": list(DIRECTIONS),
    }

    def write_attributes(store: StoreWriter) -> None:
        for split, rows in rows_of.items():
            name = f"{split}/att"
            store.create(f"{name}/scene", len(rows), (), "i4")
            store.append(f"{name}/scene", images.scene[rows])
            store.create(f"{name}/asked", len(rows), (regions,), "?")
            store.append(f"{name}/asked", found.has_owner[rows])
            store.create(f"{name}/attributes", len(rows), (regions, width), "?")
            for some in _chunks(rows):
                dense = spread(found.owner[some], *found.attribute_lists, width)
                store.append(f"{name}/attributes", dense)

    return Made(names, tables, summary, len(chosen) * regions * (width + 1), write_attributes)


def _choose(found: Labelled, limit: int | None, summary: Summary) -> Ints:
    """Return the images that have a labelled box; the first of those with all, if limited."""
    images, usable = found.images, found.has_owner.any(axis=1)
    summary.tally.note_all(
        "images where no box overlaps an object by more than half: left out",
        images.id[~usable].tolist(),
    )
    if limit is not None:
        related = np.array([len(matched.box) > 0 for matched in found.matched])
        complete = found.has_attributes.any(axis=1) & related
        summary.add("images that have what obj, att and rel need", int(complete.sum()))
        chosen = np.flatnonzero(complete)[:limit]
    else:
        chosen = np.flatnonzero(usable)
    if len(chosen) < len(SPLITS):
        raise UserError(
            f"{len(chosen)} images with annotated boxes are left, expected at least {len(SPLITS)}; "
            "do the features belong to these images?"
        )
    return chosen


def _count(found: Labelled, split: str, rows: Ints, summary: Summary) -> None:
    """Put the publication's figures beside ours."""
    matched = [found.matched[row] for row in rows]
    labelled, described = found.has_owner[rows].sum(), found.has_attributes[rows].sum()
    summary.add(f"{split}: images", len(rows))
    summary.add(f"{split}: labelled boxes", int(labelled), _PAPERS_INSTANCES.get(split, ""))
    summary.add(f"{split}: boxes with attributes", int(described))
    tuples = sum(m.tuples for m in matched)
    summary.add(f"{split}: relation tuples", tuples, _PAPERS_TUPLES.get(split, ""))
    summary.add(f"{split}: relation samples", sum(len(m.box) for m in matched))


def _object_table(found: Labelled, rows: Ints) -> Table:
    asked = found.has_owner[rows]
    labels = np.append(found.attributes.things.label + 1, 0)  # the last is background
    return {
        "scene": found.images.scene[rows].astype("i4"),
        "label": labels[found.owner[rows]].astype("i2"),
        "asked": asked,
    }


def _relation_table(found: Labelled, rows: Ints) -> Table:
    matched = [found.matched[row] for row in rows]
    scene = np.repeat(found.images.scene[rows], [len(m.box) for m in matched])
    columns = {
        name: np.concatenate([getattr(m, name) for m in matched]).astype("i1")
        for name in ("box", "relation", "direction", "target")
    }
    satisfying = np.concatenate([m.satisfying for m in matched])
    kind = columns["direction"].astype("u1")
    return {"scene": scene.astype("i4"), **columns, "satisfying": satisfying, "kind": kind}


def _object_facts(found: Labelled, train: Ints) -> Table:
    """Count the objects of each class in each training image: what synthetic questions ask."""
    things = found.objects.things
    mine = np.isin(things.image, train)
    pairs = np.stack([things.image[mine], things.label[mine]], axis=1)
    unique, counts = np.unique(pairs, axis=0, return_counts=True)
    return {
        "scene": found.images.scene[unique[:, 0]].astype("i4"),
        "object": (unique[:, 1] + 1).astype("i2"),
        "count": counts.astype("i4"),
    }


def _relation_facts(found: Labelled, train: Ints) -> Table:
    """Return the triplets of training images between things of known classes.

    ``subject_thing`` numbers things: two triplets with the same one are about the same thing.
    """
    matched = [found.matched[row] for row in train]
    rows = np.concatenate([m.rows for m in matched])
    boxes = np.concatenate([m.object_boxes for m in matched])
    subject, end = found.relations.subject.chosen(rows), found.relations.object.chosen(rows)
    known = (subject.label >= 0) & (end.label >= 0) & boxes.any(axis=1)
    things = np.stack([subject.image, subject.id], axis=1)[known]
    _, numbers = np.unique(things, axis=0, return_inverse=True)
    return {
        "scene": found.images.scene[subject.image[known]].astype("i4"),
        "subject": (subject.label[known] + 1).astype("i2"),
        "subject_thing": numbers.reshape(-1).astype("i4"),
        "relation": found.relations.relation[rows][known].astype("i1"),
        "object": (end.label[known] + 1).astype("i2"),
        "object_boxes": boxes[known],
    }


def _chunks(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))


def spread(owner: Ints, starts: Ints, attributes: Ints, width: int) -> NDArray[np.bool_]:
    """Return which attributes each box has (images, N, attributes), from its thing's list."""
    flat = owner.ravel()
    boxes = np.flatnonzero(flat >= 0)
    first, last = starts[flat[boxes]], starts[flat[boxes] + 1]
    lengths = last - first
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(first, lengths) + within
    dense = np.zeros((len(flat), width), bool)
    dense[np.repeat(boxes, lengths), attributes[places]] = True
    return dense.reshape(*owner.shape, width)
