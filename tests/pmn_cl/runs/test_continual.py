"""Evaluation inside tasks: at the right steps, without a trace in what is learned."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from benchmarks.stream import Stream
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.results.difference import findings
from pmn_cl.results.result import Result, read_results
from pmn_cl.runs.continual import is_early
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs

STREAM = """
name: tiny
world: {name: digits, scenes: {train: 300, val: 50, test: 100, novel: 100}}
tasks: [obj, {task: att, calls: []}]
budget: 25
strategies: [hard_sharing, pmn, hard_sharing_joint]
seeds: [0]
"""


def learned(folder: Path, cache: Path, every: str) -> dict[str, Result]:
    folder.mkdir()
    (folder / "stream.yaml").write_text(f"{STREAM}evaluate_every: {every}\n", "utf-8")
    found = Driver(folder / "out", cache=cache).run(plan_runs(load_spec(folder / "stream.yaml")))
    assert [result.error for result in found] == [None] * 3
    return {result.strategy: result for result in found}


@pytest.fixture(scope="module")
def often(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    return learned(tmp_path_factory.mktemp("often") / "a", cache, "{steps: 7, probe: 20}")


def test_all_that_was_seen_is_scored_at_its_steps(often: dict[str, Result]) -> None:
    for name in ("hard_sharing", "pmn"):
        result = often[name]
        steps = [result.curves[task][-1].step for task in result.tasks]
        due = [[s for s in range(1, n + 1) if s in (1, 4) or s % 7 == 0] for n in steps]
        assert result.inside.step == due[0] + due[1]
        assert result.inside.phase == [0] * len(due[0]) + [1] * len(due[1])
        rows = result.inside.scores
        assert all(row[0] is not None and row[1] is None for row in rows[: len(due[0])])
        assert all(None not in row for row in rows[len(due[0]) :])
        assert result.inside.cpu_seconds[: len(due[0])] == sorted(
            result.inside.cpu_seconds[: len(due[0])]
        )
        assert len(result.scores["probe"]) == 2 and result.samples["probe"] == [20, 20]
    joint = often["hard_sharing_joint"]
    assert {*joint.inside.phase} == {0} and all(None not in row for row in joint.inside.scores)


def test_what_is_frozen_does_not_move_inside_a_task(often: dict[str, Result]) -> None:
    pmn, shared = often["pmn"], often["hard_sharing"]
    after = [row[0] for row in pmn.scores["probe"]]
    during = {
        row[0] for phase, row in zip(pmn.inside.phase, pmn.inside.scores, strict=True) if phase
    }
    assert during == {round(score, 5) for score in after if score is not None}
    moved = {
        row[0]
        for phase, row in zip(shared.inside.phase, shared.inside.scores, strict=True)
        if phase
    }
    assert len(moved) > 1


def test_looking_changes_nothing_that_is_learned(
    often: dict[str, Result], cache: Path, tmp_path: Path
) -> None:
    seldom = learned(tmp_path / "b", cache, "{steps: 100000, probe: 20}")
    for name, result in often.items():
        assert result.weights == seldom[name].weights
        assert result.scores == seldom[name].scores


def test_a_run_that_is_cut_off_goes_on_to_the_same_moments(
    often: dict[str, Result], cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "stream.yaml").write_text(
        f"{STREAM}evaluate_every: {{steps: 7, probe: 20}}\n", "utf-8"
    )
    [run, *_] = plan_runs(load_spec(tmp_path / "stream.yaml"))
    from pmn_cl.runs.checkpoint import Interrupted
    from pmn_cl.runs.execute import carry_out

    folder = tmp_path / run.key
    folder.mkdir()
    for stop_after in (10, 5, 30):
        left = iter(range(stop_after))
        with pytest.raises(Interrupted):
            carry_out(run, folder, cache=cache, stop=lambda left=left: next(left, None) is None)
    again = carry_out(run, folder, cache=cache)
    ours, theirs = again.inside, often["hard_sharing"].inside
    assert (ours.phase, ours.step, ours.scores) == (theirs.phase, theirs.step, theirs.scores)
    assert again.weights == often["hard_sharing"].weights


def test_a_run_that_is_cut_off_after_every_step_comes_to_the_same_in_all_that_verify_compares(
    often: dict[str, Result], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = "{steps: 7, probe: 20}"
    (tmp_path / "stream.yaml").write_text(f"{STREAM}evaluate_every: {every}\n", "utf-8")
    [run, *_] = plan_runs(load_spec(tmp_path / "stream.yaml"))
    from pmn_cl.runs.checkpoint import Interrupted, Keeper
    from pmn_cl.runs.execute import carry_out

    folder = tmp_path / run.key
    folder.mkdir()
    monkeypatch.setattr(Keeper, "between", lambda self: None)  # asked after steps alone
    again = None
    while again is None:
        with suppress(Interrupted):
            again = carry_out(run, folder, cache=cache, stop=lambda: True)
    found = findings(often["hard_sharing"], again)
    assert [str(f) for f in found if not f.good] == []
    assert {"learning curves", "inside phase 2", "operations to answer"} <= {f.what for f in found}


def test_a_run_that_is_scored_at_its_end_alone_is_not_scored_inside_tasks(
    cache: Path, tmp_path: Path
) -> None:
    """Between tasks it has no scores, either, that what is frozen could be shown by."""
    (tmp_path / "stream.yaml").write_text(f"{STREAM}evaluate_every: {{steps: 7}}\n", "utf-8")
    run, *_ = plan_runs(load_spec(tmp_path / "stream.yaml"))
    run = run.model_copy(update={"evaluate_at_end": True})
    [result] = Driver(tmp_path / "out", cache=cache).run([run])
    assert result.inside.step == [] and result.scores["probe"][0] == [None, None]
    assert None not in result.scores["probe"][1]


def test_seconds_may_say_how_often(cache: Path, tmp_path: Path) -> None:
    found = learned(tmp_path / "s", cache, "{seconds: 0.01, probe: 20}")
    assert len(found["hard_sharing"].inside.step) > 8
    again = {result.strategy: result for result in read_results(tmp_path / "s" / "out")}
    assert again == found


def test_the_probe_is_in_no_other_split(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text(f"{STREAM}evaluate_every: 50\n", "utf-8")
    spec = load_spec(tmp_path / "stream.yaml")
    assert spec.evaluate_every is not None and spec.evaluate_every.interval == 50
    for seed in (0, 1):
        for task in Stream.open(spec, seed, cache=cache).tasks:
            probe, validation = (task.splits[name].rows for name in ("probe", "val"))
            assert len(probe) == len(validation) == 25  # half of 50, as 256 are not there
            assert np.array_equal(np.sort([*probe, *validation]), np.arange(50))


@pytest.mark.parametrize(
    ("every", "said"),
    [
        ("0", "stream.yaml:8:17: evaluate_every"),
        ("{steps: 3, seconds: 2}", "by `steps` or by `seconds`"),
        ("{step: 3}", "did you mean 'steps'"),
        ("often", "evaluate_every"),
    ],
)
def test_mistakes_are_said_where_they_are(tmp_path: Path, every: str, said: str) -> None:
    (tmp_path / "stream.yaml").write_text(f"{STREAM}evaluate_every: {every}\n", "utf-8")
    with pytest.raises(UserError) as error:
        load_spec(tmp_path / "stream.yaml")
    assert said in str(error.value), error.value


def test_early_steps_are_powers_of_four_below_the_regular_ones() -> None:
    assert [step for step in range(1, 300) if is_early(step, 100)] == [1, 4, 16, 64]
