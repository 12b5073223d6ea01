"""Measures of results by hand: two tasks, floor 0.2 and 0.1, joint training 1.0 and 0.6."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from made_results import FIELD, result

from pmn_cl import registry
from pmn_cl.errors import UserError
from pmn_cl.results.measures.catalogue import (
    CATALOGUE,
    Scored,
    in_context,
    load_measure,
    measure,
    raw_moments,
)
from pmn_cl.results.measures.continual import Moment
from pmn_cl.results.measures.table import measure_table
from pmn_cl.results.result import Result

BY_NAME = {known.name: known for known in CATALOGUE}


def of(name: str, *results: Result, split: str = "test") -> float | None:
    """The measure of the first result, the others beside it."""
    return BY_NAME[name](in_context(results, split)[0])


def seed0(*names: str) -> list[Result]:
    return [r for name in names for r in FIELD if r.name == name and r.seed == 0]


# hard_sharing, seed 0: a 0.8 then 0.4, b 0.5; as shares 0.75 then 0.25, 0.8.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("normalised average", (0.25 + 0.8) / 2),
        ("learning accuracy", (0.75 + 0.8) / 2),
        ("forgetting", 0.5),
        ("forgetting, first − last", 0.5),
        ("backward transfer", -0.5),
        ("forgetting (CLiMB)", 100 * 0.5 / 0.75),
        ("forward transfer", None),  # b was not answered before it was learned
        # Alone a comes to 0.7, b to 0.5: shares 0.625 and 0.8.
        ("transfer over scratch", (0.125 + 0.0) / 2),
        ("knowledge transfer (CLiMB)", 100 * (0.125 / 0.625) / 2),
        ("intransigence", (0.25 + 0.2) / 2),
    ],
)
def test_measures_of_the_matrix_by_hand(name: str, expected: float | None) -> None:
    found = of(name, *seed0("hard_sharing", "independent", "hard_sharing_joint"))
    assert found == (expected if expected is None else pytest.approx(expected))


def test_without_what_they_are_measured_by_there_are_none() -> None:
    assert {known(in_context(seed0("pmn"), "test")[0]) for known in CATALOGUE} == {None}
    joint = seed0("hard_sharing_joint")
    assert of("normalised average", *joint) == pytest.approx(1.0)
    assert of("forgetting", *joint) is None and of("learning accuracy", *joint) is None


CURVES = {
    "curves": {
        "a": [{"step": 10, "loss": 1.0, "score": 0.2}, {"step": 20, "loss": 1.0, "score": 0.6}],
        "b": [{"step": 5, "loss": 1.0, "score": 0.3}, {"step": 10, "loss": 1.0, "score": 0.4}],
    },
    "costs": [
        {
            **{"learn_seconds": 3.0, "evaluate_seconds": 1.0, "cpu_seconds": 8.0},
            **{"learn_peak_bytes": 1, "evaluate_peak_bytes": 1, "samples_seen": 1},
        }
    ]
    * 2,
}


def test_learning_curves_by_hand() -> None:
    ours = result("pmn", 0, [[0.8, None], [0.8, 0.7]], **CURVES)
    joint = seed0("hard_sharing_joint")
    # b is half-way at 0.35, first seen at step 10 of 10: all of 8 s · 3/4.
    assert of("time to competence", ours, *joint) == pytest.approx(6.0)
    # a: from 0 to 0 to 0.5 over 20 steps; b: from 0 to 0.4 to 0.6 over 10.
    a, b = (10 * 0.25) / 20, (5 * 0.2 + 5 * 0.5) / 10
    assert of("learning curve", ours, *joint) == pytest.approx((a + b) / 2)
    never = result("pmn", 0, [[0.8, None], [0.8, 0.7]], **{**CURVES, "curves": {"b": []}})
    assert of("time to competence", never, *joint) is None


PROBED: dict[str, Any] = {
    "scores": {"test": [[1.0, None], [0.6, 0.6]], "probe": [[1.0, None], [0.6, 0.6]]},
    "constant": {"test": [0.2, 0.1], "probe": [0.2, 0.1]},
    "inside": {
        **{"phase": [0, 1], "step": [1, 2], "cpu_seconds": [0.1, 0.3]},
        "scores": [[0.2, None], [0.4, 0.1]],
    },
}


def test_moments_are_put_between_floor_and_ceiling() -> None:
    ours = result("pmn", 0, [[]] * 2, **PROBED)
    scores = {split: [[1.0, 0.6]] for split in ("test", "probe")}
    joint = result("hard_sharing_joint", 0, [[]], **{**PROBED, "scores": scores})
    scored, at_once = in_context([ours, joint], "test")
    assert scored.moments == [
        Moment(0, 1, [0.0, None]),
        Moment(0, 1, [1.0, None]),
        Moment(1, 2, [pytest.approx(0.25), 0.0]),
        Moment(1, 2, [pytest.approx(0.5), 1.0]),
    ]
    assert of("min-ACC", ours, joint) == pytest.approx(0.25)
    assert of("stability gap", ours, joint) == pytest.approx(0.75)
    assert at_once.moments == [] and in_context([ours], "test")[0].moments == []


def test_what_another_run_had_learned_left_the_others_where_they_were() -> None:
    """A taken module is scored on its own task alone; those below it are frozen."""
    taken = {
        **{"phase": [0, 1], "step": [1, 2], "cpu_seconds": [0.1, 0.3]},
        "scores": [[0.2, None], [None, 0.1]],
    }
    one = result("pmn", 0, [[]] * 2, **{**PROBED, "inside": taken})
    assert [moment.scores for moment in raw_moments(one)] == [
        *([0.2, None], [1.0, None], [1.0, 0.1], [0.6, 0.6])
    ]


# --- one's own ---------------------------------------------------------------------------

OWN = """
from pmn_cl.results.measures.catalogue import Scored, measure


@measure("lowest task", "the lowest final score of any task")
def lowest(run: Scored) -> float | None:
    return min(run.final) if run.final else None


def plain(run):
    return 1.0
"""


def test_a_measure_of_ones_own_stands_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_measures.py").write_text(OWN, "utf-8")
    monkeypatch.chdir(tmp_path)
    results = seed0("hard_sharing", "hard_sharing_joint")
    named = [
        r.model_copy(update={"run": r.run.model_copy(update={"stream": _naming(r)})})
        for r in results
    ]
    table = measure_table(named, "test")
    [(own, found)] = [line for line in table.lines if line[0].name == "lowest task"]
    assert found["hard_sharing"].mean == pytest.approx(0.25)
    assert ["lowest task (↑)", "the lowest final score of any task", "0.250", "1.000"] in (
        table.rows()
    )
    assert own.better == "higher"
    with pytest.raises(UserError, match="plain is no measure; put @measure"):
        load_measure("own_measures:plain")
    registry.search_last(tmp_path)


def _naming(one: Result) -> Any:
    return one.run.stream.model_copy(update={"measures": ["own_measures:lowest"]})


def test_a_mistake_in_a_measure_is_said_with_its_name() -> None:
    @measure("broken", "divides by nothing")
    def broken(run: Scored) -> float:
        return 1 / 0

    with pytest.raises(UserError, match="the measure 'broken': ZeroDivisionError"):
        broken(in_context(seed0("pmn"), "test")[0])


def test_a_strategy_with_a_gap_has_no_mean() -> None:
    results = [r for r in FIELD if r.name in ("hard_sharing", "hard_sharing_joint")]
    table = measure_table([r for r in results if r.seed == 0 or r.name == "hard_sharing"], "test")
    names = {known.name: found for known, found in table.lines}
    assert "hard_sharing" not in names["normalised average"]
    assert math.isclose(names["normalised average"]["hard_sharing_joint"].mean, 1.0)
