"""The paper's ablations: the call lists of its tables, and what is made of their results."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_results import result

from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.errors import UserError
from pmn_cl.results.ladder import TABLES, tables
from pmn_cl.studies.ablation import RUNGS, ablation_runs

_SHIPPED = load_spec(find_stream("stream.yaml")[0])
FASTER = [
    given.model_copy(update={"options": {"lr_scale": 3.0}})
    for given in _SHIPPED.strategies
    if given.name != "executor"
]
STREAM = _SHIPPED.model_copy(update={"strategies": FASTER})
FOLDER = Path("modules")


def test_call_lists_are_those_of_the_papers_tables() -> None:
    def composition(name: str) -> set[str]:
        return set(RUNGS[name].tasks[-1][1])

    assert composition("M_rel1") == composition("M_cap1") == composition("M_cnt1") == {"obj", "att"}
    assert composition("M_cnt2") == {"obj", "att", "rel"}
    assert composition("M_vqa2") == {"obj", "att", "rel"}
    assert composition("M_vqa3") == {"obj", "att", "cnt"}
    assert dict(RUNGS["M_vqa3"].tasks)["cnt"] == ("obj", "att")  # Table 3: it calls M_cnt1
    assert composition("M_vqa4") == {"obj", "att", "rel", "cnt"}
    assert dict(RUNGS["M_vqa4"].tasks)["cnt"] == ("obj", "att", "rel")  # and M_cnt2
    assert composition("M_vqa5") == {"obj", "att", "rel", "cnt", "cap"}
    assert all(not composition(f"M_{task}0") for task in ("rel", "cap", "cnt", "vqa"))


def test_every_rung_is_a_stream_that_can_be_run() -> None:
    runs = ablation_runs(STREAM, seeds=[0, 1], reuse=FOLDER)
    assert len(runs) == 2 * len(RUNGS) == len({run.key for run in runs})
    for run in runs:
        learned: list[str] = []
        for item in run.stream.tasks:
            assert set(item.calls or ()) <= set(learned)
            learned.append(item.task)
        assert run.strategy.options["lr_scale"] == 3.0  # as the stream has it for pmn
        assert run.stream.budget == STREAM.budget
        stages = {item.task: item.curriculum for item in STREAM.tasks}
        assert all(item.curriculum == stages[item.task] for item in run.stream.tasks)
    assert any(item.curriculum for item in STREAM.tasks)


def test_a_single_rung_by_name() -> None:
    [run] = ablation_runs(STREAM, only=["M_vqa1 extra data"], seeds=[3], reuse=FOLDER)
    assert run.stream.tasks[-1].extra == "rel" and run.seed == 3
    with pytest.raises(UserError, match=r"'M_vqa6': expected one of M_rel0, .*did you mean"):
        ablation_runs(STREAM, only=["M_vqa6"], reuse=FOLDER)


def test_tables_compare_with_their_first_rung() -> None:
    some = [
        result("pmn", seed, [[None, None], [0.5, final]], study="ablate", rung=name)
        for name, finals in {"M_rel0": [0.4, 0.5], "M_rel1": [0.5, 0.7]}.items()
        for seed, final in enumerate(finals)
    ]
    [(title, [base, full])] = tables(some).items()
    assert title == "M_rel (Table 1)" and base.gain is None
    assert full.gain is not None and full.gain.difference.mean == pytest.approx(0.15)
    assert full.score.mean == pytest.approx(0.6) and full.paper == "53.4, 57.8"
    assert all(name in RUNGS for names in TABLES.values() for name in names)
    shown = {name for names in TABLES.values() for name in names}
    assert {name for name in RUNGS if name.startswith("M_")} == shown
