"""The record of a run: read back as written, refused when it is not whole, and what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pmn_cl.errors import UserError
from pmn_cl.results import RESULT, VERSION, Result, read_result, read_results, write_result


def result(**changes: Any) -> Result:
    given: dict[str, Any] = {
        "key": "pmn-seed0-abc",
        "status": "completed",
        "stream": "tiny",
        "strategy": "pmn",
        "variant": "",
        "seed": 0,
        "fraction": 100.0,
        "budget": 100.0,
        "threads": 1,
        "options": {"size": "small"},
        "spec": {"world": {"name": "digits"}},
        "tasks": ["a", "b", "c"],
        "metrics": ["accuracy"] * 3,
        "scores": {"test": [[0.9, None, None], [0.6, 0.8, None], [0.5, 0.8, 0.7]]},
        "secondary": {"test": []},
        "constant": {"test": [0.1, 0.2, 0.3]},
        "samples": {"test": [10, 20, 30]},
        "validation": {"a": 0.9},
        "parameters": {"total": [1, 2, 3], "trainable": [1, 1, 1]},
        "costs": [],
        "weights": ["x", "y", "z"],
        "data": "digest",
        "versions": {"torch": "2"},
        "revision": None,
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.5,
    }
    return Result.model_validate({**given, **changes})


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = result()
    path = write_result(written, tmp_path)
    assert read_result(path) == written
    assert list(tmp_path.iterdir()) == [path]  # nothing half-written beside it


def test_measures_by_hand() -> None:
    found = result().summary()
    assert found["average"] == pytest.approx((0.5 + 0.8 + 0.7) / 3)
    assert found["forgetting"] == pytest.approx(((0.9 - 0.5) + 0.0) / 2)
    assert found["bwt"] == pytest.approx((-0.4 + 0.0) / 2)
    assert found["fwt"] is None  # nobody was asked before learning


def test_joint_learning_has_a_last_row_and_nothing_that_compares_two() -> None:
    joint = result(scores={"test": [[0.5, 0.6, 0.7]]})
    assert joint.matrix() == [[None] * 3, [None] * 3, [0.5, 0.6, 0.7]]
    assert joint.summary() == {
        "average": pytest.approx(0.6),
        "forgetting": None,
        "bwt": None,
        "fwt": None,
    }


def test_a_run_that_broke_off_has_no_last_row() -> None:
    broken = result(status="failed", scores={"test": [[0.9, None, None]]})
    assert broken.matrix() == [[0.9, None, None], [None] * 3, [None] * 3]
    assert broken.summary()["average"] is None


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    path = write_result(result(), tmp_path)
    text = path.read_text("utf-8")
    path.write_text(text[: len(text) // 2], "utf-8")
    with pytest.raises(UserError, match="is no whole result"):
        read_result(path)


@pytest.mark.parametrize("version", [VERSION + 1, None])
def test_another_version_is_refused(tmp_path: Path, version: int | None) -> None:
    path = write_result(result(), tmp_path)
    found = {**json.loads(path.read_text("utf-8")), "version": version}
    path.write_text(json.dumps(found), "utf-8")
    with pytest.raises(UserError, match=f"is a result of version {version}, expected {VERSION}"):
        read_result(path)


def test_a_field_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = write_result(result(), tmp_path)
    found = {**json.loads(path.read_text("utf-8")), "status": "fine"}
    path.write_text(json.dumps(found), "utf-8")
    with pytest.raises(UserError, match="is no result: status"):
        read_result(path)


def test_a_folder_gives_its_results_by_key_and_leaves_earlier_ones_out(tmp_path: Path) -> None:
    for key in ("b", "a", "earlier/1/c"):
        (tmp_path / key).mkdir(parents=True)
        write_result(result(key=key), tmp_path / key)
    assert [found.key for found in read_results(tmp_path)] == ["a", "b"]
    with pytest.raises(UserError, match="no such folder"):
        read_results(tmp_path / "nowhere")
    assert (tmp_path / "a" / RESULT).exists()


def test_a_run_that_ended_before_it_began_has_no_measures() -> None:
    empty = result(status="failed", tasks=[], metrics=[], scores={}, constant={})
    assert set(empty.summary().values()) == {None}
