"""Which split an image belongs to: by its id alone, always the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "val", "test")
TRAIN, VAL, TEST = range(3)


def standing(source: str, image: int) -> float:
    """Return a number in 0 … 1 that an image always has, as good as random."""
    digest = hashlib.sha256(f"{source}/{image}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_by_standing(standings: Sequence[float], val: float, test: float) -> NDArray[np.int64]:
    """Return the split of each image: the lowest standings are val's, the next test's (percent).

    Which split an image is in does not depend on the others, with one exception: a split that
    would stay empty gets the image that is nearest to it.
    """
    stands = np.asarray(standings, np.float64)
    last_val, last_test = val / 100, (val + test) / 100
    splits = np.full(len(stands), TRAIN)
    splits[stands < last_test] = TEST
    splits[stands < last_val] = VAL
    order = np.argsort(stands, kind="stable")
    for split, share in ((VAL, val), (TEST, test)):
        left = order[splits[order] == TRAIN]
        if share and not (splits == split).any() and len(left) > 1:
            splits[left[0]] = split
    return splits
