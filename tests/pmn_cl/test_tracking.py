"""The mirror in MLflow: the same points as the folder has, once, whenever it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pmn_cl.driver import Driver
from pmn_cl.errors import UserError
from pmn_cl.results import Result
from pmn_cl.runs import plan_runs
from pmn_cl.spec import load_spec
from pmn_cl.tracking import PARENT, connect, sync

TINY = Path(__file__).parent.parent / "streams" / "tiny.yaml"


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
