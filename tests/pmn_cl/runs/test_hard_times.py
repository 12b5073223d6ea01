"""Full disks, worlds that vanish, records that are broken: nothing wrong is trusted, and what can
go on does.

Trouble comes from a strategy that is hard sharing but for one thing: before its second task it
runs the file ``trouble``, if there is one. Without, it shows what an undisturbed run comes to.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from disks import disk_of
from tiny_streams import tiny_stream

from pmn_cl.cli.main import main
from pmn_cl.config.names import make_world
from pmn_cl.config.spec import RunSpec, StreamSpec
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.results.result import VERSION, Result, read_result, write_result
from pmn_cl.runs.checkpoint import CHECKPOINT
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.journal import Journal, read_journal
from pmn_cl.runs.plan import plan_runs

TROUBLED = """
from pathlib import Path
from baselines.hard_sharing import HardSharing

class Troubled(HardSharing):
    def prepare(self, experience):
        super().prepare(experience)
        trouble = Path(__file__).with_name("trouble")
        if experience.task.name == "att" and trouble.exists():
            exec(trouble.read_text("utf-8"), {"store": experience.samples.store.path})
"""
SCENES = "train: 300, val: 50, test: 100, novel: 100"
FEWER = "train: 60, val: 10, test: 20, novel: 20"  # worlds are built again and again here
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
NARROW = """
import resource
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, most))  # bytes that a file may have
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where stream, strategy and trouble are."""
    folder = tmp_path_factory.mktemp("place")
    path = tiny_stream(folder, '"troubled:Troubled"', "constant", troubled=TROUBLED)
    text = path.read_text("utf-8")
    assert SCENES in text
    path.write_text(text.replace(SCENES, FEWER), "utf-8")
    return folder


@pytest.fixture(scope="module")
def spec(place: Path) -> StreamSpec:
    return load_spec(place / "stream.yaml")


@pytest.fixture(scope="module")
def runs(spec: StreamSpec) -> list[RunSpec]:
    """The one that gets into trouble, and another after it."""
    return plan_runs(spec, (), [0])


@pytest.fixture(scope="module")
def done(runs: list[RunSpec], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results that nothing has happened to."""
    out = tmp_path_factory.mktemp("undisturbed")
    Driver(out, workers=2, cache=cache).run(runs)
    return out


@pytest.fixture(scope="module")
def undisturbed(runs: list[RunSpec], done: Path) -> list[Result]:
    results = [read_result(done / run.key / RESULT) for run in runs]
    assert [result.status for result in results] == ["completed", "completed"]
    return results


@pytest.fixture
def trouble(place: Path) -> Iterator[Path]:
    path = place / "trouble"
    yield path
    path.unlink(missing_ok=True)


def what_matters(results: list[Result]) -> list[Any]:
    """All that must not depend on what a run went through."""
    return [
        (r.key, r.status, r.scores, r.secondary, r.weights, r.parameters, r.validation, r.error)
        for r in results
    ]


def message(result: Result) -> str:
    assert result.error is not None
    return result.error.message


def command(place: Path, out: Path, cache: Path) -> list[str]:
    given = ["run", str(place / "stream.yaml"), "--seed", "0", "--checkpoint-every", "0"]
    return [*given, "--out", str(out), "--cache", str(cache), "--tracking", "off"]


def started(place: Path, out: Path, cache: Path) -> subprocess.Popen[str]:
    """The real command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "pmn_cl.cli.main", *command(place, out, cache)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Full disks.


def test_a_state_that_does_not_fit_fails_the_run_and_names_file_and_cause(
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    trouble.write_text(NARROW.format(20_000), "utf-8")  # journal and result still fit
    failed, other = Driver(tmp_path, cache=cache, every=0).run(runs)
    assert (failed.status, other.status) == ("failed", "completed")
    assert str(tmp_path / failed.key / CHECKPOINT) in message(failed)
    assert os.strerror(errno.EFBIG) in message(failed)
    assert not list(tmp_path.rglob("*.partial"))  # they take the room that is missing
    trouble.unlink()
    assert what_matters(Driver(tmp_path, cache=cache).run(runs)) == what_matters(undisturbed)


def test_a_run_that_can_write_nothing_is_recorded_by_the_driver(
    place: Path,
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    trouble.write_text(NARROW.format(0), "utf-8")
    with started(place, tmp_path, cache) as process:
        said, warned = process.communicate()
    assert process.returncode == 1
    broken, other = (read_result(tmp_path / run.key / RESULT) for run in runs)
    assert (broken.status, other.status) == ("interrupted", "completed")
    assert f"{broken.key}: interrupted: exit code 1; run again to go on" in said
    # What the record cannot say is said where somebody may see it.
    [line] = warned.splitlines()
    assert f"{tmp_path / broken.key / RESULT}: cannot be written: File too large" in line
    assert not list(tmp_path.rglob("*.partial"))
    trouble.unlink()
    assert what_matters(Driver(tmp_path, cache=cache).run(runs)) == what_matters(undisturbed)


@pytest.mark.parametrize(
    "harm",
    [
        "import shutil; shutil.rmtree({0!r})",
        "import os; os.mkdir({0!r} + '/result.json.partial')",
    ],
    ids=["folder", "result"],
)
def test_the_driver_outlives_a_folder_that_takes_no_record(
    harm: str,
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / runs[0].key
    trouble.write_text(harm.format(str(folder)), "utf-8")
    broken, other = Driver(tmp_path, cache=cache, every=0).run(runs)
    assert (broken.status, other.status) == ("failed", "completed")
    assert str(folder) in message(broken)
    trouble.unlink()
    shutil.rmtree(folder / f"{RESULT}.partial", ignore_errors=True)
    assert what_matters(Driver(tmp_path, cache=cache).run(runs)) == what_matters(undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of(8, tmp_path / "disk") as folder:
        yield folder


FILL = """
import itertools
with open({0!r}, "wb", buffering=0) as file:
    try:
        for _ in itertools.count():
            file.write(bytes(4096))
    except OSError:
        pass
"""


def test_a_disk_that_is_full_for_all(
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    small_disk: Path,
) -> None:
    trouble.write_text(FILL.format(str(small_disk / "filler")), "utf-8")
    results = Driver(small_disk, cache=cache, every=0).run(runs)
    assert [r.status for r in results] == ["failed", "failed"]
    for result in results:
        assert str(small_disk / result.key) in message(result)
        assert os.strerror(errno.ENOSPC) in message(result)
    trouble.unlink()
    (small_disk / "filler").unlink()
    assert what_matters(Driver(small_disk, cache=cache).run(runs)) == what_matters(undisturbed)


def test_an_event_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("started")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(UserError, match=r"journal\.jsonl: cannot be written: File too large"):
            journal.write("experience", scores=[0.5])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = Journal(tmp_path)
    again.write("failed")
    again.close()
    journal.close()  # brings nothing of what was refused
    assert [event["event"] for event in read_journal(journal.path)] == ["started", "failed"]


# Worlds that vanish.


@pytest.fixture
def store(spec: StreamSpec, cache: Path, tmp_path: Path) -> Path:
    """A world of its own for a test, in a folder for worlds."""
    (tmp_path / "worlds").mkdir()
    return Path(shutil.copy(make_world(spec.world).prepare(cache).path, tmp_path / "worlds"))


@pytest.fixture(scope="module")
def elsewhere(place: Path) -> RunSpec:
    """A run on another world."""
    text = (place / "stream.yaml").read_text("utf-8").replace("train: 60", "train: 40")
    (place / "other.yaml").write_text(text, "utf-8")
    return plan_runs(load_spec(place / "other.yaml"), ["constant"], [0])[0]


def test_a_world_deleted_before_a_run_is_built_again(
    runs: list[RunSpec], undisturbed: list[Result], store: Path, tmp_path: Path
) -> None:
    store.unlink()
    results = Driver(tmp_path / "out", cache=store.parent).run(runs)
    assert what_matters(results) == what_matters(undisturbed)


def test_a_world_deleted_under_a_run_fails_it_once(
    runs: list[RunSpec], undisturbed: list[Result], store: Path, trouble: Path, tmp_path: Path
) -> None:
    trouble.write_text("store.unlink()", "utf-8")
    failed, other = Driver(tmp_path / "out", cache=store.parent).run(runs)
    assert (failed.status, other.status) == ("failed", "completed")  # the other has built it again
    assert str(store) in message(failed) and os.strerror(errno.ENOENT) in message(failed)
    trouble.unlink()
    results = Driver(tmp_path / "out", cache=store.parent).run(runs)
    assert what_matters(results) == what_matters(undisturbed)


@pytest.mark.parametrize(
    ("while_it_trains", "kept", "words"),
    [
        (False, 0.5, "not a readable store"),
        (True, 0.5, "SIGBUS: a file was cut"),
        (True, 1 - 1e-6, "bytes when the run began"),  # its last page still reads, as zeros
    ],
)
def test_a_world_that_was_cut_is_not_trusted(
    while_it_trains: bool,
    kept: float,
    words: str,
    place: Path,
    runs: list[RunSpec],
    elsewhere: RunSpec,
    undisturbed: list[Result],
    store: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    out, size = tmp_path / "out", int(kept * store.stat().st_size)
    if while_it_trains:
        trouble.write_text(f"import os; os.truncate(store, {size})", "utf-8")
    else:
        os.truncate(store, size)
    cut, late, other = Driver(out, cache=store.parent, every=0).run([*runs, elsewhere])
    assert (cut.status, late.status, other.status) == ("failed", "failed", "completed")
    assert words in message(cut)
    assert f"{store}: not a readable store" in message(late) and "delete it" in message(late)
    trouble.unlink(missing_ok=True)
    given = ["run", str(place / "stream.yaml"), "--tracking", "off", "--out", str(out)]
    told = CliRunner().invoke(main, [*given, "--cache", str(store.parent)])
    assert told.exit_code == 2 and f"{store}: not a readable store" in told.output
    store.unlink()
    assert what_matters(Driver(out, cache=store.parent).run(runs)) == what_matters(undisturbed)


# Two drivers.


def test_a_second_driver_is_told_who_was_first(
    place: Path,
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    here, go = tmp_path / "here", tmp_path / "go"
    wait = "import pathlib, time\n"
    wait += f"pathlib.Path({str(here)!r}).touch()\n"
    wait += f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    trouble.write_text(wait, "utf-8")
    out = tmp_path / "out"
    with started(place, out, cache) as first:
        while not here.exists() and first.poll() is None:
            time.sleep(0.02)
        second = CliRunner().invoke(main, command(place, out, cache))
        go.touch()
        said, warned = first.communicate()
    assert second.exit_code == 2
    assert f"{out}: the folder is in use by process {first.pid} on" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert first.returncode == 0 and warned == "", said + warned
    results = [read_result(out / run.key / RESULT) for run in runs]
    assert what_matters(results) == what_matters(undisturbed)


# Records that are broken.


def raise_version(path: Path) -> None:
    found = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**found, "version": VERSION + 1}), "utf-8")


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def take_a_neighbours(path: Path) -> None:
    own = path.parent.name
    other = next(p for p in path.parent.parent.glob(f"*/{path.name}") if p.parent.name != own)
    shutil.copy(other, path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (raise_version, f"is a result of version {VERSION + 1}, expected {VERSION}"),
        (cut_in_half, "is no whole result"),
        (take_a_neighbours, "is the result of"),
    ],
)
def test_a_result_that_is_none_is_refused_and_left_alone(
    harm: Callable[[Path], None],
    words: str,
    place: Path,
    runs: list[RunSpec],
    done: Path,
    undisturbed: list[Result],
    cache: Path,
    tmp_path: Path,
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    failed, broken = (out / run.key for run in runs)
    # One that would be tried again: not before all that is there is known to be whole.
    write_result(undisturbed[0].model_copy(update={"status": "failed"}), failed)
    harm(broken / RESULT)
    before = content(failed) | content(broken)
    again = ["run", str(place / "stream.yaml"), "--seed", "0", "--tracking", "off"]
    again += ["--cache", str(cache), "--out"]
    for command in (again, ["results"], ["compare"]):
        told = CliRunner().invoke(main, [*command, str(out)])
        assert told.exit_code == 2, told.output
        assert f"{broken / RESULT}: {words}" in told.output
        assert "move it away, and `pmn-bench run` makes it again" in told.output
        assert "Traceback" not in told.output
    after = content(failed) | content(broken)
    assert [p for p in before if p.name != ".lock" and before[p] != after.get(p)] == []
    (broken / RESULT).rename(tmp_path / "away")
    assert what_matters(Driver(out, cache=cache).run(runs)) == what_matters(undisturbed)


def spoil_a_line(path: Path) -> None:
    first, *others = path.read_bytes().splitlines(keepends=True)
    assert others
    path.write_bytes(b"".join([first.replace(b":", b";"), *others]))


def put_a_number_in(path: Path) -> None:
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"5\n", *others]))


@pytest.mark.parametrize(
    ("file", "harm", "words"),
    [
        (CHECKPOINT, cut_in_half, ": is no whole state of a run"),
        (CHECKPOINT, take_a_neighbours, ": is the state of troubled-Troubled-seed1-"),
        (JOURNAL, take_a_neighbours, ": is the journal of troubled-Troubled-seed1-"),
        (JOURNAL, spoil_a_line, ":1: is no line of a journal"),
        (JOURNAL, put_a_number_in, ":2: is no line of a journal: b'5'"),
    ],
)
def test_what_a_run_cannot_go_on_from_fails_it_once(
    file: str,
    harm: Callable[[Path], None],
    words: str,
    spec: StreamSpec,
    runs: list[RunSpec],
    undisturbed: list[Result],
    cache: Path,
    trouble: Path,
    tmp_path: Path,
) -> None:
    trouble.write_text(KILL, "utf-8")
    killed = plan_runs(spec, ["troubled:Troubled"], [0, 1])
    cut_off = Driver(tmp_path, cache=cache, every=0, workers=2).run(killed)
    assert [result.status for result in cut_off] == ["interrupted"] * 2
    assert "SIGKILL" in message(cut_off[0])
    trouble.unlink()
    path = tmp_path / runs[0].key / file
    harm(path)
    failed, other = Driver(tmp_path, cache=cache).run(runs)
    assert (failed.status, other.status) == ("failed", "completed")
    assert f"{path}{words}" in message(failed) and "run again to start it over" in message(failed)
    assert what_matters(Driver(tmp_path, cache=cache).run(runs)) == what_matters(undisturbed)
