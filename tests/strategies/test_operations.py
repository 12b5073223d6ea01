"""Operations against torch's own counter and by hand; what is not counted; nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.stream import Stream
from pmn_cl.config.names import strategy_class
from pmn_cl.config.stream import load_spec, parse_stream
from pmn_cl.results.result import read_result
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs
from strategies.operations import OperationCounter, OperationLog, bytes_of

STREAM = """
name: tiny
world: {name: digits, scenes: {train: 300, val: 50, test: 100, novel: 100}}
tasks: [obj, {task: rel, calls: [obj]}, {task: cnt, calls: [obj, rel]}]
budget: 10
strategies: [hard_sharing, pmn, replay, ewc, lwf]
seeds: [0]
"""


def test_products_are_counted_as_torch_does_and_by_hand() -> None:
    network = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(11, 5)
    with FlopCounterMode(display=False) as theirs:
        network(x).sum().backward()
    with OperationCounter() as ours:
        network(x).sum().backward()
    # Forwards, weights' gradients, and those of the second layer's inputs: x needs none.
    by_hand = 2 * 11 * (2 * 5 * 7 + 3 * 7 * 3)
    assert ours.operations == theirs.get_total_flops() == by_hand
    assert ours.others["tanh"] == ours.others["tanh_backward"] == 11 * 7
    assert "t" not in ours.others and "view" not in ours.others


def test_a_step_stands_for_all_of_its_kind() -> None:
    log, weight = OperationLog(), torch.randn(4, 4)

    def step(kind: str, products: int, samples: int = 8) -> None:
        log.begin_step(kind, samples)
        for _ in range(products):
            weight @ weight
        log.end_step()

    for kind, products in (("first", 3), ("first", 3), ("later", 1), ("later", 1), ("later", 1)):
        step(kind, products)
    assert log.learned == (2 * 3 + 3) * 2 * 4**3
    again = OperationLog()
    again.load_state(json.loads(json.dumps(log.state())))
    again.begin_step("later", 4)  # half as many samples
    again.end_step()
    assert again.learned == log.learned + 4**3
    log.begin_phase()
    assert log.learned == 0


def test_a_step_that_fails_leaves_no_counter_behind() -> None:
    log = OperationLog()

    def failing() -> None:
        with log.closing():
            log.begin_step("a", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    before = OperationCounter()
    with before:
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert before.operations == 16
    log.end_step()
    assert log.learned == 0


def test_what_is_remembered_counts_by_its_rows_and_not_by_steps() -> None:
    log, weight = OperationLog(), torch.randn(4, 4)

    def step(rows: int) -> None:
        log.begin_step("vqa", 8)
        weight @ weight
        if rows:
            with log.remembering("scenes", rows, 100):
                torch.ones(rows, 4) @ weight
        log.end_step()

    for rows in (10, 20, 0, 5):
        step(rows)
    assert log.learned == 4 * 2 * 4**3 + 35 * 2 * 4 * 4
    with log.remembering("scenes", 7, 100):  # to answer, and not to learn
        torch.ones(7, 4) @ weight
    with log.around():
        weight @ weight
    assert log.learned == 5 * 2 * 4**3 + 35 * 2 * 4 * 4
    assert (log.per_row, log.rows) == ({"scenes": 2 * 4 * 4}, {"scenes": 100})


STEADY, DRAWN = 0.02, 0.06  # steps alike but for questions' lengths; with samples drawn anew


@pytest.mark.parametrize(
    ("name", "off"),
    [
        *((name, STEADY) for name in ("pmn", "hard_sharing", "pnn", "multinet", "lwf")),
        *((name, DRAWN) for name in ("agem", "ewc", "gem", "replay")),
    ],
)
def test_what_is_counted_is_what_is_carried_out(name: str, off: float, cache: Path) -> None:
    """All operations of the training, without validation, by a counter around all of it."""
    spec = parse_stream({**yaml.safe_load(STREAM), "strategies": [name]})
    strategy = strategy_class(name)(budget=20.0)
    for experience in Stream.open(spec, 0, cache=cache).as_avalanche().streams["train"]:
        with OperationCounter() as everything:
            strategy.train(experience, eval_streams=[])
        counted = strategy.operations_taken().learned
        assert counted == pytest.approx(everything.operations, rel=off)


def test_bytes_by_hand() -> None:
    assert bytes_of([torch.zeros(3), torch.zeros(2, dtype=torch.int64)]) == 12 + 16


@pytest.fixture(scope="module")
def results(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("work")
    (folder / "stream.yaml").write_text(STREAM, "utf-8")
    found = Driver(folder / "out", cache=cache).run(plan_runs(load_spec(folder / "stream.yaml")))
    assert [result.error for result in found] == [None] * 5
    return {r.strategy: folder / "out" / r.key / "result.json" for r in found}


def test_every_run_says_what_it_took_and_keeps(results: dict[str, Path]) -> None:
    work = {name: read_result(path).work for name, path in results.items()}
    for found in work.values():
        assert len(found.learned) == 3 and all(found.learned)
        assert found.answer.keys() == {"obj", "rel", "cnt"} and found.uncounted["sum"] > 0
        assert found.bytes["weights"] == sorted(found.bytes["weights"])
    parameters = read_result(results["hard_sharing"]).parameters["total"]
    assert work["hard_sharing"].bytes["weights"] == [4 * count for count in parameters]
    assert work["hard_sharing"].bytes["method"] == [0, 0, 0] == work["pmn"].bytes["method"]
    # A copy of the network from the second task on; Fisher values and old weights; samples.
    assert work["lwf"].bytes["method"][0] == 0
    assert work["lwf"].bytes["method"][2] >= work["lwf"].bytes["weights"][1]
    assert work["ewc"].bytes["method"][0] >= work["ewc"].bytes["weights"][0]
    assert work["replay"].bytes["method"][1] > 100_000
    # On the same batches, a copy that answers, too, and samples again, take more.
    assert work["lwf"].learned[0] == pytest.approx(work["hard_sharing"].learned[0])
    for dearer in ("lwf", "replay"):
        assert work[dearer].learned[2] > 1.2 * work["hard_sharing"].learned[2]


def test_what_learning_takes_is_known_before(results: dict[str, Path], cache: Path) -> None:
    spec = load_spec(results["pmn"].parent.parent.parent / "stream.yaml")
    for name in ("hard_sharing", "pmn"):
        experiences = list(Stream.open(spec, 0, cache=cache).as_avalanche().streams["train"])
        strategy = strategy_class(name)(budget=spec.budget)
        expected = sum(found or 0.0 for found in read_result(results[name]).work.learned)
        # Batches differ: other scenes together, other lengths of questions.
        assert strategy.operations_to_learn(experiences) == pytest.approx(expected, rel=0.05)


def test_the_count_of_a_task_by_hand(results: dict[str, Path], cache: Path) -> None:
    """M_obj: two layers over all regions of a scene, padding too; x needs no gradient."""
    result = read_result(results["pmn"])
    spec = load_spec(results["pmn"].parent.parent.parent / "stream.yaml")
    [experience, *_] = Stream.open(spec, 0, cache=cache).as_avalanche().streams["train"]
    x, _ = experience.batches[[0]]
    regions, width = x["regions"].shape[1:]
    hidden, classes = 160, len(experience.samples.store.names["objects"])
    each = 2 * regions * (2 * width * hidden + 3 * hidden * classes)
    assert result.work.learned[0] == pytest.approx(each * result.costs[0].samples_seen, rel=1e-6)
    assert result.work.answer["obj"] == 2 * regions * (width * hidden + hidden * classes)
