"""Strategies side by side: by hand, and what must be said of few seeds."""

from __future__ import annotations

import csv
import json

import pytest
from made_results import FIELD, changed, learned, result

from pmn_cl.errors import UserError
from pmn_cl.results.compare import (
    GAP,
    IQM,
    as_text,
    columns,
    compare,
    note,
    rows,
)
from pmn_cl.results.statistics import holm


def test_the_table_by_hand() -> None:
    found = compare(FIELD, reference="hard_sharing")
    pmn, sharing, _, joint = found.lines
    assert [line.name for line in found.lines][:2] == ["pmn", "hard_sharing"]
    assert pmn.tasks["a"] is not None and pmn.tasks["a"].mean == pytest.approx(0.85)
    # Two seeds: t(0.975, 1) = 12.7062; standard error of 0.8 and 0.9 is 0.05.
    assert pmn.tasks["a"].high == pytest.approx(0.85 + 12.7062 * 0.05, abs=1e-4)
    assert sharing.measures["forgetting"] is not None
    assert sharing.measures["forgetting"].mean == pytest.approx((0.4 + 0.6) / 2)
    assert joint.measures["forgetting"] is None
    # (0.8 − 0.2)/(1 − 0.2) and (0.7 − 0.1)/(0.6 − 0.1); with seed 1 (0.9 …) and (0.6 …).
    normalised = pmn.measures["normalised average"]
    by_hand = [(0.6 / 0.8 + 0.6 / 0.5) / 2, (0.7 / 0.8 + 0.5 / 0.5) / 2]
    assert normalised is not None and normalised.mean == pytest.approx(sum(by_hand) / 2)
    transfer = pmn.measures["transfer over scratch"]
    assert transfer is not None and transfer.mean == pytest.approx((0.15 + 0.15) / 2)
    assert pmn.against is not None
    # hard_sharing: (0.4 − 0.2)/0.8 and (0.5 − 0.1)/0.5; with seed 1 (0.2 − 0.2)/0.8 and again 0.8.
    theirs = [(0.25 + 0.8) / 2, (0.0 + 0.8) / 2]
    assert pmn.against.difference.mean == pytest.approx((sum(by_hand) - sum(theirs)) / 2)
    assert found.compared == "normalised average"
    assert sharing.against is None and sharing.p is None
    assert pmn.cpu_seconds == 4 and pmn.parameters == 7


def test_raw_averages_are_compared_where_there_is_no_unit() -> None:
    found = compare([run for run in FIELD if run.strategy != "hard_sharing_joint"], reference="pmn")
    sharing = found.lines[1].against
    assert found.compared == "average" and "differences of the average to 'pmn'" in note(found)
    assert sharing is not None
    assert sharing.difference.mean == pytest.approx(((0.45 - 0.75) + (0.35 - 0.75)) / 2)


def test_the_robust_table_by_hand() -> None:
    found = compare(FIELD, reference="hard_sharing", stat="iqm")
    pmn, sharing, *_ = found.lines
    # Normalised, of two seeds and two tasks: 0.75, 1.2, 0.875, 1.0. The middle half is 0.875 and 1.
    iqm, gap = pmn.measures[IQM], pmn.measures[GAP]
    assert iqm is not None and iqm.mean == pytest.approx((0.875 + 1.0) / 2)
    assert gap is not None and gap.mean == pytest.approx(
        (0.25 + 0.125) / 4
    )  # 1.2 makes up for none
    assert pmn.better == 1.0  # each seed above each of 0.25, 0 on a; of 0.8, 0.8 on b
    assert sharing.better is None
    titles = columns(found)
    assert "average" not in titles and {IQM, GAP, "P(better)"} <= {*titles}
    assert {len(row) for row in rows(found)} == {len(titles)}
    assert "stratified bootstrap" in note(found)
    with pytest.raises(UserError, match="run executor and hard_sharing_joint, too"):
        compare(FIELD[:2], stat="iqm")


def test_a_task_not_above_the_constant_right_after_learning_is_named() -> None:
    [line] = compare([learned("weak", 0, 0.2, 0.9, 0.3), learned("weak", 1, 0.1, 0.9, 0.3)]).lines
    assert line.below_constant == ["a"]


def test_one_seed_has_no_interval_and_it_is_said() -> None:
    found = compare([learned("pmn", 0, 0.8, 0.8, 0.7)])
    assert "±" not in "".join(rows(found)[1])
    assert "one seed: no interval" in note(found)
    assert "Student's t" in note(compare(FIELD))


def test_the_floor_stands_first_and_the_ceiling_last() -> None:
    bounds = [learned("executor", s, 0.9, 0.9, 0.95 + s / 100) for s in (0, 1)]
    bounds += [learned("constant", s, 0.2, 0.2, 0.1 + s / 100) for s in (0, 1)]
    modules = changed(bounds[0], variant="modules", options={"probe": "modules"})
    found = compare([modules, *bounds, *FIELD], reference="pmn")
    names = [row[0] for row in rows(found)]
    assert names[0] == "constant (floor)" and "constant answer (floor)" not in names
    assert names[-2:] == ["executor (modules)", "executor (ceiling)"]
    assert "the ceiling executes the questions' programs" in note(found)
    # They are no hypotheses: p-values are corrected over the others alone.
    assert all(
        line.p is None and line.against is None for line in (found.lines[0], *found.lines[-2:])
    )
    others = found.lines[1:-2]
    assert [line.p for line in others] == holm([line.against and line.against.p for line in others])


def test_a_task_that_is_not_done_has_no_score_and_no_average() -> None:
    done = result("executor", 0, [[0.9, None], [0.9, None]])
    [line] = compare([done]).lines
    assert line.tasks["b"] is None and line.measures["average"] is None
    assert line.below_constant == []


def test_a_gap_leaves_a_gap() -> None:
    [line] = compare([learned("pmn", 0, 0.8, 0.8, 0.7)]).lines
    assert line.measures["normalised average"] is None  # no joint runs
    assert line.measures["fwt"] is None


def test_only_what_can_be_compared_is_compared() -> None:
    with pytest.raises(UserError, match="nothing to compare"):
        compare([result("pmn", 0, [[0.1, None]], status="failed")])
    with pytest.raises(UserError, match="different streams or data"):
        compare([FIELD[0], learned("pmn", 1, 1, 1, 1).model_copy(update={"data": "other"})])
    with pytest.raises(UserError, match=r"no runs of 'pm', only pmn.*did you mean 'pmn'"):
        compare(FIELD, reference="pm")


def test_runs_with_other_settings_are_no_further_seeds() -> None:
    again = learned("pmn", 0, 0.9, 0.9, 0.9)
    for other in (
        again,  # the same seed twice
        changed(again, seed=5, options={"lr_scale": 3.0}),
        changed(again, seed=5, budget=10.0),
    ):
        with pytest.raises(UserError, match="'pmn' was run with several settings"):
            compare([*FIELD, other])
    with pytest.raises(UserError, match="different fractions or budgets"):
        compare([*FIELD, changed(learned("new", 0, 1, 1, 1), fraction=10.0)])


def test_every_form_has_the_same_cells() -> None:
    found = compare(FIELD, reference="pmn")
    table = [columns(found), *rows(found)]
    assert {len(row) for row in table} == {len(table[0])}
    markdown = as_text(found, "md").splitlines()
    assert [c.strip() for c in markdown[2].strip("|").split("|")] == table[1]
    latex = as_text(found, "tex")
    assert latex.count(r"\\") == len(table)
    assert r"hard\_sharing" in latex and r"$\pm$" in latex


def test_records_are_the_numbers_of_the_table_one_by_one() -> None:
    found = compare(FIELD, reference="pmn")
    by_csv = list(csv.DictReader(as_text(found, "csv").splitlines()))
    by_json = json.loads(as_text(found, "json"))["records"]
    as_strings = [{k: "" if v is None else str(v) for k, v in r.items()} for r in by_json]
    assert as_strings == by_csv
    [shared] = [r for r in by_json if (r["strategy"], r["metric"]) == ("hard_sharing", "a")]
    # 0.4 and 0.2: mean 0.3, t = 12.706 with one degree of freedom, standard error 0.1.
    assert (shared["mean"], shared["seeds"], shared["better"]) == (pytest.approx(0.3), 2, "higher")
    assert shared["plus_minus"] == pytest.approx(1.2706, rel=1e-4)
    assert shared["p"] is None and shared["over"] is None
    [average] = [
        r for r in by_json if (r["strategy"], r["metric"]) == ("hard_sharing", found.compared)
    ]
    assert average["over"] == "pmn" and average["difference"] < 0 < average["p"] <= average["holm"]
    assert average["common_seeds"] == 2
    [floor] = [r for r in by_json if r["bound"] == "floor" and r["metric"] == "a"]
    assert (floor["strategy"], floor["mean"]) == ("constant answer", 0.2)
    assert {r["better"] for r in by_json if r["metric"] == "forgetting"} == {"lower"}
