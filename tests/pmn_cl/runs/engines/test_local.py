"""Engines: whoever carries runs out, the driver finds the same in its folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_streams import TINY

from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.files import held
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.base import Ending
from pmn_cl.runs.engines.factory import make_engine
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.journal import read_journal
from pmn_cl.runs.plan import RunSpec, plan_runs
from pmn_cl.runs.worker import Terms


def what_matters(results: list[Result]) -> list[Any]:
    return [(r.key, r.status, r.scores, r.weights, r.parameters, r.validation) for r in results]


@pytest.fixture(scope="module")
def runs() -> list[RunSpec]:
    return plan_runs(load_spec(TINY), ["hard_sharing"], [0, 1])


@pytest.fixture(scope="module")
def undisturbed(
    runs: list[RunSpec], cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Result]:
    return Driver(tmp_path_factory.mktemp("undisturbed"), cache=cache).run(runs)


def wait_until_begun(folder: Path) -> None:
    while not (folder / JOURNAL).exists() or not read_journal(folder / JOURNAL):
        time.sleep(0.01)


@pytest.mark.parametrize("leave", [False, True], ids=["stop", "leave"])
def test_runs_that_are_stopped_keep_their_state_and_go_on(
    leave: bool, runs: list[RunSpec], undisturbed: list[Result], cache: Path, tmp_path: Path
) -> None:
    stopped: list[Ending] = []
    with LocalEngine() as engine:
        for run in runs:
            (tmp_path / run.key).mkdir()
            engine.start(run, tmp_path / run.key, Terms(cache, every=0))
        for run in runs:
            wait_until_begun(tmp_path / run.key)
        if not leave:
            stopped = engine.stop()
            assert [ending.run for ending in stopped] == runs
            assert [ending.how for ending in stopped] == ["exit code 0"] * 2  # in order
        assert engine.stop() == [] or leave  # nobody is stopped twice
    for run in runs:
        with held(tmp_path / run.key, "this run", patience=0):  # nobody goes on with it
            pass
        assert read_result(tmp_path / run.key / RESULT).status == "interrupted"
    assert what_matters(Driver(tmp_path, cache=cache).run(runs)) == what_matters(undisturbed)


class Narrow(LocalEngine):
    """Has room for one, however many are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def has_room(self, run: RunSpec) -> bool:
        return not self._running

    def ended(self, patience: float) -> list[Ending]:
        self.most = max(self.most, len(self._running))
        return super().ended(patience)


def test_the_driver_starts_no_more_than_there_is_room_for(
    runs: list[RunSpec], undisturbed: list[Result], cache: Path, tmp_path: Path
) -> None:
    engine = Narrow()
    found = Driver(tmp_path, workers=2, cache=cache, engine=engine).run(runs)
    assert engine.most == 1
    assert what_matters(found) == what_matters(undisturbed)


def test_how_a_process_ended_in_words(runs: list[RunSpec]) -> None:
    assert Ending.of(runs[0], 3).how == "exit code 3"
    assert Ending.of(runs[0], -9).how == "ended by signal SIGKILL"


def test_the_run_finds_out_which_device_is_meant(cache: Path, tmp_path: Path) -> None:
    [result] = Driver(tmp_path, cache=cache, device="auto").run(
        plan_runs(load_spec(TINY), ["constant"], [0])
    )
    assert result.device == ("cuda" if torch.cuda.is_available() else "cpu")


def test_engines_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_engine("local"), LocalEngine)
    with pytest.raises(UserError, match="engine 'locl', expected one of local, ray; did you mean"):
        make_engine("locl")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "pmn_cl.runs.engines.ray", raising=False)
    with pytest.raises(UserError, match=r"pip install 'pmn-cl\[ray\]'"):
        make_engine("ray")
