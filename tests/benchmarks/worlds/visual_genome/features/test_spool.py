"""What is kept of a prepare that may be cut off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features.boxes import Regions
from benchmarks.worlds.visual_genome.features.spool import FOLDER, Spool, read_note
from pmn_cl.errors import UserError

REGIONS = Regions(np.array([[0.0, 0.0, 0.5, 1.0]]), np.array([[1.0, 2.0]], "f4"))


def add(spool: Spool, *images: int) -> None:
    for image in images:
        spool.append(image, (640, 480), REGIONS, 0, False)


def test_a_note_is_there_when_the_spool_is_left(tmp_path: Path) -> None:
    with Spool(tmp_path, 2) as spool:
        add(spool, 7, 3)
        spool.note({"identity": "a", "position": 10})
        add(spool, 5)
    note = read_note(tmp_path, "a")
    assert note == {"identity": "a", "position": 10, "images": 2}
    assert Spool.holds(tmp_path, 2, 2) and not Spool.holds(tmp_path, 2, 3)
    assert read_note(tmp_path, "b") is None
    with Spool(tmp_path, 2, 2) as spool:
        assert spool.heads()["image"].tolist() == [7, 3]


def test_a_note_that_cannot_be_written_is_said_with_the_next(tmp_path: Path) -> None:
    with Spool(tmp_path, 2) as spool:
        add(spool, 7)
        spool.note({"identity": "a"})
        add(spool, 3)
        spool.note({"identity": "a"})
    in_the_way = tmp_path / FOLDER / "done.json.partial"
    in_the_way.mkdir()
    with Spool(tmp_path, 2, 2) as spool:
        add(spool, 5)
        spool.note({"identity": "a"})
        with pytest.raises(UserError, match=r"done\.json: cannot be written"):
            spool.note({"identity": "a"})
        spool.note({"identity": "a"})
        with pytest.raises(UserError, match=r"done\.json: cannot be written"):
            list(spool.regions(np.arange(3)))  # before a store is made of them
        spool.note({"identity": "a"})  # a store that is whole needs no note
    note = read_note(tmp_path, "a")
    assert note is not None and note["images"] == 2
