"""Folders of results joined: what is taken, what is left, and each thing that keeps them apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Done
from made_results import result
from tiny_streams import TINY

from pmn_cl.cli.main import main
from pmn_cl.config.stream import load_spec
from pmn_cl.results.folder import JOURNAL, LEARNED, OUTPUT, RESULT, TRACEBACK
from pmn_cl.results.result import Result, read_results, write_result
from pmn_cl.runs.checkpoint import CHECKPOINT
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs

MADE: dict[str, Any] = {
    "versions": {"torch": "2.0", "numpy": "2", "avalanche-lib": "1", "python": "3.11.1"},
    "revision": "abc",
    "device": "cpu",
    "weights": ["x", "y"],
}


MATRIX: list[list[float | None]] = [[0.5, None], [0.5, 0.5]]


def made(seed: int, strategy: str = "pmn", **changes: Any) -> Result:
    calls = changes.pop("calls", {"a": [], "b": ["a"]})
    return result(strategy, seed, MATRIX, calls=calls, **{**MADE, **changes})


def put(out: Path, *results: Result) -> Path:
    for one in results:
        (out / one.key).mkdir(parents=True)
        write_result(one, out / one.key)
    return out


def merge(out: Path, *given: Path | str) -> Done:
    done = CliRunner().invoke(main, ["merge", *map(str, given), "--out", str(out)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(out: Path, *given: Path | str) -> str:
    """Merge what must be refused before anything is written, and return why."""
    before = sorted(out.parent.rglob("*"))
    done = merge(out, *given)
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    assert sorted(out.parent.rglob("*")) == before
    return done.stderr


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return put(tmp_path / "a", made(0), made(0, "pnn"))


def test_real_runs_of_two_machines_become_one_folder(cache: Path, tmp_path: Path) -> None:
    runs = plan_runs(load_spec(TINY), ["constant"])
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "new" / "out"
    first = Driver(one, cache=cache).run(runs[:1])
    both = Driver(two, cache=cache).run(runs)
    for name in (CHECKPOINT, TRACEBACK, f"{JOURNAL}.1", "progress.json"):
        (two / runs[1].key / name).write_text("x", "utf-8")
    done = merge(out, one, two, "--allow-revisions")  # of a checkout that may have been changed
    assert done.exit_code == 0, done.output
    twice = f"{two / runs[0].key} is the same as {one / runs[0].key}"
    assert f"taken once: {twice}" in done.stdout and "2 runs of 2 folders" in done.stdout
    assert read_results(out) == sorted([*first, both[1]], key=lambda result: result.key)
    assert {path.name for path in (out / runs[1].key).iterdir()} == {
        *(RESULT, JOURNAL, f"{JOURNAL}.1", OUTPUT, TRACEBACK, LEARNED)
    }
    kept = [folder / runs[1].key / LEARNED for folder in (two, out)]
    assert len({tuple(sorted((f.name, f.read_bytes()) for f in k.iterdir())) for k in kept}) == 1
    for name in (RESULT, JOURNAL):
        source = one / runs[0].key / name  # the first of two that are the same
        assert (out / runs[0].key / name).read_bytes() == source.read_bytes()
    assert list(out.parent.iterdir()) == [out]
    for command in ("results", "compare"):
        shown = CliRunner().invoke(main, [command, str(out)])
        assert shown.exit_code == 0 and "constant" in shown.stdout


def test_what_belongs_together_is_joined(a: Path, tmp_path: Path) -> None:
    b = put(tmp_path / "b", made(1), made(1, "pnn", fraction=10.0))  # a fraction is no obstacle
    done = merge(tmp_path / "out", a, b)
    assert done.exit_code == 0, done.output
    assert [result.key for result in read_results(tmp_path / "out")] == [
        *("pmn-0", "pmn-1", "pnn-0", "pnn-1")
    ]
    assert "all the same" not in done.stdout and "left out" not in done.stdout


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"data": "e"}, "other data: d in {a}, e in {b}"),
        ({"stream": "t"}, "other streams: s in {a}, t in {b}"),
        ({"budget": 10.0}, "other budgets: 100% in {a}, 10% in {b}"),
        ({"threads": 2}, "other threads: 1 in {a}, 2 in {b}"),
        ({"device": "cuda"}, "other devices: cpu in {a}, cuda in {b}"),
        (
            {"calls": {"a": [], "b": []}},
            "other tasks: a(), b(a) in {a}, a(), b() in {b}",
        ),
        (
            {"calls": {"a": []}, "tasks": ["a"]},
            "other tasks: a(), b(a) in {a}, a() in {b}",
        ),
        (
            {"options": {"lr_scale": 3.0}},
            "other options of 'pmn': {a}/pmn-0 and {b}/pmn-1; give one a variant",
        ),
        (
            {"versions": {**MADE["versions"], "torch": "2.1"}},
            "other versions of torch: 2.0 in {a}/pmn-0, 2.1 in {b}/pmn-1; --allow-versions",
        ),
        (
            {"versions": {**MADE["versions"], "numpy": "1"}},
            "other versions of numpy: 2 in {a}/pmn-0, 1 in {b}/pmn-1; --allow-versions",
        ),
        (
            {"versions": {"torch": "2.0", "numpy": "2"}},
            "other versions of avalanche-lib: 1 in {a}/pmn-0, unknown in {b}/pmn-1",
        ),
        (
            {"revision": "def"},
            "other code revisions: abc in {a}/pmn-0, def in {b}/pmn-1; --allow-revisions",
        ),
        ({"revision": None}, "other code revisions: abc in {a}/pmn-0, pmn-cl unknown in {b}/pmn-1"),
        ({"revision": "abc+"}, "files that are in no revision: 1 runs, such as {b}/pmn-1"),
    ],
)
def test_what_is_incompatible_is_refused_by_name(
    change: dict[str, Any], why: str, a: Path, tmp_path: Path
) -> None:
    b = put(tmp_path / "b", made(1, **change))
    assert why.format(a=a, b=b) in refused(tmp_path / "out", a, b)


def test_all_obstacles_are_named_at_once(a: Path, tmp_path: Path) -> None:
    b = put(tmp_path / "b", made(1, data="e", budget=5.0, revision="def"))
    said = refused(tmp_path / "out", a, b)
    assert "other data" in said and "other budgets" in said and "other code revisions" in said


def test_a_folder_may_mix_what_another_has_only_some_of(tmp_path: Path) -> None:
    mixed = put(tmp_path / "mixed", made(0), made(1, budget=10.0))
    some = put(tmp_path / "some", made(2, budget=10.0))
    other = put(tmp_path / "other", made(3, budget=20.0))
    assert merge(tmp_path / "out", mixed, some).exit_code == 0
    assert "other budgets: 10% | 100% in" in refused(tmp_path / "out2", mixed, some, other)


def test_other_tasks_packages_and_code_are_taken_on_request_and_it_is_said(
    a: Path, tmp_path: Path
) -> None:
    b = put(tmp_path / "b", made(1, versions={**MADE["versions"], "torch": "2.1"}))
    c = put(tmp_path / "c", made(2, revision="def+"))
    d = put(tmp_path / "d", made(3, variant="part", calls={"a": []}, stream="t"))
    e = put(tmp_path / "e", made(3, stream="t", options={"lr_scale": 3.0}))
    assert "other options of 'pmn'" in refused(tmp_path / "out0", a, e, "--allow-tasks")
    done = merge(tmp_path / "out0", a, d, "--allow-tasks")
    assert done.exit_code == 0
    assert f"taken all the same: other streams: s in {a}, t in {d}" in done.stdout
    assert f"taken all the same: other tasks: a(), b(a) in {a}, a() in {d}" in done.stdout
    done = merge(tmp_path / "out", a, b, "--allow-versions")
    assert done.exit_code == 0
    assert f"taken all the same: other versions of torch: 2.0 in {a}/pmn-0, 2.1" in done.stdout
    done = merge(tmp_path / "out2", a, c, "--allow-revisions")
    assert done.exit_code == 0
    assert done.stdout.count("taken all the same: ") == 2  # another one, and a changed one
    assert "--allow-versions" in refused(tmp_path / "out3", a, b, "--allow-revisions")
    assert "--allow-revisions" in refused(tmp_path / "out3", a, c, "--allow-versions")
    assert "--allow-tasks" in refused(tmp_path / "out3", a, d, "--allow-versions")


def test_a_run_that_came_out_otherwise_is_refused_with_both(a: Path, tmp_path: Path) -> None:
    better = {"test": [[0.5, None], [0.5, 0.75]]}
    b = put(tmp_path / "b", made(0, scores=better, weights=["x", "z"]))
    said = refused(tmp_path / "out", a, b)
    assert f"{a}/pmn-0 and {b}/pmn-0: the same run came out otherwise" in said
    assert "scores on test: 1 of 4, by at most 0.25, first 2.b: 0.5, now 0.75" in said
    assert "weights: 1 of 2, first 2: y, now z" in said
    slower = made(0, seconds=99.0, started="2027-01-01T00:00:00+00:00")
    assert merge(tmp_path / "out", a, put(tmp_path / "c", slower)).exit_code == 0


def test_what_is_broken_or_unfinished_is_named_and_left_out(a: Path, tmp_path: Path) -> None:
    b = put(tmp_path / "b", made(1), made(2, status="failed"), made(3), made(4, data="e"))
    (b / "pmn-3" / RESULT).write_text("{", "utf-8")
    (b / "pmn-4" / RESULT).rename(b / "pmn-4" / JOURNAL)  # cut off before its record
    (b / "earlier" / "1" / "pmn-1").mkdir(parents=True)
    said = refused(tmp_path / "out", a, b, "--strict")
    named = (f"{b}/pmn-2: is failed", f"{b}/pmn-3/{RESULT}: is no whole", f"{b}/pmn-4: has no")
    assert all(name in said for name in named)
    done = merge(tmp_path / "out", a, b)
    assert done.exit_code == 0
    assert all(f"left out: {name}" in done.stdout for name in named)
    assert [r.key for r in read_results(tmp_path / "out")] == ["pmn-0", "pmn-1", "pnn-0"]


def test_wrong_folders_are_refused(a: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no such folder of results" in refused(tmp_path / "out", a, tmp_path / "nowhere")
    assert "has no results" in refused(tmp_path / "out", a, tmp_path / "empty")
    assert "is there already" in refused(a, a)
    failed = put(tmp_path / "failed", made(0, status="failed"))
    assert "no run is completed" in refused(tmp_path / "out", failed)
    assert merge(tmp_path / "empty", a).exit_code == 0
    assert [result.key for result in read_results(tmp_path / "empty")] == ["pmn-0", "pnn-0"]
