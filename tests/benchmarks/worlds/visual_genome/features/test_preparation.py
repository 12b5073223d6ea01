"""Sources become one store: the same from every form, whole or not at all, at any interruption."""

from __future__ import annotations

import base64
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disks import disk_of

import pmn_cl
from benchmarks.worlds.visual_genome.features import preparation
from benchmarks.worlds.visual_genome.features.preparation import prepare_features
from benchmarks.worlds.visual_genome.features.request import Request
from benchmarks.worlds.visual_genome.features.spool import FOLDER
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

HOME = Path(pmn_cl.__file__).parent.parent


def test_every_form_gives_the_same_store(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any
) -> None:
    images = photos(5)
    made = {
        form: prepare(tmp_path / f"{form} out", write(tmp_path, images))
        for form, write in writers.items()
    }
    assert len({prepared.store.digest for prepared in made.values()}) == 1
    for prepared in made.values():
        assert prepared.store.verify()
    order = {form: prepared.summary for form, prepared in made.items()}
    for form in ("bottom_up", "hdf5"):
        assert "36 boxes in every image, which this form keeps in order of confid" in order[form]
    for form in ("lxmert", "npy"):
        assert "boxes in order of their confidence" in order[form]


def test_what_the_store_holds(tmp_path: Path, photos: Any, writers: Any, prepare: Any) -> None:
    """Worked out here once more, image by image, with plain loops."""
    coco, genome = photos(4, boxes=50), photos(3, boxes=3, seed=1)
    (tmp_path / "vg").mkdir()
    sources = writers["bottom_up"](tmp_path, coco), writers["lxmert"](tmp_path / "vg", genome)
    made = prepare(tmp_path / "out", sources[0], vg=(sources[1],))
    columns = made.columns
    assert made.store.names == {"sources": ["coco", "vg"]}
    expected = [(0, p) for p in sorted(coco)] + [(1, p) for p in sorted(genome)]
    assert columns["source"].tolist() == [source for source, _ in expected]
    for row, (_, photo) in enumerate(expected):
        assert columns["image"][row] == photo.id
        assert (columns["width"][row], columns["height"][row]) == photo[1:3]
        kept: list[int] = []
        for place, box in enumerate(photo.boxes.astype(float)):
            if len(kept) < 36 and all(iou(box, photo.boxes[k].astype(float)) <= 0.7 for k in kept):
                kept.append(place)
        count = len(kept)
        assert columns["mask"][row].tolist() == [True] * count + [False] * (36 - count)
        scaled = photo.boxes[kept] / [photo.width, photo.height, photo.width, photo.height]
        np.testing.assert_allclose(columns["boxes"][row, :count], scaled, rtol=1e-6)
        halves = photo.features[kept].astype(np.float16)
        np.testing.assert_array_equal(columns["regions"][row, :count], halves)
        assert not columns["regions"][row, count:].any() and not columns["boxes"][row, count:].any()
    assert not columns["simulated"].any()
    assert "7 images (4 of COCO, 3 of Visual Genome)" in made.summary
    assert made.store.header["sources"][0]["counts"]["boxes"] == 200
    assert "boxes dropped, beyond 36 in an image" in made.summary
    assert "no confidence in these files" in made.summary  # 50 boxes: not the fixed form


def iou(one: Any, other: Any) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, wide) * max(0.0, high)
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return float(shared / (both - shared))


def test_round_trip_of_the_published_file(tmp_path: Path, prepare: Any) -> None:
    """What the store says is what the TSV says, read as its publishers read it."""
    if "PMN_BENCH_SAMPLES" not in os.environ:
        pytest.skip("needs the samples that PMN_BENCH_SAMPLES names")
    (path,) = (Path(os.environ["PMN_BENCH_SAMPLES"]) / "bottom_up").glob("*.tsv")
    made = prepare(tmp_path / "out", path)
    csv.field_size_limit(sys.maxsize)
    names = ["image_id", "image_w", "image_h", "num_boxes", "boxes", "features"]
    with path.open() as file, h5py.File(made.store.path) as store:
        rows = {int(r["image_id"]): r for r in csv.DictReader(file, names, delimiter="\t")}
        scenes = store["all/scenes"]
        assert scenes["image"][:].tolist() == sorted(rows) and len(rows) == 7
        for place, number in enumerate(sorted(rows)):
            row = rows[number]
            count = int(row["num_boxes"])
            size = int(row["image_w"]), int(row["image_h"])
            boxes = np.frombuffer(base64.b64decode(row["boxes"]), "f4").reshape(count, 4)
            features = np.frombuffer(base64.b64decode(row["features"]), "f4").reshape(count, 2048)
            assert (scenes["width"][place], scenes["height"][place]) == size
            assert scenes["mask"][place].sum() == count  # these files have no duplicates
            pixels = scenes["boxes"][place, :count] * np.array(size * 2)
            np.testing.assert_allclose(pixels, boxes, atol=1e-3)
            stored = scenes["regions"][place, :count].astype("f4")
            np.testing.assert_allclose(stored, features, rtol=2**-11, atol=2**-25)
    assert "194 boxes, 194 kept" in made.summary
    assert "no confidence in these files" in made.summary


def test_cut_off_duplicate_and_damaged_rows(
    tmp_path: Path, photos: Any, line_of: Any, prepare: Any
) -> None:
    first, second, third = photos(3, boxes=3)
    changed = second._replace(features=second.features + 1)
    narrow = third._replace(features=np.ones((3, 2), "f4"))
    lines = [
        line_of(second)[:60] + b"\n",  # cut off: the next whole one counts
        line_of(first),
        line_of(second),
        line_of(changed),  # there already
        line_of(narrow),
        b"gibberish\n",
        line_of(third),
        line_of(first)[:100],
    ]
    path = tmp_path / "a.tsv"
    path.write_bytes(b"".join(lines))
    made = prepare(tmp_path / "out", path)
    assert made.columns["image"].tolist() == sorted(p.id for p in (first, second, third))
    row = made.columns["image"].tolist().index(second.id)
    np.testing.assert_array_equal(
        made.columns["regions"][row, :3], second.features.astype(np.float16)
    )
    listed = [
        line.split("\t")
        for line in (tmp_path / "out/features.skipped.txt").read_text().splitlines()
    ]
    assert [entry[0] for entry in listed] == [
        *map(str, (second.id, second.id, third.id)),
        f"the row at byte {sum(map(len, lines[:5])):,}",
        str(first.id),
    ]
    reasons = [entry[2] for entry in listed]
    assert reasons[0].startswith("cut off") and reasons[1] == reasons[4] == "there already"
    assert reasons[2] == "damaged: not 4 features for a box" and "no image id" in reasons[3]
    assert made.store.header["sources"][0]["counts"]["skipped"]["there already"] == 2
    assert f"skipped: {second.id} (cut off: no 6 fields), {second.id} (there" in made.summary


def test_the_summary_names_twenty_and_the_file_all(
    tmp_path: Path, photos: Any, line_of: Any, prepare: Any
) -> None:
    (photo,) = photos(1, boxes=2)
    path = tmp_path / "a.tsv"
    path.write_bytes(line_of(photo) * 31)
    made = prepare(tmp_path / "out", path)
    assert made.summary.count("(there already)") == 20 and "and 10 more" in made.summary
    assert len((tmp_path / "out/features.skipped.txt").read_text().splitlines()) == 30


def test_the_same_again_and_another(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any
) -> None:
    path, out = writers["bottom_up"](tmp_path, photos(3, boxes=2)), tmp_path / "out"
    made = prepare(out, path)
    written = made.store.path.stat().st_mtime_ns
    again = prepare(out, path)
    assert again.said == [
        f"{out}/features.h5 is there already, made of the same sources: nothing to do"
    ]
    assert again.store.path.stat().st_mtime_ns == written
    for options in ({"limit": 2}, {"vg": (path,)}):
        with pytest.raises(UserError, match=r"made of other sources or options \(photos_36.tsv\)"):
            prepare(out, path, **options)
    raw = bytearray(made.store.path.read_bytes())
    raw[made.store.table("all", "scenes")["regions"].offset] ^= 1
    made.store.path.write_bytes(raw)
    with pytest.raises(UserError, match="does not match its digest"):
        prepare(out, path)


def test_nothing_usable(tmp_path: Path, photos: Any, line_of: Any, prepare: Any) -> None:
    (photo,) = photos(1, boxes=2)
    path = tmp_path / "a.tsv"
    path.write_bytes(line_of(photo._replace(boxes=photo.boxes * 0)))
    with pytest.raises(UserError, match=r"no image could be taken \(1 no usable box\)"):
        prepare(tmp_path / "out", path)
    assert [file.name for file in (tmp_path / "out").iterdir()] == [".lock"]


def test_width_before_height_where_height_should_be(
    tmp_path: Path, photos: Any, line_of: Any, prepare: Any
) -> None:
    tall = [p for p in photos(60, boxes=20) if p.width * 1.5 < p.height][:4]
    assert len(tall) == 4
    path = tmp_path / "a.tsv"
    path.write_bytes(b"".join(line_of(p._replace(width=p.height, height=p.width)) for p in tall))
    with pytest.raises(UserError, match="fit only if width and height are exchanged"):
        prepare(tmp_path / "out", path)
    assert not (tmp_path / "out/features.h5").exists()


def test_limit_and_lists(tmp_path: Path, photos: Any, writers: Any, prepare: Any) -> None:
    images, genome = photos(6, boxes=2), photos(6, boxes=2, seed=1)
    (tmp_path / "vg").mkdir()
    coco, vg = writers["bottom_up"](tmp_path, images), writers["npy"](tmp_path / "vg", genome)
    made = prepare(tmp_path / "limit", coco, coco, vg=(vg,), limit=2)
    assert made.columns["source"].tolist() == [0, 0, 1, 1]
    assert made.columns["image"][:2].tolist() == sorted(p.id for p in images[:2])
    asked = tmp_path / "images.txt"
    asked.write_text(f"{images[5].id}\n\nvg {images[0].id}\n")
    made = prepare(tmp_path / "asked", coco, vg=(vg,), images=(asked,))
    columns = made.columns
    pairs = list(zip(columns["source"].tolist(), columns["image"].tolist(), strict=True))
    assert pairs == [(0, images[5].id), (1, images[0].id)]
    assert made.summary.count("5 more were not needed") == 2
    assert not (tmp_path / "asked/features.skipped.txt").exists()
    asked.write_text("999999\n")
    with pytest.raises(UserError, match="6 not among --images"):
        prepare(tmp_path / "none", coco, images=(asked,))


class Stop(BaseException):
    """An interruption that nothing catches."""


def interrupted(count: int) -> Any:
    """Watch that stops everything at the so-manieth report of any progress."""
    left = count

    @contextmanager
    def watch(doing: str) -> Iterator[ProgressCallback]:
        def report(done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stop

        yield report

    return watch


def test_an_interruption_anywhere_changes_nothing(
    tmp_path: Path, photos: Any, line_of: Any, prepare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "NOTE_EVERY", -1.0)
    monkeypatch.setattr(preparation, "_REPORT_EVERY", 1)
    first, second = photos(3, boxes=3), photos(2, boxes=3, seed=1)
    paths = tmp_path / "one.tsv", tmp_path / "two.tsv"
    paths[0].write_bytes(b"".join(map(line_of, [*first, first[0]])) + b"cut\n")
    paths[1].write_bytes(b"".join(map(line_of, second)))
    request = Request(sources=paths[:1], vg=paths[1:])
    whole = prepare(tmp_path / "whole", paths[0], vg=paths[1:])
    skipped = (tmp_path / "whole/features.skipped.txt").read_text()
    for count in range(30):
        out = tmp_path / f"out {count}"
        said: list[str] = []
        try:
            prepare_features(request, out, interrupted(count), said.append)
            break
        except Stop:
            assert not (out / "features.h5").exists()
        # An image that was begun and not noted is there, too.
        for name in ("heads", "regions"):
            with (out / FOLDER / name).open("ab") as file:
                file.write(b"part of an image")
        store = prepare_features(request, out, interrupted(10**9), said.append)
        assert store.digest == whole.store.digest
        assert store.header["sources"] == whole.store.header["sources"]
        assert (out / "features.skipped.txt").read_text() == skipped
        assert not (out / FOLDER).exists()
        # Two rows are done, and the first of them noted, when the second is reported.
        assert bool(said) == (count > 0)
    else:
        pytest.fail("it never came to its end")
    assert count > 8


KILLED = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from benchmarks.worlds.visual_genome.features import preparation
from benchmarks.worlds.visual_genome.features.request import Request
from benchmarks.worlds.visual_genome.features.tsv import BottomUpTsv

preparation.NOTE_EVERY, preparation._REPORT_EVERY = -1.0, 1
whole = BottomUpTsv.parse

def parse(cls, line, calls=[0]):
    calls[0] += 1
    if calls[0] == 16:  # some lines are looked at beforehand
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(line)

BottomUpTsv.parse = classmethod(parse)
quiet = lambda doing: nullcontext(lambda done, total: None)
preparation.prepare_features(Request(sources=(Path(sys.argv[1]),)), Path(sys.argv[2]), quiet, print)
"""


def test_a_killed_prepare_is_gone_on_with(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any
) -> None:
    path, out = writers["bottom_up"](tmp_path, photos(12, boxes=3)), tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(path), str(out)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(HOME)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (out / "features.h5").exists()
    done = json.loads((out / FOLDER / "done.json").read_text())["images"]
    assert 0 < done < 12
    made = prepare(out, path)
    assert made.said == [f"going on after {done} images that were prepared before an interruption"]
    assert made.store.digest == prepare(tmp_path / "whole", path).store.digest


def test_what_is_done_of_other_sources_is_not_gone_on_with(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "NOTE_EVERY", -1.0)
    monkeypatch.setattr(preparation, "_REPORT_EVERY", 1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = writers["bottom_up"](tmp_path / "one", photos(4, boxes=3))
    two = writers["bottom_up"](tmp_path / "two", photos(3, boxes=3, seed=1))
    with pytest.raises(Stop):
        prepare_features(Request(sources=(one,)), tmp_path / "out", interrupted(3), print)
    made = prepare(tmp_path / "out", two)
    assert made.said == [] and len(made.columns["image"]) == 3


def test_a_full_disk_is_said_and_gone_on_from(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any
) -> None:
    path = writers["bottom_up"](tmp_path, photos(40, boxes=36, dimensions=512))
    with disk_of(2, tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_500_000))
        with pytest.raises(UserError, match=r"free|No space left"):
            prepare(disk / "out", path)
        assert not (disk / "out/features.h5").exists()
    with disk_of(8, tmp_path / "larger") as disk:
        (disk / "out").mkdir()
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(6_000_000))  # room for the records, not for the store
        with pytest.raises(UserError, match=r"GB free, about .* GB more needed"):
            prepare(disk / "out", path)
        ballast.unlink()
        made = prepare(disk / "out", path)
        assert made.said == ["going on after 40 images that were prepared before an interruption"]
        assert made.store.verify() and made.store.header["images"] == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no SOURCE, expected files of region features"),
        ({"simulate": True}, "--simulate without --image-data"),
        ({"objects": (Path("x"),)}, "--objects and --dimensions are for --simulate"),
        ({"vg": (Path("missing"),)}, "missing: no such file or folder"),
    ],
)
def test_requests_that_cannot_be_meant(
    tmp_path: Path, prepare: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "out", **options)
