"""The images that features.h5 holds: annotations are about its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

FEATURES = "features.h5"
_COLUMNS = ("boxes", "mask", "image", "source", "simulated")


class PreparedScenes:
    """Boxes of every image, and where an image of COCO or Visual Genome is among them."""

    def __init__(self, folder: Path) -> None:
        path = folder / FEATURES
        if not path.is_file():
            raise UserError(
                f"{path}: not there, and annotations are about its boxes; make it first with "
                f"`pmn-bench prepare features SOURCE --out {folder}`"
            )
        store = Store(path)
        table = store.table("all", "scenes")
        missing = [name for name in _COLUMNS if name not in table]
        if missing or "sources" not in store.names:
            lacking = ", ".join(missing) or "the names of its sources"
            raise UserError(f"{path}: lacks {lacking}; prepare the features again")
        self.path, self.digest = path, store.digest
        self.boxes: NDArray[Any] = table["boxes"].array  # (n, N, 4)
        self.mask: NDArray[Any] = table["mask"].array  # (n, N)
        self.image: NDArray[Any] = table["image"].load()
        self.simulated: NDArray[Any] = table["simulated"].load()
        source = table["source"].load()
        self._rows: dict[str, dict[int, int]] = {}
        for number, name in enumerate(store.names["sources"]):
            rows = np.flatnonzero(source == number)
            self._rows[name] = dict(zip(self.image[rows].tolist(), rows.tolist(), strict=True))

    @property
    def regions(self) -> int:
        """Return how many boxes an image has at most."""
        return int(self.boxes.shape[1])

    def row(self, source: str, image: int) -> int | None:
        """Return the row of an image, if it has features."""
        return self._rows.get(source, {}).get(image)

    def count(self, source: str) -> int:
        """Return how many images of a source have features."""
        return len(self._rows.get(source, {}))

    def warn_of_simulated(self, rows: NDArray[Any]) -> list[str]:
        """Return a warning where some of these images have no features of their own."""
        count = int(self.simulated[np.unique(rows)].sum())
        if not count:
            return []
        return [f"{count:,} of these images have SIMULATED features: scores on them mean nothing"]
