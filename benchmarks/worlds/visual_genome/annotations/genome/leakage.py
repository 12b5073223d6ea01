"""No image that COCO or VQA test on may be learned from, though Visual Genome shows it as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.records import image_of
from pmn_cl.errors import UserError

# Which files list the images, and the list in them. ``id`` is an image in "images".
VAL_FILES = {
    "captions_val2014.json": "annotations",
    "v2_OpenEnded_mscoco_val2014_questions.json": "questions",
}
TEST_FILES = {
    "image_info_test2015.json": "images",
    "v2_OpenEnded_mscoco_test2015_questions.json": "questions",
}
VAL_IMAGES, TEST_IMAGES = 40_504, 81_434  # as published: fewer would let some through
SKIP = "--skip-leakage-check"


class HeldOut(NamedTuple):
    """COCO's ids of images that are tested on."""

    val: frozenset[int]
    test: frozenset[int]


def held_out_files(places: Iterable[Path]) -> list[Path]:
    """Return the files among these, or in these folders, that name COCO's val and test images."""
    known = (*VAL_FILES, *TEST_FILES)
    found: dict[str, Path] = {}
    for place in places:
        if not place.exists():
            raise UserError(f"{place}: not there, expected a folder with {' or '.join(known)}")
        inside = [place / name for name in known] if place.is_dir() else [place]
        for path in inside:
            if path.is_file() and path.name in known:
                found.setdefault(path.name, path)
            elif not place.is_dir():
                raise UserError(f"{place}: expected one of {', '.join(known)}")
    return [found[name] for name in known if name in found]


def read_held_out(files: Sequence[Path]) -> HeldOut:
    """Read which images are COCO's val2014 and test2015; refuse lists that are not whole."""
    val = frozenset(_ids(files, VAL_FILES))
    test = frozenset(_ids(files, TEST_FILES))
    for ids, name, expected, known in (
        (val, "val2014", VAL_IMAGES, VAL_FILES),
        (test, "test2015", TEST_IMAGES, TEST_FILES),
    ):
        if len(ids) < expected:
            raise UserError(
                f"{len(ids):,} images of COCO's {name} are known, expected {expected:,}: without "
                "them it is unknown which of Visual Genome's images must not be learned from. "
                f"Name the folder with {' or '.join(known)} by --coco, or add {SKIP}"
            )
    return HeldOut(val, test)


def _ids(files: Sequence[Path], known: dict[str, str]) -> Iterator[int]:
    for path in files:
        if path.name in known:
            for record in records(path, known[path.name]):
                image = image_of(record)
                if image is not None:
                    yield image


def check_ids(path: Path, coco_ids: Sequence[int | None], stated: Sequence[bool]) -> None:
    """Refuse a list of Visual Genome's images that does not state which of them are COCO's."""
    missing = len(stated) - sum(stated)
    if not any(image is not None for image in coco_ids):
        what = f"none of its {len(coco_ids):,} images has a coco_id"
    elif missing:
        what = f"{missing:,} of its {len(stated):,} images do not state their coco_id"
    else:
        return
    raise UserError(
        f"{path}: {what}, though about half of Visual Genome's images are COCO's: without it "
        "it is unknown which of them COCO and VQA test on. Take the published image_data.json, "
        f"or add {SKIP}"
    )
