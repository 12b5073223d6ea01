"""A part is made once, made anew when anything it is made of changes, and never half."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.parts import Made, prepare_part
from benchmarks.worlds.visual_genome.annotations.tally import Summary, Tally, shown
from pmn_cl.data.store import Store, StoreWriter
from pmn_cl.errors import UserError


class Maker:
    """Makes a small part, and remembers how often."""

    def __init__(self, folder: Path, watch: Callable[[str], Any]) -> None:
        self.folder, self.watch = folder, watch
        self.made = 0
        self.said: list[str] = []
        (folder / "source.json").write_text("[1, 2, 3]")

    def make(self) -> Made:
        self.made += 1
        summary = Summary()
        summary.add("rows", 3, "about 200,000")
        summary.tally.note("rows without sense: left out", "x", 2)
        return Made({"names": ["a"]}, {"train/obj": {"scene": np.arange(3)}}, summary)

    def prepare(self, make: Callable[[], Made] | None = None, **options: Any) -> Store:
        files, parts = [self.folder / "source.json"], {"features": options.pop("features", "f0")}
        self.said.clear()
        return prepare_part(
            self.folder / "part.h5",
            files,
            options,
            parts,
            make or self.make,
            self.watch,
            self.said.append,
        )


@pytest.fixture
def maker(tmp_path: Path, watch: Callable[[str], Any]) -> Maker:
    return Maker(tmp_path, watch)


def test_a_disk_that_is_too_small_is_said_with_the_option_of_the_command(maker: Maker) -> None:
    with pytest.raises(UserError, match=r"name another folder with --out$"):
        maker.prepare(lambda: replace(maker.make(), size=10**15))
    assert not (maker.folder / "part.h5").exists()


def test_the_same_files_are_read_once(maker: Maker) -> None:
    first = maker.prepare(limit=5)
    summary = list(maker.said)
    assert any("rows" in line and "(paper: about 200,000)" in line for line in summary)
    assert any("2 rows without sense: left out (x)" in line for line in summary)
    assert first.digest in summary[-1]
    second = maker.prepare(limit=5)
    assert maker.made == 1 and second.digest == first.digest
    assert "is there already, made of the same files" in maker.said[0]
    assert maker.said[1:] == summary  # and says again what is in it
    assert first.header["features"] == "f0"


def test_anything_else_is_made_anew(maker: Maker) -> None:
    maker.prepare(limit=5)
    maker.prepare(limit=6)
    maker.prepare(limit=6, features="f1")
    assert maker.made == 3 and "made of other files or options" in maker.said[0]
    (maker.folder / "source.json").write_text("[1, 2, 4]")  # of the same size
    maker.prepare(limit=6, features="f1")
    assert maker.made == 4


def test_a_damaged_part_is_made_anew(maker: Maker) -> None:
    path = maker.folder / "part.h5"
    digest = maker.prepare().digest
    offset = Store(path).table("train", "obj")["scene"].offset
    assert offset is not None
    damaged = bytearray(path.read_bytes())
    damaged[offset] ^= 1
    path.write_bytes(damaged)
    assert maker.prepare().digest == digest and "does not match its digest" in maker.said[0]
    path.write_bytes(path.read_bytes()[:200])
    assert maker.prepare().digest == digest and "not a readable store" in maker.said[0]
    assert maker.made == 3


def test_an_interrupted_build_leaves_what_was_there(maker: Maker) -> None:
    digest = maker.prepare().digest

    def interrupted() -> Made:
        def write(store: StoreWriter) -> None:
            raise KeyboardInterrupt

        made = maker.make()
        made.write_more = write
        return made

    with pytest.raises(KeyboardInterrupt):
        maker.prepare(interrupted, limit=1)
    assert Store(maker.folder / "part.h5").digest == digest
    assert sorted(p.name for p in maker.folder.iterdir()) == ["part.h5", "source.json"]
    (maker.folder / "part.h5").unlink()
    with pytest.raises(KeyboardInterrupt):
        maker.prepare(interrupted)
    assert not (maker.folder / "part.h5").exists()


def test_an_empty_table_is_warned_of(maker: Maker) -> None:
    def empty() -> Made:
        made = maker.make()
        made.tables["val/cnt"] = {"scene": np.zeros(0, "i4")}
        return made

    maker.prepare(empty)
    assert "WARNING: nothing is left for val/cnt" in maker.said


def test_what_files_say_can_be_shown_anywhere() -> None:
    tally = Tally()
    for name in ("a\nb", "\ud800", "x" * 10_000, "\u05d0\u05d1", "[b, r]", "<script>"):
        tally.note("odd names", name)
    (line,) = tally.lines()
    line.encode("utf-8")
    assert "\n" not in line and len(line) < 300 and line.startswith("6 odd names (a�b, �, xxx")
    assert shown("\u05d0\u05d1") == "\u05d0\u05d1" and shown("[b, r]") == "[b, r]"
