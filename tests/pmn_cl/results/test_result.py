"""The record of a run: read back as written, refused when it is not whole, and what follows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError
from made_results import result as made_result
from tiny_streams import tiny_stream

from pmn_cl.cli.main import main
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.results.folder import RESULT, ResultFilter
from pmn_cl.results.result import (
    SCHEMA,
    VERSION,
    Result,
    chosen,
    read_result,
    read_results,
    result_schema,
    write_result,
)
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs


def result(**changes: Any) -> Result:
    given: dict[str, Any] = {
        "key": "pmn-seed0-abc",
        "options": {"size": "small"},
        "tasks": ["a", "b", "c"],
        "metrics": ["accuracy"] * 3,
        "secondary": {"test": []},
        "constant": {"test": [0.1, 0.2, 0.3]},
        "samples": {"test": [10, 20, 30]},
        "validation": {"a": 0.9},
        "parameters": {"total": [1, 2, 3], "trainable": [1, 1, 1]},
        "costs": [],
        "weights": ["x", "y", "z"],
        "versions": {"torch": "2"},
        "seconds": 1.5,
    }
    matrix = [[0.9, None, None], [0.6, 0.8, None], [0.5, 0.8, 0.7]]
    who = {"strategy": "pmn", "seed": 0}
    return made_result(matrix=matrix, **{**who, **given, **changes})


def put(written: Result, out: Path) -> Path:
    (out / written.key).mkdir()
    return write_result(written, out / written.key)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = result()
    path = put(written, tmp_path)
    assert read_result(path) == written
    assert list(path.parent.iterdir()) == [path]  # nothing half-written beside it


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
    path = put(result(), tmp_path)
    text = path.read_text("utf-8")
    path.write_text(text[: len(text) // 2], "utf-8")
    with pytest.raises(UserError, match="is no whole result"):
        read_result(path)


@pytest.mark.parametrize("version", [VERSION + 1, None])
def test_another_version_is_refused(tmp_path: Path, version: int | None) -> None:
    path = put(result(), tmp_path)
    found = {**json.loads(path.read_text("utf-8")), "version": version}
    path.write_text(json.dumps(found), "utf-8")
    with pytest.raises(UserError, match=f"is a result of version {version}, expected {VERSION}"):
        read_result(path)


def test_a_result_in_anothers_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path = put(result(), tmp_path).rename(tmp_path / "other" / RESULT)
    with pytest.raises(UserError, match="is the result of pmn-seed0-abc, expected that of other"):
        read_result(path)


def test_a_field_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = put(result(), tmp_path)
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


def test_an_older_record_says_nothing_of_what_was_not_kept_then(tmp_path: Path) -> None:
    path = put(result(), tmp_path)
    found = json.loads(path.read_text("utf-8"))
    assert found.pop("incomplete", 1) is None and found.pop("device", 1) is None
    path.write_text(json.dumps(found), "utf-8")
    assert read_result(path) == result()


@pytest.mark.parametrize("text", [b"", b"\xff", b"[]", b"null", b'"result"', b"1"])
def test_what_is_no_object_is_no_result(text: bytes, tmp_path: Path) -> None:
    path = put(result(), tmp_path)
    path.write_bytes(text)
    with pytest.raises(UserError, match=r"is no whole result|is a result of version None"):
        read_result(path)


def several() -> list[Result]:
    return [
        result(key="a", strategy="pmn", seed=0),
        result(key="b", strategy="pmn", seed=1, fraction=10.0),
        result(key="c", strategy="pmn", variant="equal gates", seed=0, status="failed"),
        result(key="d", strategy="pnn", seed=1),
    ]


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ({}, "abcd"),
        ({"strategies": ("pmn",)}, "abc"),
        (
            {
                "strategies": (
                    "pmn (equal gates)",
                    "pnn",
                )
            },
            "cd",
        ),
        ({"seeds": (1,)}, "bd"),
        (
            {
                "seeds": (
                    0,
                    1,
                ),
                "fractions": (100,),
            },
            "acd",
        ),
        (
            {
                "statuses": (
                    "failed",
                    "running",
                )
            },
            "c",
        ),
        ({"strategies": ("pmn",), "seeds": (1,), "statuses": ("completed",)}, "b"),
        ({"seeds": (7,)}, ""),
    ],
)
def test_some_results_are_chosen(asked: dict[str, Any], keys: str) -> None:
    assert "".join(found.key for found in chosen(several(), ResultFilter(**asked))) == keys


def test_an_unknown_strategy_cannot_be_chosen() -> None:
    with pytest.raises(UserError, match=r"no results of 'pmm', only of pmn, .*mean 'pmn'"):
        chosen(several(), ResultFilter(strategies=("pmm",)))


def test_commands_take_some_of_the_results(tmp_path: Path) -> None:
    for one in several():
        put(one, tmp_path)

    def keys(*given: str) -> list[str]:
        done = CliRunner().invoke(main, ["results", str(tmp_path), "--json", *given])
        assert done.exit_code == 0, done.output
        return [one["key"] for one in json.loads(done.stdout)]

    assert keys() == ["a", "b", "c", "d"]
    assert keys("--seed", "1", "--strategy", "pmn", "--strategy", "pnn") == ["b", "d"]
    assert keys("--status", "completed", "--fraction", "10") == ["b"]
    compare = ["compare", str(tmp_path)]
    mixed = CliRunner().invoke(main, compare)
    assert mixed.exit_code == 2 and "several settings" in mixed.stderr
    alike = CliRunner().invoke(main, [*compare, "--fraction", "100", "--strategy", "pmn"])
    assert alike.exit_code == 0 and "pmn" in alike.stdout and "pnn" not in alike.stdout


def test_a_run_that_ended_before_it_began_has_no_measures() -> None:
    empty = result(status="failed", tasks=[], metrics=[], scores={}, constant={})
    assert set(empty.summary().values()) == {None}


# The schema, for those who read results without this code.


def test_the_schema_that_comes_along_is_the_models() -> None:
    committed = json.loads(SCHEMA.read_text("utf-8"))
    assert committed == result_schema(), (
        "see pmn_cl.results.result.result_schema for how to write it"
    )
    Draft202012Validator.check_schema(committed)
    assert committed["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert "$id" not in committed and committed["title"] and committed["description"]


def test_every_field_is_described_and_required() -> None:
    schema = result_schema()
    for part in (schema, *schema["$defs"].values()):
        assert set(part["required"]) == set(part["properties"])
        assert all(field.get("description") for field in part["properties"].values())
        assert part["additionalProperties"] is False


STRATEGIES = """
import os, signal
from baselines.constant import Constant

class Failing(Constant):
    def learn(self, experience, validation):
        super().learn(experience, validation)
        if experience.task.name == "att":
            raise ValueError("no idea")

class Killed(Constant):
    def learn(self, experience, validation):
        super().learn(experience, validation)
        if experience.task.name == "att":
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def real(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results as runs leave them, by how they ended."""
    folder = tmp_path_factory.mktemp("real")
    names = ("hard_sharing", '"ending:Failing"', '"ending:Killed"')
    stream = tiny_stream(folder, *names, ending=STRATEGIES)
    runs = plan_runs(load_spec(stream), (), [0])
    Driver(folder / "out", cache=cache).run(runs)
    found = [json.loads((folder / "out" / run.key / RESULT).read_text("utf-8")) for run in runs]
    return {one["status"]: one for one in found}


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
def test_real_results_keep_to_the_schema(status: str, real: dict[str, Any]) -> None:
    found = real[status]
    validator = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    validator.validate(found)
    assert found["scores"]["test"] and (found["error"] is None) == (status == "completed")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: r["run"].pop("seed"), id="missing"),
        pytest.param(lambda r: r.pop("version"), id="missing version"),
        pytest.param(lambda r: r["run"].update(seed="0"), id="type"),
        pytest.param(lambda r: r["scores"]["test"][0].append("0.5"), id="type deep inside"),
        pytest.param(lambda r: r["costs"][0].pop("cpu_seconds"), id="missing deep inside"),
        pytest.param(lambda r: r.update(remark="fine"), id="unknown"),
        pytest.param(lambda r: r["error"].update(remark="fine"), id="unknown deep inside"),
        pytest.param(lambda r: r["run"]["strategy"].pop("name"), id="not all that was asked"),
        pytest.param(lambda r: r.update(status="fine"), id="status"),
        pytest.param(lambda r: r["parameters"].update(frozen=[1]), id="key"),
        pytest.param(lambda r: r.update(version=3), id="version"),
    ],
)
def test_what_the_schema_refuses_is_refused_by_us_too(
    change: Callable[[dict[str, Any]], object], real: dict[str, Any], tmp_path: Path
) -> None:
    broken = copy.deepcopy(real["failed"])
    change(broken)
    with pytest.raises(ValidationError):
        Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(broken)
    path = tmp_path / broken["key"] / RESULT
    path.parent.mkdir()
    path.write_text(json.dumps(broken), "utf-8")
    with pytest.raises(UserError, match="move it away"):
        read_result(path)
