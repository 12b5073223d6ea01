"""Several files as one store: the same interface, one set of scenes, and clear refusals."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from made_prepared import NAMES, ROWS, SCENES, make_prepared, write

from benchmarks.worlds.visual_genome.world import PARTS, REGIONS
from pmn_cl.data.joined_store import JoinedStore
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError


def joined(folder: Path) -> JoinedStore:
    return JoinedStore(folder, REGIONS, PARTS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_prepared(tmp_path_factory.mktemp("whole") / "prepared")


def test_every_table_is_that_of_the_file_that_has_it(prepared: Path) -> None:
    store = joined(prepared)
    for file, table in (("genome.h5", "rel"), ("coco.h5", "cap"), ("vqa.h5", "vqa")):
        own = Store(prepared / file)
        for split in ("train", "val", "test"):
            ours, theirs = store.table(split, table), own.table(split, table)
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[c].array, theirs[c].array) for c in theirs)


def test_all_splits_have_the_scenes_of_the_features(prepared: Path) -> None:
    store = joined(prepared)
    images = {split: store.table(split, "scenes")["image"] for split in [*store.splits, "server"]}
    assert all(column is images["train"] for column in images.values())  # read once, if at all
    assert images["train"].array.tolist() == list(range(1000, 1000 + SCENES))


def test_only_what_is_scored_is_a_split(prepared: Path) -> None:
    store = joined(prepared)
    assert store.splits == ["train", "val", "test"]
    assert sorted(store.tasks("train")) == ["att", "cap", "cnt", "obj", "rel", "vqa"]
    assert store.tasks("server") == ["vqa"]
    assert sorted(store.tasks("extra")) == ["cnt", "vqa"]
    assert len(store.table("train", "vqa")["scene"]) == ROWS["train"]


def test_names_are_those_of_all_files(prepared: Path) -> None:
    assert joined(prepared).names == {w: n for some in NAMES.values() for w, n in some.items()}


def test_the_digest_is_that_of_all_parts(prepared: Path, tmp_path: Path) -> None:
    store, same = joined(prepared), joined(make_prepared(tmp_path / "same"))
    assert store.digest == same.digest
    other = joined(make_prepared(tmp_path / "other", server=10))
    fewer = joined(make_prepared(tmp_path / "fewer", without=("coco.h5",)))
    assert len({store.digest, other.digest, fewer.digest}) == 3


def test_verify_reads_every_part(tmp_path: Path) -> None:
    folder = make_prepared(tmp_path)
    store = joined(folder)
    assert store.verify()
    column = store.table("test", "cap")["words"]
    with (folder / "coco.h5").open("r+b") as file:
        file.seek(column.offset or 0)
        file.write(b"\xff")
    assert not joined(folder).verify()


def test_a_missing_part_is_named_when_it_is_needed(tmp_path: Path) -> None:
    store = joined(make_prepared(tmp_path, without=("genome.h5",)))
    assert len(store.table("test", "vqa")["scene"]) == ROWS["test"]
    assert "rel" in store.tasks("train")
    with pytest.raises(UserError) as refused:
        store.table("train", "rel")
    assert str(refused.value) == (
        f"{tmp_path / 'genome.h5'}: not prepared yet, but needed by the tasks obj, att, rel; make "
        f"it with `pmn-bench prepare visual-genome SOURCE --out {tmp_path}`"
    )


def test_without_features_there_is_nothing_to_open(tmp_path: Path) -> None:
    make_prepared(tmp_path)
    (tmp_path / "features.h5").unlink()
    with pytest.raises(UserError, match=r"features\.h5: not prepared yet.*prepare features SOURCE"):
        joined(tmp_path)


@pytest.mark.parametrize(
    ("header", "said"),
    [({"features": "0" * 64}, "made for features 000000000000"), ({}, "it does not name")],
)
def test_a_part_for_other_features_is_refused(
    tmp_path: Path, header: dict[str, str], said: str
) -> None:
    make_prepared(tmp_path, without=("coco.h5",))
    words = np.zeros((2, 16), "u2")
    write(tmp_path / "coco.h5", {"train/cap": {"words": words}}, header)
    with pytest.raises(UserError, match=said):
        joined(tmp_path)


def test_files_that_name_the_same_numbers_otherwise_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NAMES, "coco.h5", {**NAMES["coco.h5"], "answers": ["yes", "no"]})
    folder = make_prepared(tmp_path)
    said = re.escape("vqa.h5: has other answers (4) than coco.h5 (2)")
    with pytest.raises(UserError, match=said):
        joined(folder)
