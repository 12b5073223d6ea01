"""Runs that share modules: each comes to what it would come to alone, and counts its cost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_streams import tiny_stream

from pmn_cl.config.spec import RunSpec
from pmn_cl.config.stream import load_spec
from pmn_cl.results.folder import JOURNAL
from pmn_cl.results.result import REUSED, REUSED_CPU, Result
from pmn_cl.runs.checkpoint import Checkpoints, Keeper
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.journal import Journal, read_journal
from pmn_cl.runs.plan import plan_runs
from pmn_cl.runs.record import curve_of
from pmn_cl.runs.sharing import Sharing
from pmn_cl.strategy.base import LearningCost, Strategy, TrainingProgress

STRATEGIES = ("pmn", "independent", "parameter_matched", "executor")
# Two variants of this one learn the same; a file beside it says where the power fails.
POWER_CUT = """
import os, signal
from pathlib import Path
from strategies.pmn import Progressive

class Unpowered(Progressive):
    def power(self, moment):
        trouble = Path(__file__).with_name("trouble")
        if "att" in self.network and trouble.exists() and trouble.read_text("utf-8") == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def batch_loss(self, x, y, experience):
        if self.clock.train_exp_iterations == 2:
            self.power("in the middle")
        return super().batch_loss(x, y, experience)

    def leave(self, cost):
        super().leave(cost)
        self.power("when its module is left to others")
"""


def what_matters(result: Result) -> list[Any]:
    """All that must not depend on which run has learned a module."""
    named = ("status", "scores", "secondary", "weights", "parameters", "validation", "curves")
    return [*(getattr(result, n) for n in named), [cost.samples_seen for cost in result.costs]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    tiny_stream(folder, *STRATEGIES[:3], "{name: executor, probe: modules}")
    return folder


@pytest.fixture(scope="module")
def alone(place: Path, cache: Path) -> dict[str, Result]:
    runs = plan_runs(load_spec(place / "stream.yaml"), (), [0])
    found = Driver(place / "alone", cache=cache).run(runs)
    return {result.strategy: result for result in found}


@pytest.fixture(scope="module")
def shared(place: Path, cache: Path) -> dict[str, Result]:
    out = place / "out"
    runs = plan_runs(load_spec(place / "stream.yaml"), (), [0], out / "modules")
    return {result.strategy: result for result in Driver(out, cache=cache).run(runs)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sharing_changes_nothing_of_a_record(
    strategy: str, alone: dict[str, Result], shared: dict[str, Result]
) -> None:
    assert what_matters(shared[strategy]) == what_matters(alone[strategy])
    assert shared[strategy].key == alone[strategy].key


def test_all_but_the_widened_module_is_shared(shared: dict[str, Result]) -> None:
    # obj and att are those of pmn; cnt of independent calls nobody, and is widened in the third.
    assert [shared[name].details[REUSED] for name in STRATEGIES] == [0, 2, 2, 2]
    assert shared["independent"].tasks == ["obj", "att", "cnt"]


def test_a_module_costs_the_same_wherever_it_is(place: Path, shared: dict[str, Result]) -> None:
    kept = [json.loads(path.read_text("utf-8")) for path in place.glob("out/modules/*/cost.json")]
    for name in STRATEGIES[1:]:
        spared = 0.0
        for ours, theirs in zip(shared[name].costs[:2], shared["pmn"].costs, strict=False):
            assert ours.learn_seconds == theirs.learn_seconds > 0
            assert ours.learn_peak_bytes == theirs.learn_peak_bytes > 0
            [cost] = [c for c in kept if c["learn_seconds"] == ours.learn_seconds]
            # Of evaluation each has its own.
            assert ours.cpu_seconds >= cost["cpu_seconds"] > 0
            assert theirs.cpu_seconds >= cost["cpu_seconds"]
            spared += cost["cpu_seconds"]
        assert shared[name].details[REUSED_CPU] == pytest.approx(spared)


def test_the_curve_of_a_module_is_in_every_journal(place: Path, shared: dict[str, Result]) -> None:
    journals = [read_journal(place / "out" / shared[name].key / JOURNAL) for name in STRATEGIES]
    for task in ("obj", "att"):
        first, *others = [curve_of(task, events) for events in journals]
        assert first and others == [first] * 3


# Runs that are cut off.


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RunSpec]]:
    """Two runs that learn the same."""
    place = tmp_path_factory.mktemp("power_cut")
    both = (f'{{name: "power_cut:Unpowered", variant: {v}}}' for v in ("one", "other"))
    stream = tiny_stream(place, *both, power_cut=POWER_CUT)
    return place, plan_runs(load_spec(stream), (), [0])


@pytest.fixture(scope="module")
def undisturbed(pair: tuple[Path, list[RunSpec]], cache: Path) -> Result:
    place, runs = pair
    [result] = Driver(place / "undisturbed", cache=cache).run(runs[:1])
    return result


@pytest.mark.parametrize(
    ("moment", "meanwhile", "reused"),
    [
        ("in the middle", False, 0),
        ("in the middle", True, 2),  # att and cnt, which the other has learned
        ("when its module is left to others", False, 1),  # then it finds its own
        ("when its module is left to others", True, 2),
    ],
)
def test_a_run_that_was_cut_off_comes_to_the_same(
    moment: str,
    meanwhile: bool,
    reused: int,
    pair: tuple[Path, list[RunSpec]],
    undisturbed: Result,
    cache: Path,
    tmp_path: Path,
) -> None:
    place, plain = pair
    first, second = (r.model_copy(update={"reuse": str(tmp_path / "modules")}) for r in plain)
    (place / "trouble").write_text(moment, "utf-8")
    [cut] = Driver(tmp_path, cache=cache, every=0).run([first])
    (place / "trouble").unlink()
    assert cut.status == "interrupted" and len(cut.costs) == 1
    if meanwhile:
        [other] = Driver(tmp_path, cache=cache).run([second])
        assert what_matters(other) == what_matters(undisturbed)
    [resumed] = Driver(tmp_path, cache=cache).run([first])
    assert what_matters(resumed) == what_matters(undisturbed)
    assert resumed.details[REUSED] == reused


# Waiting.


class Learner(Strategy):
    """Learns nothing; takes what it is given, or leaves what it has."""

    def __init__(self, cost: LearningCost | None = None) -> None:
        super().__init__()
        self.given, self.left = cost, []

    def taken(self) -> LearningCost | None:
        return self.given

    def leave(self, cost: LearningCost) -> None:
        self.left.append(cost)

    def learn(self, experience: Any, validation: Any) -> None: ...
    def predict(self, experience: Any) -> Any: ...
    def save(self, folder: Any) -> None: ...
    def load(self, folder: Any, experiences: Any) -> None: ...


def sharing(learner: Learner, folder: Path, shown: list[TrainingProgress]) -> tuple[Any, Keeper]:
    keeper = Keeper(Checkpoints(folder), lambda: False)
    return Sharing(learner, keeper, Journal(folder), shown.append), keeper


def test_time_spent_waiting_for_another_run_is_no_cost(tmp_path: Path) -> None:
    """The other has died, and the module is learned here after all."""
    shown: list[TrainingProgress] = []
    learner = Learner()
    ours, keeper = sharing(learner, tmp_path, shown)
    ours.begin("obj")
    ours.wait()
    time.sleep(0.5)
    ours.wait()
    learner.samples_seen = 7
    keeper.clock.learned()
    ours.settle()
    [cost] = learner.left
    assert cost.learn_seconds < 0.5 and cost.samples_seen == 7
    [note] = shown  # once is enough
    assert (note.task, note.score) == ("obj", None) and note.note.startswith("waits for")


def test_what_was_spent_before_waiting_counts(tmp_path: Path) -> None:
    ours, keeper = sharing(Learner(), tmp_path, [])
    keeper.clock = type(keeper.clock)({"seconds": 100.0, "cpu": 50.0, "peak": 1})
    ours.begin("obj")
    ours.wait()
    keeper.clock.learned()
    assert 100 <= keeper.clock.learning()[0] < 110


def test_what_is_taken_replaces_what_finding_it_took(tmp_path: Path) -> None:
    shown: list[TrainingProgress] = []
    points = [{"step": 2, "loss": 1.0, "score": 0.5}, {"step": 4, "loss": 0.5, "score": 0.25}]
    learner = Learner(LearningCost(8.0, 6.0, 10, 7, 3, points))
    ours, keeper = sharing(learner, tmp_path, shown)
    keeper.clock = type(keeper.clock)({"seconds": 100.0, "cpu": 50.0, "peak": 1})  # begun here
    ours.begin("obj")
    keeper.clock.learned()
    ours.settle()
    cost = keeper.clock.cost()
    assert cost["learn_seconds"] == 8.0 and cost["learn_peak_bytes"] == 10
    assert 6.0 <= cost["cpu_seconds"] < 7.0
    assert curve_of("obj", read_journal(tmp_path / JOURNAL)) == points and learner.left == []
    assert [(p.note, p.score) for p in shown] == [("learned by another run", 0.5)]
