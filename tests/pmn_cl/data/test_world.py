"""Worlds: which store is whose, and what a cache folder is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from pmn_cl.data.world import World, cache_folder

SOURCE = """
from pmn_cl.data.world import World

class Dots(World):
    name = "dots"
    summary = "dots"

    def write(self, store, progress):
        store.create("train/obj/x", 1)
        store.append("train/obj/x", [{value}])
"""


def world_of(path: Path, module: str, value: int) -> World:
    """Define the same world in a file of its own, with one number that differs."""
    path.write_text(SOURCE.format(value=value))
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    world: World = loaded.Dots()
    return world


def test_worlds_of_one_name_have_stores_of_their_own(tmp_path: Path) -> None:
    mine = world_of(tmp_path / "mine.py", "mine_dots", 1).prepare(tmp_path / "cache")
    yours = world_of(tmp_path / "yours.py", "your_dots", 1).prepare(tmp_path / "cache")
    assert mine.path != yours.path
    assert mine.digest == yours.digest  # the same data, all the same


def test_a_world_that_was_edited_is_built_anew(tmp_path: Path) -> None:
    before = world_of(tmp_path / "mine.py", "edited_dots", 1).prepare(tmp_path / "cache")
    again = world_of(tmp_path / "mine.py", "edited_dots", 1).prepare(tmp_path / "cache")
    after = world_of(tmp_path / "mine.py", "edited_dots", 2).prepare(tmp_path / "cache")
    assert again.path == before.path
    assert after.digest != before.digest


def test_a_file_edited_after_its_import_does_not_name_the_data(tmp_path: Path) -> None:
    """In a shell that goes on, the old code still runs: its data are the old file's."""
    world = world_of(tmp_path / "mine.py", "stale_dots", 1)
    (tmp_path / "mine.py").write_text(SOURCE.format(value=2))
    stale = world.prepare(tmp_path / "cache")
    fresh = world_of(tmp_path / "mine.py", "stale_dots", 2).prepare(tmp_path / "cache")
    assert stale.path != fresh.path
    assert fresh.table("train", "obj")["x"].array.tolist() == [2]


def test_a_world_without_a_file_has_a_store_too(tmp_path: Path) -> None:
    names: dict[str, type[World]] = {}
    exec(SOURCE.format(value=1), {"__name__": "typed_in"}, names)
    assert names["Dots"]().prepare(tmp_path).verify()


def test_the_cache_is_as_given_else_as_set_else_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("PMN_BENCH_CACHE", "~/worlds")
    assert cache_folder(Path("here")) == Path("here")
    assert cache_folder() == Path("/home/somebody/worlds")
    monkeypatch.delenv("PMN_BENCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/somebody/.cache/pmn-bench")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/pmn-bench")
