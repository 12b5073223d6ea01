"""A store is written whole or not at all, and tells when it is not what was written."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from disks import disk_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pmn_cl
from pmn_cl.cli.main import main
from pmn_cl.data import store as store_module
from pmn_cl.data.store import MappedArray, Store, StoreWriter, build_store
from pmn_cl.data.world import World, cache_folder
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

HOME = Path(pmn_cl.__file__).parent.parent
TINY = ["--train", "50", "--val", "4", "--test", "4", "--novel", "4"]

Tables = dict[str, np.ndarray[Any, Any]]
EXAMPLE: Tables = {
    "train/scenes/regions": np.arange(24, dtype=np.float16).reshape(4, 3, 2),
    "train/obj/scene": np.array([0, 1, 3]),
    "train/obj/label": np.array([[1, 2], [3, 4], [5, 6]], np.int8),
    "test/scenes/regions": np.zeros((0, 3, 2), np.float16),
    "test/cap/words": np.array([True, False]),
}


def build(path: Path, tables: Tables, names: dict[str, list[str]] | None = None) -> Store:
    """Write these columns, each in two pieces, and open the store."""

    def write(store: StoreWriter) -> None:
        for name, values in tables.items():
            store.create(name, len(values), values.shape[1:], values.dtype)
            store.append(name, values[:1])
            store.append(name, values[1:])
        for of, meaning in (names or {}).items():
            store.name_values(of, meaning)

    build_store(path, write, header={"world": "test"}, size=0)
    return Store(path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pmn_cl.cli.main", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HOME)}


dtypes = st.sampled_from(["bool", "uint8", "int16", "int64", "float16", "float32", "float64"])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))


@settings(deadline=None, max_examples=40)
@given(values=arrays)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray[Any, Any]
) -> None:
    store = build(tmp_path_factory.mktemp("store") / "a.h5", {"train/obj/x": values})
    column = store.table("train", "obj")["x"]
    assert column.shape == values.shape and column.dtype == values.dtype
    assert column.nbytes == values.nbytes and len(column) == len(values)
    np.testing.assert_array_equal(column.array, values)
    assert column.load().tobytes() == values.tobytes()
    assert store.verify()


def test_rows_are_read_in_any_order(tmp_path: Path) -> None:
    column = build(tmp_path / "a.h5", EXAMPLE).table("train", "scenes")["regions"]
    rows = np.array([3, 0, 3, 1])
    into = np.empty((4, 3, 2), np.float16)
    column.read(rows, into)
    np.testing.assert_array_equal(into, EXAMPLE["train/scenes/regions"][[3, 0, 3, 1]])
    column.read(rows[:0], into[:0])
    for wrong in (-1, 4):
        with pytest.raises(
            IndexError, match=f"{min(wrong, 2)} to {max(wrong, 2)} of a column of 4"
        ):
            column.read(np.array([2, wrong]), into[:2])
    os.truncate(column.path, (column.offset or 0) + column.nbytes - 1)
    with pytest.raises(UserError, match="was cut off; delete it and prepare again"):
        column.read(np.array([3]), into[:1])


def test_reading_numbers_at_odd_places_does_not_copy_the_column(tmp_path: Path) -> None:
    """HDF5 puts columns anywhere, and numpy copies what is not aligned before it takes of it."""
    values = np.arange(1 << 16, dtype=np.float32).reshape(64, -1)
    tables = {"train/obj/before": np.zeros(3, np.int8), "train/obj/x": values}
    column = build(tmp_path / "a.h5", tables).table("train", "obj")["x"]
    assert (column.offset or 0) % 4
    into = np.empty_like(values[:2])
    tracemalloc.start()
    column.read(np.array([63, 5]), into)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(into, values[[63, 5]])
    assert peak < values.nbytes / 4


def mapped_kilobytes(path: Path) -> int:
    """Return how much of a file's maps is in this process's memory, as the system counts it."""
    counted, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            ours = line.endswith(str(path))
        elif ours and line.startswith("Rss:"):
            counted += int(line.split()[1])
    return counted


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_reading_rows_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(1 << 18, dtype=np.float32).reshape(16, -1)
    column = build(tmp_path / "a.h5", {"train/obj/x": values}).table("train", "obj")["x"]
    into = np.empty_like(values[:4])
    monkeypatch.setattr("pmn_cl.data.store._MOST_TOUCHED", 4 * into.nbytes - 1)
    for first in (0, 4, 8):
        column.read(np.arange(first, first + 4), into)
        assert mapped_kilobytes(column.path) >= into.nbytes // 1024
    column.read(np.arange(12, 16), into)
    assert mapped_kilobytes(column.path) == 0
    column.read(np.array([1, 14, 1, 0]), into)
    np.testing.assert_array_equal(into, values[[1, 14, 1, 0]])


def test_contents(tmp_path: Path) -> None:
    store = build(tmp_path / "a.h5", EXAMPLE, {"obj": ["zero", "one"]})
    assert store.splits == ["train", "test"]
    assert store.tasks("train") == ["obj"] and store.tasks("test") == ["cap"]
    assert store.names == {"obj": ["zero", "one"]} and store.header["world"] == "test"
    for name, values in EXAMPLE.items():
        split, table, column = name.split("/")
        np.testing.assert_array_equal(store.table(split, table)[column].array, values)
    with pytest.raises(UserError, match="no table 'vqa' in split 'train'; it has test/cap, "):
        store.table("train", "vqa")


def test_columns_cannot_be_changed_by_a_reader(tmp_path: Path) -> None:
    column = build(tmp_path / "a.h5", EXAMPLE).table("train", "obj")["scene"]
    with pytest.raises(ValueError, match="read-only"):
        column.array[0] = 7
    copy = column.load()
    copy[0] = 7
    assert column.array[0] == 0


def test_same_content_same_digest(tmp_path: Path) -> None:
    backwards = dict(reversed(EXAMPLE.items()))
    assert build(tmp_path / "a.h5", EXAMPLE).digest == build(tmp_path / "b.h5", backwards).digest


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t["train/obj/scene"].__setitem__(2, 2), id="value"),
        pytest.param(lambda t: t.update({"train/obj/scenes": t.pop("train/obj/scene")}), id="name"),
        pytest.param(
            lambda t: t.update({"train/obj/label": t["train/obj/label"].view(np.uint8)}), id="dtype"
        ),
        pytest.param(
            lambda t: t.update({"train/obj/label": t["train/obj/label"].reshape(3, 2, 1)}),
            id="shape",
        ),
        pytest.param(lambda t: t.pop("test/scenes/regions"), id="empty column"),
        pytest.param(
            lambda t: t.update({"train/obj/label": t["train/obj/label"][[1, 0, 2]]}), id="order"
        ),
    ],
)
def test_digest_changes_with(tmp_path: Path, change: Callable[[Tables], object]) -> None:
    changed = {name: values.copy() for name, values in EXAMPLE.items()}
    change(changed)
    assert build(tmp_path / "a.h5", EXAMPLE).digest != build(tmp_path / "b.h5", changed).digest


@pytest.mark.parametrize("names", [{"obj": ["a", "c"]}, {"obj": ["b", "a"]}, {"att": ["a", "b"]}])
def test_digest_changes_with_the_meaning_of_numbers(
    tmp_path: Path, names: dict[str, list[str]]
) -> None:
    first = build(tmp_path / "a.h5", EXAMPLE, {"obj": ["a", "b"]})
    assert first.digest != build(tmp_path / "b.h5", EXAMPLE, names).digest


def test_any_flipped_byte_of_the_data_is_found(tmp_path: Path) -> None:
    store = build(tmp_path / "a.h5", EXAMPLE)
    content = store.path.read_bytes()
    columns = [column for split in store.splits for task in (*store.tasks(split), "scenes")
               for column in store.table(split, task).values()]  # fmt: skip
    places = [c.offset + i for c in columns if c.offset is not None for i in range(c.nbytes)]
    assert len(places) == sum(values.nbytes for values in EXAMPLE.values())
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1
        # A new file each time: a map of the old one may still be open.
        path = tmp_path / f"{place}.h5"
        path.write_bytes(damaged)
        assert not Store(path).verify(), place


def test_any_other_flipped_byte_is_found_or_harmless(tmp_path: Path) -> None:
    names = {"obj": ["zero", "one"]}
    content = build(tmp_path / "a.h5", EXAMPLE, names).path.read_bytes()
    found = 0
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 255
        path = tmp_path / f"{place}.h5"
        path.write_bytes(damaged)
        try:
            store = Store(path)
        except UserError:
            found += 1
        else:
            assert store.verify() is False or store.names == names, place
            assert store.header["world"] == "test"
    assert found > 100  # the descriptions of columns, and the header, are under checksums


def test_large_vocabulary(tmp_path: Path) -> None:
    names = {"cap": [f"wörd {number}" for number in range(20_000)]}
    store = build(tmp_path / "a.h5", EXAMPLE, names)
    assert store.names == names and store.verify()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_file(tmp_path: Path, share: float) -> None:
    path = build(tmp_path / "a.h5", EXAMPLE).path
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=r"a\.h5: not a readable store .* delete it and prepare"):
        Store(path)


def _set_version(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["version"] = 99


def _make_foreign(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]


def _leave_unfinished(path: Path) -> None:
    with h5py.File(path, "w") as file:
        StoreWriter(file, path).create("train/obj/x", 3)


def _spoil_header(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["header"] = np.bytes_("{no JSON")


def _shorten_header(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["header"] = np.bytes_("{}")


def _drop_version(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file.attrs["version"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_set_version, "store of version 99, expected 1; delete it and prepare again"),
        (_drop_version, "store of version None, expected 1; delete it and prepare again"),
        (_make_foreign, "a HDF5 file, but no finished pmn-bench store; delete it"),
        (_leave_unfinished, "a HDF5 file, but no finished pmn-bench store; delete it"),
        (_spoil_header, "not a readable store .*; delete it and prepare again"),
        (_shorten_header, "not a readable store .*; delete it and prepare again"),
        (lambda path: path.write_text("no data"), "not a readable store .*; delete it and prepare"),
        (lambda path: path.unlink(), "no such file; prepare the world first"),
    ],
)
def test_file_that_is_no_store(tmp_path: Path, spoil: Callable[[Path], object], words: str) -> None:
    path = build(tmp_path / "a.h5", EXAMPLE).path
    spoil(path)
    with pytest.raises(UserError, match=rf"a\.h5: .*{words}"):
        Store(path)


def test_column_that_is_not_full(tmp_path: Path) -> None:
    def write(store: StoreWriter) -> None:
        store.create("train/obj/x", 3)
        store.append("train/obj/x", [1, 2])

    with pytest.raises(UserError, match="train/obj/x: 2 rows written, 3 declared"):
        build_store(tmp_path / "a.h5", write, header={}, size=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("values", [[1, 2, 3, 4], [[1], [2]]])
def test_rows_that_do_not_fit(tmp_path: Path, values: list[Any]) -> None:
    def write(store: StoreWriter) -> None:
        store.create("train/obj/x", 3)
        store.append("train/obj/x", values)

    with pytest.raises(UserError, match=r"train/obj/x: rows 0 to .*, expected at most 3 of"):
        build_store(tmp_path / "a.h5", write, header={}, size=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError, UserError])
def test_error_while_writing_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def write(store: StoreWriter) -> None:
        store.create("train/obj/x", 3)
        store.append("train/obj/x", [1])
        raise error

    with pytest.raises(error):
        build_store(tmp_path / "a.h5", write, header={}, size=0)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_the_world_lacks_is_not_blamed_on_the_store(tmp_path: Path) -> None:
    def write(store: StoreWriter) -> None:
        (tmp_path / "annotations.json").read_text()

    with pytest.raises(FileNotFoundError, match=r"annotations\.json"):
        build_store(tmp_path / "a.h5", write, header={}, size=0)
    assert list(tmp_path.iterdir()) == []


def test_sizes_may_be_numpy_numbers(tmp_path: Path) -> None:
    def write(store: StoreWriter) -> None:
        store.create("train/obj/x", np.int64(3), (np.int64(2),))  # type: ignore[arg-type]
        store.append("train/obj/x", np.ones((3, 2)))

    build_store(tmp_path / "a.h5", write, header={}, size=0)
    assert Store(tmp_path / "a.h5").verify()


@pytest.mark.parametrize("name", ["x", "train/x", "/train/obj/x", "train//x", "a/b/c/d"])
def test_column_that_is_in_no_table(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="expected split/table/column"):
        build_store(tmp_path / "a.h5", lambda store: store.create(name, 1), header={}, size=0)


def test_what_a_killed_build_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    old, fresh = (tmp_path / f".a.h5.{name}.partial" for name in ("old", "fresh"))
    for left in (old, fresh):
        left.write_bytes(b"half a store")
    os.utime(old, (0, 0))
    build(tmp_path / "a.h5", EXAMPLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == [fresh.name, "a.h5"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of(2, tmp_path / "disk") as folder:
        yield folder


@pytest.mark.parametrize("rows", [10, 200])  # below and above HDF5's buffer of 64 kB
@pytest.mark.parametrize("full_at", [0, 3, 9, 15])
@pytest.mark.parametrize("for_good", [True, False])
def test_disk_that_is_full_for_good_or_for_a_moment(
    small_disk: Path, rows: int, full_at: int, for_good: bool
) -> None:
    filler = small_disk / "filler"

    def write(store: StoreWriter) -> None:
        store.create("train/scenes/regions", 16 * rows, (100,), "f4")
        for step in range(16):
            if step == full_at:
                filler.write_bytes(bytes(shutil.disk_usage(small_disk).free))
            store.append("train/scenes/regions", np.ones((rows, 100)))
        if not for_good:
            filler.unlink()

    with pytest.raises(UserError, match=r"could not be written|cannot be read back"):
        build_store(small_disk / "a.h5", write, header={}, size=0)
    assert [path.name for path in small_disk.iterdir() if path != filler] == []


def test_older_store_stays_where_building_fails(tmp_path: Path) -> None:
    store = build(tmp_path / "a.h5", EXAMPLE)

    def write(writer: StoreWriter) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build_store(store.path, write, header={}, size=0)
    assert Store(store.path).verify() and list(tmp_path.iterdir()) == [store.path]


def test_too_little_space_is_said_before_building(tmp_path: Path) -> None:
    def write(store: StoreWriter) -> None:
        raise AssertionError("not to be reached")

    with pytest.raises(UserError, match=r"MB free, about 1000000000 MB needed; .* --cache"):
        build_store(tmp_path / "a.h5", write, header={}, size=10**15)
    with pytest.raises(UserError, match=r"name another folder with --out$"):
        build_store(tmp_path / "a.h5", write, header={}, size=10**15, option="--out")
    assert list(tmp_path.iterdir()) == []


def test_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file/deeper"):
        with pytest.raises(UserError, match=r"could not be written .*--cache"):
            build(folder / "a.h5", EXAMPLE)
    assert (tmp_path / "file").read_text() == "in the way"


def test_pickle_carries_no_data(tmp_path: Path) -> None:
    tables = {"train/obj/x": np.arange(100_000)}
    column = build(tmp_path / "a.h5", tables).table("train", "obj")["x"]
    assert column.array[5] == 5  # now it has a map
    pickled = pickle.dumps(column)
    assert len(pickled) < 1000
    copy: MappedArray = pickle.loads(pickled)
    np.testing.assert_array_equal(copy.array, tables["train/obj/x"])
    assert not np.shares_memory(copy.array, column.array)
    assert np.shares_memory(copy.array, copy.array)  # opened once


class Slow(World):
    """A world that counts how often it is written."""

    name, summary, written = "slow", "for tests", 0

    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        type(self).written += 1
        store.create("train/obj/x", 2)
        store.append("train/obj/x", [1, 2])


def test_world_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "written", 0)
    first = Slow().prepare(tmp_path / "new/folder")
    again = Slow().prepare(tmp_path / "new/folder")
    assert Slow.written == 1 and first.digest == again.digest
    monkeypatch.setattr(Slow, "version", 2)
    Slow().prepare(tmp_path / "new/folder")
    assert Slow.written == 2


def test_store_of_another_format_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Slow().path(tmp_path)
    monkeypatch.setattr("pmn_cl.data.world.FORMAT_VERSION", store_module.FORMAT_VERSION + 1)
    assert Slow().path(tmp_path) != before


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PMN_BENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pmn-bench"
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path / "set"))
    assert cache_folder() == tmp_path / "set"
    assert cache_folder(tmp_path / "given") == tmp_path / "given"


# Real disks and processes.


def test_disk_that_fills_while_building(tmp_path: Path) -> None:
    prepare = command("prepare", "digits", *TINY, "--cache", str(tmp_path))
    code = (
        "import resource, runpy, sys; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "sys.argv = sys.argv[1:]; runpy.run_module('pmn_cl.cli.main', run_name='__main__')"
    )
    limited = [sys.executable, "-c", code, "pmn-bench", *prepare[3:]]
    result = subprocess.run(limited, env=environment(), capture_output=True, text=True)
    assert result.returncode == 2, result.stderr
    assert "could not be written" in result.stderr and "--cache" in result.stderr
    assert "Traceback" not in result.stderr and "Error" not in result.stdout
    assert list(tmp_path.iterdir()) == []
    after = CliRunner().invoke(main, prepare[3:])
    assert after.exit_code == 0, after.output
    [path] = tmp_path.iterdir()
    assert Store(path).verify()


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    prepare = command("prepare", "digits", "--train", "100000", "--cache", str(tmp_path))
    with subprocess.Popen(
        prepare, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("building the world")
        assert list(tmp_path.iterdir())  # something is being written
        process.send_signal(signal.SIGINT)
        assert process.wait() != 0
        assert "Traceback" not in process.stderr.read()
    assert list(tmp_path.iterdir()) == []


def test_two_processes_build_the_same_world_at_once(tmp_path: Path) -> None:
    prepare = command("prepare", "digits", *TINY, "--cache", str(tmp_path))
    processes = [
        subprocess.Popen(
            prepare, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert results[0][0] == results[1][0]
    [path] = tmp_path.iterdir()
    assert Store(path).verify()


def test_copied_store_is_the_same(tmp_path: Path) -> None:
    store = build(tmp_path / "a.h5", EXAMPLE)
    copied = Store(Path(shutil.copy(store.path, tmp_path / "moved.h5")))
    assert copied.digest == store.digest and copied.verify()
