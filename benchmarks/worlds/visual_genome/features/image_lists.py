"""Lists of images: which to take, and which to make up features for.

Visual Genome's and COCO's own files are such lists, and so are questions and captions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.records import image_of, whole_number
from benchmarks.worlds.visual_genome.features.images import LONGEST_SIDE
from pmn_cl.errors import UserError

COCO, VISUAL_GENOME = 0, 1
SOURCES = ("coco", "vg")
_LINE = re.compile(r"(vg\s+)?([0-9]{1,18})")
_USUAL_SIZE = (640, 480)
_FORM = "a line for each image (42, or vg 42), or a JSON file as published"


class Listed(NamedTuple):
    """An image of COCO or of Visual Genome."""

    source: int
    id: int


Sizes = dict[Listed, tuple[int, int] | None]  # width and height, where a list has them


def read_lists(paths: tuple[Path, ...]) -> Sizes:
    """Return the images of all lists, each with its size where one of them has it."""
    found: Sizes = {}
    for path in paths:
        for listed, size in _images(path):
            if found.get(listed) is None:
                found[listed] = size
    return found


def size_or_usual(size: tuple[int, int] | None) -> tuple[int, int]:
    """Return the size of an image, or that of many in COCO."""
    return size or _USUAL_SIZE


def _images(path: Path) -> Iterator[tuple[Listed, tuple[int, int] | None]]:
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            start = file.read(1000).lstrip()[:1]
        if start == "[":
            for record in records(path):
                yield _listed(VISUAL_GENOME, record, path), _size(record)
        elif start == "{":
            yield from _coco_images(path)
        else:
            yield from ((listed, None) for listed in _lines(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _coco_images(path: Path) -> Iterator[tuple[Listed, tuple[int, int] | None]]:
    """Go through a file of COCO's or VQA's: images, annotations or questions."""
    whole = _json(path)
    lists = [whole[name] for name in ("images", "annotations", "questions") if name in whole]
    if not lists or not all(isinstance(items, list) for items in lists):
        raise UserError(f"{path}: no list of images, annotations or questions; expected {_FORM}")
    for items in lists:
        for record in items:
            yield _listed(COCO, record, path), _size(record)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise UserError(f"{path}: no JSON, or cut off ({error}); expected {_FORM}") from error


def _listed(source: int, record: Any, path: Path) -> Listed:
    number = image_of(record)
    if number is None or number < 0:
        raise UserError(f"{path}: an entry without image: {str(record)[:100]}; expected {_FORM}")
    return Listed(source, number)


def _size(record: dict[str, Any]) -> tuple[int, int] | None:
    width, height = whole_number(record.get("width")), whole_number(record.get("height"))
    if (
        width is None
        or height is None
        or not 1 <= min(width, height) <= max(width, height) <= LONGEST_SIDE
    ):
        return None
    return width, height


def _lines(path: Path) -> Iterator[Listed]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            found = _LINE.fullmatch(line.strip())
            if found is not None:
                yield Listed(VISUAL_GENOME if found[1] else COCO, int(found[2]))
            elif line.strip():
                raise UserError(f"{path}, line {number}: {line.strip()[:100]!r}, expected {_FORM}")
