"""Which reader a source needs, and what is said where there is none."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worlds.visual_genome.features.images import UnreadableError, image_number
from benchmarks.worlds.visual_genome.features.readers import FORMATS, find_reader
from pmn_cl.errors import UserError


@pytest.mark.parametrize("form", FORMATS)
def test_each_form_is_recognised_and_can_be_named(
    tmp_path: Path, photos: Any, writers: Any, form: str
) -> None:
    path = writers[form](tmp_path, photos(2, boxes=3))
    assert type(find_reader(path)) is type(find_reader(path, form))


def test_files_are_told_apart_without_reading_them(
    tmp_path: Path, photos: Any, writers: Any
) -> None:
    for form, write in writers.items():
        folders = [tmp_path / form / name for name in ("one", "same", "other")]
        made = [photos(3, boxes=3), photos(3, boxes=3), photos(3, boxes=3, seed=1)]
        if form == "npy":  # told by names and sizes
            made[2] = photos(4, boxes=3)
        for folder in folders:
            folder.mkdir(parents=True)
        one, same, other = (
            find_reader(write(folder, images)).fingerprint()
            for folder, images in zip(folders, made, strict=True)
        )
        assert one == same != other


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04more", "packed with zip; unpack it"),
        (gzip.compress(b"1\t2\t3", mtime=0), "packed with gzip; unpack it"),
        (b"1\t640\t480\t36\tAAAA\tBBBB\tCCCC\n", "the first line has 7 fields.*--format"),
        (b'{"images": []}', "none of the known forms"),
        (b"\x89HDF\r\n\x1a\n" + bytes(500), "none of the known forms"),
    ],
)
def test_what_is_said_of_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "source"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        find_reader(path)


def test_no_such_source(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder; expected region features"):
        find_reader(tmp_path / "missing.tsv")
    with pytest.raises(UserError, match=r"a folder without NAME_info.npy"):
        find_reader(tmp_path)


OWN = """
from pathlib import Path
import numpy as np
from benchmarks.worlds.visual_genome.features.images import Image
from benchmarks.worlds.visual_genome.features.readers import Reader

class Squares(Reader):
    summary = "a line of numbers for each image"
    size = 3

    @classmethod
    def recognises(cls, path):
        return False

    def __iter__(self):
        for line in self.path.read_text().splitlines()[self.position:]:
            self.position += 1
            box, features = [[0, 0, 10, 10]], [[float(line)] * 2]
            yield Image(int(line), 20, 20, np.array(box, "f4"), np.array(features, "f4"))
"""


def test_a_form_of_the_users_is_one_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: Any
) -> None:
    (tmp_path / "own_form_for_test.py").write_text(OWN)
    source = tmp_path / "squares.txt"
    source.write_text("7\n3\n5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = prepare(tmp_path / "out", source, form="own_form_for_test:Squares")
    assert made.columns["image"].tolist() == [3, 5, 7]
    assert made.columns["regions"][:, 0, 0].tolist() == [3, 5, 7]
    with pytest.raises(UserError, match=r"'pathlib:Path' is no .*Reader, and must be one"):
        find_reader(source, "pathlib:Path")


@pytest.mark.parametrize(
    ("name", "number"),
    [("42", 42), ("COCO_val2014_000000000042", 42), ("2370799.jpg", 2370799), (" 7 ", 7)],
)
def test_image_numbers(name: str, number: int) -> None:
    assert image_number(name) == number


@pytest.mark.parametrize("name", ["", "x", "4x", "1" * 19 + "1", "9" * 19, "42.5.jpg.x_"])
def test_no_image_number(name: str) -> None:
    with pytest.raises(UnreadableError):
        image_number(name)
