"""What every form of features is read into: images with boxes, or why there is none."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_DETECTED = 1000  # boxes of one image; a detector gives 10 to 100
LONGEST_SIDE = 1_000_000  # pixels
LARGEST_ID = 2**63 - 1
_NUMBER_IN_NAME = re.compile(r"(?:^|[^0-9])([0-9]{1,19})(?:\.\w+)?$")

Floats = NDArray[np.floating[Any]]


class Image(NamedTuple):
    """What a detector found in one image: boxes in pixels, with a feature vector each."""

    id: int
    width: int
    height: int
    boxes: Floats  # (n, 4) as x1, y1, x2, y2
    features: Floats  # (n, d)
    confidences: Floats | None = None  # (n,), where the form has them


class Skipped(NamedTuple):
    """A row that gives no image, and why; its place instead of an id that cannot be read."""

    id: int | str
    reason: str


class UnreadableError(ValueError):
    """Why a row gives no image, in words that are the same for all rows of which it is true."""


def image_number(name: str) -> int:
    """Return the id in ``"42"``, ``"COCO_val2014_000000000042"`` or ``"42.jpg"``."""
    found = _NUMBER_IN_NAME.search(name.strip())
    if found is None or int(found[1]) > LARGEST_ID:
        raise UnreadableError("no image id")
    return int(found[1])


def checked(image: Image) -> Image:
    """Return the image, if its parts fit each other and are of a size that images have."""
    sides = (image.width, image.height)
    if not all(1 <= side <= LONGEST_SIDE for side in sides):
        raise UnreadableError("width or height is none of an image")
    if not 0 <= image.id <= LARGEST_ID:
        raise UnreadableError("no image id")
    count = len(image.boxes)
    if not 1 <= count <= MOST_DETECTED:
        raise UnreadableError(f"no boxes, or more than {MOST_DETECTED}")
    if image.boxes.shape != (count, 4) or image.features.ndim != 2:
        raise UnreadableError("boxes or features have another shape")
    if len(image.features) != count or image.features.shape[1] < 1:
        raise UnreadableError("not as many feature vectors as boxes")
    if image.confidences is not None and image.confidences.shape != (count,):
        raise UnreadableError("not as many confidences as boxes")
    arrays = (image.boxes, image.features, image.confidences)
    if not all(array is None or array.dtype.kind == "f" for array in arrays):
        raise UnreadableError("boxes, features or confidences are no floats")
    return image
