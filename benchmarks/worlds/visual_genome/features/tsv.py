"""Features as tab-separated lines with base64 in them: bottom-up attention's form and LXMERT's."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar

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
from benchmarks.worlds.visual_genome.features.readers import Reader

_LONGEST_LINE = 1 << 25  # bytes; 100 boxes of 2048 features take 1.1 MB
_LONGEST_ID = 100  # characters
_MOST_FIELDS = 20  # more are none of these forms
_LOOKED_AT = 5  # lines that show which form a file has


class Tsv(Reader):
    """Lines of the same fields: numbers are plain, the rest is base64 of float32."""

    fields: ClassVar[tuple[str, ...]]

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether one of the first lines has the fields of this form."""
        if not path.is_file():
            return False
        with path.open("rb") as file:
            looked_at = [file.readline(_LONGEST_LINE) for _ in range(_LOOKED_AT)]
        return any(isinstance(cls.parse(line), Image) for line in looked_at)

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.path.stat().st_size

    def __iter__(self) -> Iterator[Image | Skipped]:
        with self.path.open("rb", buffering=1 << 20) as file:
            file.seek(self.position)
            while line := _next_line(file):
                begin, self.position = self.position, file.tell()
                if not line.isspace() and not (begin == 0 and _is_heading(line)):
                    yield self._image(line, begin)

    def _image(self, line: bytes, begin: int) -> Image | Skipped:
        """Return the image of a line, unless it is not wanted."""
        try:
            number = _number(line)
        except UnreadableError as error:
            return Skipped(f"the row at byte {begin:,}", f"damaged: {error}")
        if reason := self.unwanted(number):
            return Skipped(number, reason)
        return self.parse(line)

    @classmethod
    def parse(cls, line: bytes) -> Image | Skipped:
        """Return the fields of a line."""
        number: int | str = "a row"
        try:
            number = _number(line)
            values = _values(line)
            if len(values) != len(cls.fields):
                return Skipped(number, f"cut off: no {len(cls.fields)} fields")
            row = dict(zip(cls.fields, values, strict=True))
            count = _whole(row["num_boxes"])
            if not 1 <= count <= MOST_DETECTED:
                raise UnreadableError(f"no boxes, or more than {MOST_DETECTED}")
            confidences = row.get("objects_conf")
            return checked(
                Image(
                    number,
                    _whole(row["width"]),
                    _whole(row["height"]),
                    _floats(row["boxes"], count, 4),
                    _floats(row["features"], count),
                    None if confidences is None else _floats(confidences, count, 1)[:, 0],
                )
            )
        except UnreadableError as error:
            return Skipped(number, f"damaged: {error}")


class BottomUpTsv(Tsv):
    """Bottom-up attention's own form (Anderson et al. 2018), 10 to 100 boxes or 36."""

    summary = "a TSV of image_id, image_w, image_h, num_boxes, boxes, features"
    fixed_is_ordered = True
    fields = ("id", "width", "height", "num_boxes", "boxes", "features")


class LxmertTsv(Tsv):
    """LXMERT's form (Tan and Bansal 2019): height before width, and classes with confidences."""

    summary = (
        "a TSV of img_id, img_h, img_w, objects_id, objects_conf, attrs_id, attrs_conf, "
        "num_boxes, boxes, features"
    )
    fields = (
        *("id", "height", "width", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
        *("num_boxes", "boxes", "features"),
    )


def _next_line(file: BinaryIO) -> bytes:
    """Return the next line; of one that is too long to be an image, the beginning."""
    line = file.readline(_LONGEST_LINE)
    if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
        while (rest := file.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
        return line[:_LONGEST_ID]
    return line


def _values(line: bytes) -> list[memoryview]:
    """Return the fields of a line without copying them: they are most of the file."""
    end = len(line)
    while end and line[end - 1] in b"\r\n":
        end -= 1
    starts = [0]
    while (tab := line.find(b"\t", starts[-1], end)) >= 0 and len(starts) <= _MOST_FIELDS:
        starts.append(tab + 1)
    stops = [start - 1 for start in starts[1:]] + [end]
    whole = memoryview(line)
    return [whole[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _is_heading(line: bytes) -> bool:
    return line.split(b"\t", 1)[0] in (b"image_id", b"img_id")


def _number(line: bytes) -> int:
    """Return the image's id, which both forms have first."""
    return image_number(line[:_LONGEST_ID].split(b"\t", 1)[0].decode("ascii", "replace"))


def _whole(text: memoryview) -> int:
    try:
        return int(bytes(text))
    except ValueError:
        raise UnreadableError("width, height or number of boxes is no number") from None


def _floats(text: memoryview, rows: int, columns: int | None = None) -> Floats:
    """Return so many rows of float32 out of base64."""
    try:
        raw = binascii.a2b_base64(text)
    except ValueError:
        raise UnreadableError("no base64, or cut off") from None
    expected = 4 * rows * (columns or 1)
    if not raw or len(raw) % expected or (columns and len(raw) != expected):
        raise UnreadableError("not as many bytes as its boxes need")
    return np.frombuffer(raw, "<f4").reshape(rows, -1)
