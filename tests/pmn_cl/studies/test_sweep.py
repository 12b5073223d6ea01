"""The low-data regime: which runs, how long they learn, what they gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_results import result

from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.errors import UserError
from pmn_cl.results.low_data import gains
from pmn_cl.results.paper import FRACTIONS
from pmn_cl.results.result import Result
from pmn_cl.studies.sweep import sweep_runs, swept_tasks

_SHIPPED = load_spec(find_stream("stream.yaml")[0])
FASTER = [
    given.model_copy(update={"options": {"lr_scale": 3.0}})
    for given in _SHIPPED.strategies
    if given.name != "executor"
]
STREAM = _SHIPPED.model_copy(update={"strategies": FASTER})


def runs(**given: Any) -> list[Any]:
    return sweep_runs(STREAM, samples=6400, reuse=Path("modules"), **given)


def test_the_papers_sweep() -> None:
    found = runs(seeds=[0, 1])
    assert len(found) == 6 * 2 * 2
    assert {run.stream.fraction for run in found} == {1, 5, 10, 25, 50, 100}
    assert {run.strategy.name for run in found} == {"pmn", "independent"}
    assert all(
        run.study == "sweep" and run.evaluate_at_end and run.reuse == "modules" for run in found
    )
    assert len({run.key for run in found}) == len(found)
    tasks = {item.task: item for item in found[0].stream.tasks}
    # Section 4.3: L_vqa = [Ω, M_rel, M_obj, M_att, Δ, M_cap], because of questions from M_cnt.
    assert tasks["vqa"].calls == ["rel", "obj", "att", "cap"] and "cnt" not in tasks
    assert tasks["vqa"].fraction is None  # the stream's
    assert {tasks[name].fraction for name in ("obj", "att", "rel", "cap")} == {100}
    [rel] = [item for item in STREAM.tasks if item.task == "rel"]
    assert tasks["rel"].curriculum == rel.curriculum != []


def test_another_task_has_what_it_calls_below_it() -> None:
    assert [t.task for t in swept_tasks(STREAM, "cnt")] == ["obj", "att", "rel", "cnt"]
    assert [t.task for t in swept_tasks(STREAM, "obj")] == ["obj"]
    named = [item.model_copy(update={"calls": None}) for item in STREAM.tasks]
    usual = STREAM.model_copy(update={"tasks": named})
    assert swept_tasks(usual, "vqa") == swept_tasks(STREAM, "vqa")  # the paper's lists
    with pytest.raises(UserError, match=r"--task vaq: the stream has .*did you mean 'vqa'"):
        swept_tasks(STREAM, "vaq")


def test_fractions_get_the_steps_of_all_data() -> None:
    # 6,400 samples in 25 batches, 12 epochs, 42% of the budget: 126 steps with all data.
    [run] = runs(fractions=[1.0], strategies=["pmn"], seeds=[0])
    assert run.strategy.options["training"]["vqa"] == {"least_steps": 126, "patience": 3}
    assert run.strategy.options["lr_scale"] == 3.0  # as the stream has it
    [constant] = runs(fractions=[1.0], strategies=["constant"], seeds=[0])
    assert constant.strategy.options == {}


def swept(strategy: str, seed: int, fraction: float, final: float) -> Result:
    return result(strategy, seed, [[None, None], [0.5, final]], study="sweep", fraction=fraction)


def test_gains_are_paired_by_seed() -> None:
    some = [
        *(swept("pmn", seed, 10, final) for seed, final in enumerate([0.5, 0.6])),
        *(swept("independent", seed, 10, final) for seed, final in enumerate([0.4, 0.4])),
        swept("pmn", 0, 1, 0.1),
        swept("independent", 0, 1, 0.2),
        swept("pmn", 1, 5, 0.9),  # without its pair
        result("pmn", 0, [[0.9, None], [0.9, 0.9]], fraction=10),  # of no sweep
    ]
    one, ten = gains(some)
    assert (one.fraction, ten.fraction) == (1, 10)
    assert one.pair.difference.mean == pytest.approx(-0.1) and one.pair.difference.low is None
    assert ten.pair.difference.mean == pytest.approx(0.15) and ten.pair.seeds == 2
    assert (one.paper, ten.paper) == (-0.0049, 0.0401)  # Table 6 of the paper
    assert len(FRACTIONS) == 6
