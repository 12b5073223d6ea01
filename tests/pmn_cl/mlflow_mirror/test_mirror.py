"""The mirror in MLflow: the same points as the folder has, once, whenever it is made."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tiny_streams import TINY

from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.mlflow_mirror.mirror import PARENT, NoMirrorError, check_uri, connect, sync
from pmn_cl.mlflow_mirror.server import server
from pmn_cl.results.result import Result
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs
from pmn_cl.studies.conduct import Outcome, carry_through
from pmn_cl.studies.request import RunRequest
from pmn_cl.studies.run import plan_comparison


@pytest.fixture(scope="module")
def folder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    out = tmp_path_factory.mktemp("mirrored")
    runs = plan_runs(load_spec(TINY), ["constant", "hard_sharing"])
    return out, Driver(out, workers=2, cache=cache).run(runs)


def points(client: Any, run: str) -> dict[str, list[tuple[int, float, int]]]:
    names = client.get_run(run).data.metrics
    return {
        name: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run, name)]
        for name in names
    }


def test_every_score_is_there_with_the_experience_as_step(
    folder: tuple[Path, list[Result]],
) -> None:
    out, results = folder
    found = sync(out)
    client = connect(out)
    assert sorted(found.runs) == sorted(result.key for result in results)
    for result in results:
        run = client.get_run(found.runs[result.key])
        assert run.info.status == "FINISHED"
        assert run.data.tags[PARENT] == found.parent
        assert run.data.params["strategy"] == result.strategy
        assert run.data.params["seed"] == str(result.seed)
        assert [i.dataset.digest for i in run.inputs.dataset_inputs] == [result.data[:36]]
        known = points(client, found.runs[result.key])
        for split, matrix in result.scores.items():
            for column, task in enumerate(result.tasks):
                rows = [(i, row[column]) for i, row in enumerate(matrix) if row[column] is not None]
                assert [(step, value) for step, value, _ in known[f"{split}/{task}"]] == rows
        assert known["test/forgetting"][0][1] == result.summary()["forgetting"]
        assert known["parameters/total"][-1][1] == result.parameters["total"][-1]
        kept = {file.path for file in client.list_artifacts(found.runs[result.key])}
        assert kept == {"score_matrix.png", "score_matrix_test.json", "score_matrix_novel.json"}


def test_a_second_sync_adds_nothing_and_a_broken_mirror_is_made_whole(
    folder: tuple[Path, list[Result]],
) -> None:
    out, results = folder
    first = sync(out)
    client = connect(out)
    before = {key: points(client, run) for key, run in first.runs.items()}
    again = sync(out)
    assert again.written == [] and again.runs == first.runs
    # As if the mirror had been cut off before the run was marked as done.
    client.set_tag(first.runs[results[-1].key], "pmn.mirrored", "half")
    assert sync(out).written == [results[-1].key]
    assert {key: points(client, run) for key, run in first.runs.items()} == before


def test_means_over_seeds_are_on_the_parent(folder: tuple[Path, list[Result]]) -> None:
    out, results = folder
    found = sync(out)
    metrics = connect(out).get_run(found.parent).data.metrics
    values = [r.summary()["average"] for r in results if r.strategy == "hard_sharing"]
    assert None not in values
    mean = sum(v for v in values if v is not None) / len(values)
    assert metrics["hard_sharing/average.mean"] == pytest.approx(mean)
    assert metrics["hard_sharing/average.low"] < mean < metrics["hard_sharing/average.high"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no results to mirror"):
        sync(tmp_path)


# While runs go on, and when nobody answers.


def run_with(tracking: str | None, out: Path, cache: Path) -> tuple[Outcome, list[str]]:
    """Two runs with a mirror; return what came of them and what was said."""
    console = Console(record=True, quiet=False, file=io.StringIO(), markup=False, width=200)
    request = RunRequest(
        stream=TINY,
        strategies=("constant", "hard_sharing"),
        seeds=(0,),
        out=out,
        device="cpu",
        tracking=tracking,
        cache=cache,
    )
    outcome = carry_through(plan_comparison(request), request, console)
    assert [result.status for result in outcome.results] == ["completed"] * 2
    said = console.export_text().splitlines()
    return outcome, [line for line in said if line.startswith("warning:")]


def everything(out: Path, uri: str | None = None) -> dict[str, Any]:
    """All that a mirror holds of a folder's runs, by key, once it is whole."""
    found = sync(out, uri)
    assert found.written == []
    client = connect(out, uri)
    return {key: points(client, run) for key, run in found.runs.items()}


def test_runs_are_mirrored_while_they_go_on_to_the_same_points_as_afterwards(
    cache: Path, tmp_path: Path
) -> None:
    outcome, warnings = run_with(None, tmp_path, cache)
    assert warnings == []
    assert outcome.mirrored is not None and len(outcome.mirrored.runs) == 2
    elsewhere = f"sqlite:///{tmp_path / 'another.db'}"
    assert len(sync(tmp_path, elsewhere).written) == 2
    assert everything(tmp_path) == everything(tmp_path, elsewhere)


def test_a_run_that_is_started_over_replaces_its_mirror(cache: Path, tmp_path: Path) -> None:
    [run] = plan_runs(load_spec(TINY), ["constant"], [0])
    Driver(tmp_path, cache=cache).run([run])
    first = sync(tmp_path).runs[run.key]
    time.sleep(1.1)  # the moment of the start is known to the second
    Driver(tmp_path, cache=cache, fresh=True).run([run])
    found = sync(tmp_path)
    assert found.written == [run.key] and found.runs[run.key] != first
    client = connect(tmp_path)
    [kept] = client.search_runs([found.experiment], f"tags.`pmn.run_key` = '{run.key}'")
    assert kept.info.run_id == found.runs[run.key]
    assert all(len(steps) == len(set(steps)) for steps in points(client, kept.info.run_id).values())


def test_a_server_that_is_down_costs_a_warning(cache: Path, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        outcome, warnings = run_with(address, tmp_path, cache)
        with pytest.raises(NoMirrorError, match=f"MLflow at {address} cannot be written"):
            sync(tmp_path, address)
    assert outcome.mirrored is None
    [warning] = warnings
    assert address in warning and f"pmn-bench sync {tmp_path}" in warning
    assert len(sync(tmp_path).written) == 2


def test_a_server_that_hangs_is_not_waited_for_long(cache: Path, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)  # takes every request, and answers none
        began = time.monotonic()
        outcome, warnings = run_with(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, cache)
        whole = time.monotonic() - began
    worked = max(datetime.fromisoformat(r.started).timestamp() + r.seconds for r in outcome.results)
    started = time.time() - whole
    assert outcome.mirrored is None and len(warnings) == 1
    assert whole - (worked - started) < 15 + 2  # the moment of the start is known to the second


@pytest.mark.long
def test_a_server_that_dies_is_caught_up_with(cache: Path, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    connect(home)  # makes the database
    with server(home, port=0) as (address, process):
        port = int(address.rsplit(":", 1)[1])

        def kill_soon() -> None:
            client = connect(home)
            while not client.search_runs([e.experiment_id for e in client.search_experiments()]):
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_soon)
        killer.start()
        outcome, warnings = run_with(address, out, cache)
        killer.join()
    assert outcome.mirrored is None and len(warnings) == 1
    with server(home, port=port):
        sync(out, address)
        assert everything(out, address) == everything_local(out)


def everything_local(out: Path) -> dict[str, Any]:
    sync(out)
    return everything(out)


@pytest.mark.parametrize("uri", ["mlruns", "127.0.0.1:5000"])
def test_what_is_no_place_for_a_mirror_is_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a tracking URI"):
        check_uri(uri)
