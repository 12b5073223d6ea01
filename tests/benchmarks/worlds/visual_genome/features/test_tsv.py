"""Bottom-up attention's TSV and LXMERT's: what a line says, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features import tsv
from benchmarks.worlds.visual_genome.features.images import Image, Skipped
from benchmarks.worlds.visual_genome.features.readers import find_reader
from benchmarks.worlds.visual_genome.features.tsv import BottomUpTsv, LxmertTsv


@pytest.mark.parametrize(("form", "kind"), [("bottom_up", BottomUpTsv), ("lxmert", LxmertTsv)])
def test_what_a_line_says(
    tmp_path: Path, photos: Any, writers: Any, form: str, kind: type[BottomUpTsv]
) -> None:
    made = photos(3, boxes=5)
    reader = find_reader(writers[form](tmp_path, made))
    assert type(reader) is kind
    for photo, image in zip(made, reader, strict=True):
        assert isinstance(image, Image)
        assert (image.id, image.width, image.height) == photo[:3]
        np.testing.assert_array_equal(image.boxes, photo.boxes)
        np.testing.assert_array_equal(image.features, photo.features)
        if form == "lxmert":
            np.testing.assert_array_equal(image.confidences, photo.confidences)
        else:
            assert image.confidences is None
    assert reader.position == reader.size


def test_it_goes_on_from_any_position(tmp_path: Path, photos: Any, writers: Any) -> None:
    path = writers["bottom_up"](tmp_path, photos(4, boxes=2))
    reader = BottomUpTsv(path)
    ids, positions = [], [0]
    for image in reader:
        ids.append(image.id)
        positions.append(reader.position)
    for place, position in enumerate(positions):
        another = BottomUpTsv(path)
        another.position = position
        assert [image.id for image in another] == ids[place:]


def test_a_heading_blank_lines_and_a_missing_last_line_break_do_no_harm(
    tmp_path: Path, photos: Any, line_of: Any
) -> None:
    one, two = map(line_of, photos(2, boxes=2))
    path = tmp_path / "a.tsv"
    heading = b"image_id\timage_w\timage_h\tnum_boxes\tboxes\tfeatures\n"
    path.write_bytes(heading + one + b"\n" + two.rstrip(b"\n"))
    found = list(find_reader(path))
    assert all(isinstance(image, Image) for image in found) and len(found) == 2


Change = Callable[[list[bytes]], list[bytes]]


def with_field(place: int, value: bytes) -> Change:
    return lambda fields: [*fields[:place], value, *fields[place + 1 :]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda f: f[:4], "cut off: no 6 fields", id="few fields"),
        pytest.param(lambda f: [*f, b"more"], "cut off: no 6 fields", id="many fields"),
        pytest.param(with_field(1, b"wide"), "is no number", id="a word for a width"),
        pytest.param(with_field(1, b"0"), "width or height is none", id="no width"),
        pytest.param(with_field(2, b"9" * 5000), "number", id="a height of 5,000 digits"),
        pytest.param(with_field(2, b"9" * 15), "width or height is none", id="a huge height"),
        pytest.param(with_field(3, b"0"), "no boxes", id="no boxes"),
        pytest.param(with_field(3, b"-3"), "no boxes", id="fewer than no boxes"),
        pytest.param(with_field(3, b"9" * 30), "no boxes, or more", id="huge number of boxes"),
        pytest.param(with_field(3, b"2"), "not as many bytes", id="another number of boxes"),
        pytest.param(with_field(4, b""), "not as many bytes", id="boxes are empty"),
        pytest.param(lambda f: [*f[:5], f[5][:-9]], "base64, or cut off|bytes", id="cut features"),
        pytest.param(with_field(5, b"\xff\x00!"), "base64|bytes", id="binary"),
    ],
)
def test_what_is_wrong_with_a_line(
    tmp_path: Path, photos: Any, line_of: Any, change: Change, reason: str
) -> None:
    damaged, whole = photos(2, boxes=3)
    fields = change(line_of(damaged).rstrip(b"\n").split(b"\t"))
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\t".join(fields) + b"\n" + line_of(whole))
    skipped, image = BottomUpTsv(path)
    assert isinstance(skipped, Skipped) and skipped.id == damaged.id
    assert re.search(reason, skipped.reason)
    assert isinstance(image, Image) and image.id == whole.id


def test_a_line_without_id_is_named_by_its_place(tmp_path: Path, photos: Any, line_of: Any) -> None:
    path = tmp_path / "a.tsv"
    first = line_of(photos(1, boxes=2)[0])
    path.write_bytes(first + b"?\t1\t2\n")
    _, skipped = BottomUpTsv(path)
    assert skipped == Skipped(f"the row at byte {len(first):,}", "damaged: no image id")


def test_a_line_without_end_is_passed_over(
    tmp_path: Path, photos: Any, line_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsv, "_LONGEST_LINE", 5000)
    one, two = photos(2, boxes=2)
    path = tmp_path / "a.tsv"
    path.write_bytes(line_of(one) + b"77\t" + b"A" * 23_456 + b"\n" + line_of(two))
    assert [type(found) for found in BottomUpTsv(path)] == [Image, Skipped, Image]
    assert [found.id for found in BottomUpTsv(path)] == [one.id, 77, two.id]


def test_who_is_not_wanted_is_not_decoded(tmp_path: Path, photos: Any, line_of: Any) -> None:
    one, two = photos(2, boxes=2)
    path = tmp_path / "a.tsv"
    path.write_bytes(line_of(one)[:30] + b"\n" + line_of(two))
    reader = BottomUpTsv(path)
    reader.unwanted = lambda image: "why not" if image == one.id else ""
    assert next(iter(reader)) == Skipped(one.id, "why not")
