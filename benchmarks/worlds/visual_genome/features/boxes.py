"""Which of a detector's boxes are kept, and how they are repaired."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.features.counts import Counts
from benchmarks.worlds.visual_genome.features.images import Floats, Image
from benchmarks.worlds.visual_genome.overlaps import overlaps

MOST_BOXES = 36
OVERLAP = 0.7  # IoU above which two boxes are of the same thing
HALF_LARGEST = 65504.0  # the largest float16
_OUTSIDE = 1e-3  # pixels; less is rounding

Doubles = NDArray[np.float64]


class Regions(NamedTuple):
    """What is kept of an image: at most 36 boxes, each side within 0 … 1."""

    boxes: Doubles
    features: Floats


def choose_regions(image: Image, counts: Counts) -> Regions | None:
    """Return what is kept of an image, the most confident first where the form has confidences."""
    counts.whole += 1
    counts.with_confidences += image.confidences is not None
    counts.with_36_boxes += len(image.boxes) == MOST_BOXES
    counts.boxes += len(image.boxes)
    boxes, usable = _repaired(image, counts)
    features = image.features
    if not (features.min() >= -HALF_LARGEST and features.max() <= HALF_LARGEST):  # or NaN
        features, finite = _repaired_features(features, usable, counts)
        usable &= finite
    order = np.flatnonzero(usable)
    if image.confidences is not None:
        order = order[np.argsort(-image.confidences[order], kind="stable")]
    different = order[without_duplicates(boxes[order])]
    counts.duplicate_boxes += len(order) - len(different)
    counts.boxes_beyond += max(0, len(different) - MOST_BOXES)
    kept = different[:MOST_BOXES]
    counts.kept_boxes += len(kept)
    if not len(kept):
        return None
    size = np.array([image.width, image.height] * 2, "f8")
    return Regions(boxes[kept] / size, features[kept])


def _repaired(image: Image, counts: Counts) -> tuple[Doubles, NDArray[np.bool_]]:
    """Return boxes cut to the image, and which of them have an area."""
    given = image.boxes.astype("f8")
    limits = np.array([image.width, image.height] * 2, "f8")
    boxes = np.minimum(np.maximum(given, 0), limits)  # np.clip takes twice as long
    area = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])  # False for NaN
    outside = (np.abs(boxes - given) > _OUTSIDE).any(axis=1)
    counts.boxes_without_area += len(area) - int(area.sum())
    counts.repaired_boxes += int((outside & area).sum())
    return boxes, area


def _repaired_features(
    features: Floats, usable: NDArray[np.bool_], counts: Counts
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return features that float16 can hold, and which of them are numbers at all."""
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(features).all(axis=1))
    counts.boxes_not_finite += int((usable & ~finite).sum())
    too_large = (np.abs(features) > HALF_LARGEST) & (usable & finite)[:, None]
    counts.clipped_values += int(too_large.sum())
    return np.clip(features, -HALF_LARGEST, HALF_LARGEST), finite


def without_duplicates(boxes: Doubles) -> NDArray[np.intp]:
    """Return the places of boxes that overlap none of those kept before them too much."""
    same = overlaps(boxes, boxes) > OVERLAP
    if np.count_nonzero(same) <= len(boxes):  # each only with itself
        return np.arange(len(boxes))
    kept: list[int] = []
    suppressed = np.zeros(len(boxes), bool)
    for place in range(len(boxes)):
        if not suppressed[place]:
            kept.append(place)
            suppressed |= same[place]
    return np.array(kept, np.intp)


def sides_exchanged(image: Image) -> int:
    """Return 1 where boxes fit only an image of these sides, -1 where only of the exchanged."""
    right, bottom = image.boxes[:, 2:].max(axis=0) - 2  # pixels for rounding
    fit = right <= image.width and bottom <= image.height
    fit_exchanged = right <= image.height and bottom <= image.width
    return int(fit) - int(fit_exchanged)
