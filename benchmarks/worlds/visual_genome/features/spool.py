"""What is done so far: images in the order they came in, and how far each source was read.

Rows of the store are sorted, and how many there will be is known only at the end, so images wait
here: their regions in one file, all else about them in another, and a note on how many of them
count. What is in the files after those is of a prepare that was cut off, and is written again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.features.boxes import MOST_BOXES, Regions
from pmn_cl.errors import UserError
from pmn_cl.files import storing, write_whole

FOLDER = "features.partial"
_HEADS, _REGIONS, _NOTE = "heads", "regions", "done.json"
_AT_ONCE = 8  # images that are read or written; more would not fit into a processor's cache

HEAD = np.dtype(
    [
        ("image", "<i8"),
        ("width", "<i4"),
        ("height", "<i4"),
        ("source", "u1"),
        ("simulated", "?"),
        ("count", "<u2"),
        ("boxes", "<f4", (MOST_BOXES, 4)),
    ]
)


def read_note(out: Path, identity: str) -> dict[str, Any] | None:
    """Return what a prepare of the same has noted when it was cut off, if there was one."""
    try:
        note: dict[str, Any] = json.loads((out / FOLDER / _NOTE).read_text("utf-8"))
        return note if note["identity"] == identity else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear(out: Path) -> None:
    """Forget what is done so far."""
    with storing(out / FOLDER):
        shutil.rmtree(out / FOLDER, ignore_errors=True)


class Spool:
    """Images that are done, kept through an interruption."""

    def __init__(self, out: Path, dimensions: int, count: int = 0) -> None:
        self.count = self._written = count
        self.dimensions = dimensions
        self._folder = out / FOLDER
        self._waiting_heads = np.zeros(_AT_ONCE, HEAD)
        self._waiting_regions = np.zeros((_AT_ONCE, MOST_BOXES, dimensions), "<f2")
        with storing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._heads = _open(self._folder / _HEADS)
            self._regions = _open(self._folder / _REGIONS)
        self._disk = ThreadPoolExecutor(1, "noting")  # reading goes on while the disk is awaited
        self._noting: Future[None] | None = None

    @property
    def _region_bytes(self) -> int:
        return MOST_BOXES * self.dimensions * 2

    @property
    def image_bytes(self) -> int:
        """Return how much room an image takes, here and in the store."""
        return HEAD.itemsize + self._region_bytes

    @classmethod
    def holds(cls, out: Path, dimensions: int, count: int) -> bool:
        """Return whether so many images are there."""
        try:
            heads = (out / FOLDER / _HEADS).stat().st_size
            regions = (out / FOLDER / _REGIONS).stat().st_size
        except OSError:
            return False
        needed = MOST_BOXES * dimensions * 2
        return heads >= count * HEAD.itemsize and regions >= count * needed

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(UserError):  # then the note before it counts
            self._await_note()
        self._disk.shutdown()
        os.close(self._heads)
        os.close(self._regions)

    def append(
        self, image: int, size: tuple[int, int], regions: Regions, source: int, simulated: bool
    ) -> None:
        """Add an image of one of the sources."""
        place, kept = self.count - self._written, len(regions.boxes)
        padded = np.zeros((MOST_BOXES, 4), "f4")
        padded[:kept] = regions.boxes
        self._waiting_heads[place] = (image, *size, source, simulated, kept, padded)
        # numpy takes as long for this as base64 for decoding; torch has an instruction for it.
        floats = torch.from_numpy(np.ascontiguousarray(regions.features, np.float32))
        self._waiting_regions[place, :kept] = floats.half().numpy()
        self._waiting_regions[place, kept:] = 0
        self.count += 1
        if self.count - self._written == _AT_ONCE:
            self._write()

    def note(self, done: dict[str, Any]) -> None:
        """See to it that what is there now will be there after any interruption."""
        self._await_note()
        self._write()
        text = json.dumps({**done, "images": self.count})
        self._noting = self._disk.submit(self._sync_and_note, text)

    def _sync_and_note(self, text: str) -> None:
        with storing(self._folder):
            os.fdatasync(self._regions)
            os.fdatasync(self._heads)
        write_whole(self._folder / _NOTE, text)

    def _await_note(self) -> None:
        """Wait until the last note is written; raise if it could not be."""
        if self._noting is not None:
            noting, self._noting = self._noting, None
            noting.result()

    def _write(self) -> None:
        """Write what waits, where it belongs: after a full disk, the same again does no harm."""
        some = self.count - self._written
        with storing(self._folder):
            _write_at(self._heads, self._waiting_heads[:some], self._written)
            _write_at(self._regions, self._waiting_regions[:some], self._written)
        self._written = self.count

    def heads(self) -> NDArray[np.void]:
        """Return all but the regions of every image."""
        self._write()
        found = np.zeros(self.count, HEAD)
        self._read_at(self._heads, found, 0)
        return found

    def regions(self, order: NDArray[np.intp]) -> Iterator[NDArray[np.float16]]:
        """Read regions in this order, some at a time: not by a map, which would fill memory."""
        self._write()
        for start in range(0, len(order), _AT_ONCE):
            places = order[start : start + _AT_ONCE].tolist()
            for row, place in enumerate(places):
                wanted = self._waiting_regions[row]
                first = place * self._region_bytes
                self._read_at(self._regions, wanted, first)
                # It is not read again: the system may use that memory for the store.
                os.posix_fadvise(self._regions, first, self._region_bytes, os.POSIX_FADV_DONTNEED)
            yield self._waiting_regions[: len(places)]
        self._await_note()  # what the disk has refused may read as zeros

    def _read_at(self, file: int, rows: NDArray[Any], place: int) -> None:
        """Fill an array from a file that has as many bytes."""
        left = _bytes(rows)
        while left:
            taken = os.preadv(file, [left], place)
            if not taken:
                raise UserError(f"{self._folder}: was cut off meanwhile; delete it and run again")
            left, place = left[taken:], place + taken


def _open(path: Path) -> int:
    """Open a file to read and write anywhere in it."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _write_at(file: int, rows: NDArray[Any], first: int) -> None:
    if not len(rows):
        return
    left = _bytes(rows)
    place = first * (len(left) // len(rows))
    while left:  # a nearly full disk takes part of it
        taken = os.pwrite(file, left, place)
        left, place = left[taken:], place + taken
