"""Which extracted boxes annotated things are, and what can be asked of their relations.

A box belongs to the object that it overlaps most, if by more than half. A relation is a sample
where both its ends overlap a box by more than 0.7: one end and the relation are given, the box of
the other is sought, in both directions. Of the paper's Table 1 these are "object" and "subject":
the end that is sought.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.genome.files import Relations, Things
from benchmarks.worlds.visual_genome.overlaps import overlaps

DIRECTIONS = ("object", "subject")  # which end of a triplet is sought
_SAME_OBJECT, _SAME_BOX = 0.5, 0.7  # intersection over union, more than


class Grouped:
    """Which rows of some things are about which image."""

    def __init__(self, things: Things) -> None:
        self._order = np.argsort(things.image, kind="stable")
        self._images = things.image[self._order]

    def rows(self, image: int) -> NDArray[np.int64]:
        """Return the rows of an image, in their old order."""
        first, last = np.searchsorted(self._images, [image, image + 1])
        return self._order[first:last]


def owners(
    boxes: NDArray[Any], mask: NDArray[Any], objects: NDArray[Any], rows: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the object (of these rows) that each box overlaps most, by more than half, or -1."""
    owner = np.full(len(mask), -1, np.int64)
    if len(rows):
        shared = overlaps(boxes, objects[rows])
        best = shared.argmax(axis=1)
        good = mask & (shared[np.arange(len(mask)), best] > _SAME_OBJECT)
        owner[good] = rows[best[good]]
    return owner


class Matched(NamedTuple):
    """An image's relations that are samples, a row each, and which boxes all triplets end at."""

    box: NDArray[np.int64]
    relation: NDArray[np.int64]
    direction: NDArray[np.int64]
    target: NDArray[np.int64]
    satisfying: NDArray[np.bool_]  # (rows, N)
    tuples: int  # that differ
    fitting: int  # triplets with a box at each end
    rows: NDArray[np.int64]  # of all triplets of the image
    object_boxes: NDArray[np.bool_]  # (triplets, N): those that overlap their object


def match_relations(
    boxes: NDArray[Any], mask: NDArray[Any], relations: Relations, rows: NDArray[Any]
) -> Matched:
    """Find the boxes of the ends of an image's triplets, and ask for each end.

    Annotators name one end where several may fit: all boxes that overlap an end annotated for
    the same given box and relation are right.
    """
    close = {}
    best = {}
    for end, things in (("subject", relations.subject), ("object", relations.object)):
        shared = overlaps(things.box[rows], boxes) * mask  # (triplets, N)
        close[end] = shared > _SAME_BOX
        best[end] = np.where(close[end].any(axis=1), shared.argmax(axis=1), -1)
    relation = relations.relation[rows]
    good = (best["subject"] >= 0) & (best["object"] >= 0) & (best["subject"] != best["object"])
    samples: dict[tuple[int, int, int, int], None] = {}  # as a set that keeps the order
    fitting: dict[tuple[int, int, int], NDArray[np.bool_]] = {}
    for number, sought in enumerate(DIRECTIONS):
        given = "subject" if sought == "object" else "object"
        for place in np.flatnonzero(good).tolist():
            query = (int(best[given][place]), int(relation[place]), number)
            samples[(*query, int(best[sought][place]))] = None
            fitting[query] = fitting.get(query, False) | close[sought][place]
    columns = np.array(list(samples), np.int64).reshape(-1, 4)
    satisfying = np.zeros((len(columns), len(mask)), bool)
    for place, (given_box, kind, number, sought_box) in enumerate(samples):
        satisfying[place] = fitting[given_box, kind, number]
        satisfying[place, given_box] = False  # nothing stands in a relation to itself
        satisfying[place, sought_box] = True
    tuples = len({(s[0], s[1], s[3]) for s in samples if s[2] == 0})
    box, kinds, direction, target = columns.T
    return Matched(
        box, kinds, direction, target, satisfying, tuples, int(good.sum()), rows, close["object"]
    )
