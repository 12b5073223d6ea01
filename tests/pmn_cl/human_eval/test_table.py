"""The paper's table: by hand, with strata, and the numbers that the paper has."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from made_rounds import made_round, opinion, saved_by

from pmn_cl.human_eval.rounds import GROUPS, Round
from pmn_cl.human_eval.sheets import GradedSheet, collect
from pmn_cl.human_eval.table import (
    alphas,
    by_its_rows,
    grades_by_judge,
    make_table,
    numbers,
    paper_note,
)
from pmn_cl.results.paper import ALL, GRADES


def judged(key: Round, folder: Path) -> list[GradedSheet]:
    paths = []
    for sheet in key.sheets:
        paths.append(folder / f"{sheet.judge}.json")
        paths[-1].write_text(saved_by(key, sheet.judge).model_dump_json())
    return collect(key, paths).judged


def by_hand(key: Round, model: str) -> dict[str, float]:
    """Mean grades over questions, straight from what judges think."""
    means: dict[str, list[float]] = defaultdict(list)
    for question in key.questions:
        of = [s.judge for s in key.sheets if question.id in s.questions]
        mean = fmean(opinion(key, judge, question.id, model) for judge in of)
        means[question.group].append(mean)
        means[ALL].append(mean)
    return {group: fmean(some) for group, some in means.items()}


@pytest.mark.parametrize("judges", [3, 5])
def test_the_table_by_hand(tmp_path: Path, judges: int) -> None:
    key = made_round(tmp_path, judges=judges)
    table = make_table(key, judged(key, tmp_path))
    pmn, baseline = by_hand(key, "pmn"), by_hand(key, "baseline")
    assert [row.label for row in table.rows] == [*GROUPS, ALL]
    for row in table.rows:
        assert row.pmn.mean == pytest.approx(pmn[row.label])
        assert row.baseline.mean == pytest.approx(baseline[row.label])
        assert row.difference.mean == pytest.approx(pmn[row.label] - baseline[row.label])
        assert row.judgements == 3 * row.questions
    assert sum(row.questions for row in table.rows[:-1]) == table.rows[-1].questions == 40


def test_strata_count_by_their_share_of_all_questions(tmp_path: Path) -> None:
    key = made_round(tmp_path, stratify=True)
    table = make_table(key, judged(key, tmp_path))
    # Of 100 questions 45, 30, 15 and 10 are of the groups; 10 of each were drawn.
    assert [row.questions for row in table.rows] == [10, 10, 10, 10, 40]
    for model in ("pmn", "baseline"):
        means = by_hand(key, model)
        shares = zip((0.45, 0.30, 0.15, 0.10), GROUPS, strict=True)
        expected = sum(share * means[group] for share, group in shares)
        assert getattr(table.rows[-1], model).mean == pytest.approx(expected)
        if model == "pmn":  # without, it would be something else
            assert abs(expected - means[ALL]) > 0.3


def test_a_stratum_that_nobody_judged_is_named(tmp_path: Path) -> None:
    key = made_round(tmp_path, stratify=True)
    group_of = {question.id: question.group for question in key.questions}
    some = [one for one in judged(key, tmp_path) if group_of[one.question] != "both wrong"]
    table = make_table(key, some)
    assert table.lost == ["both wrong"]
    assert [row.label for row in table.rows] == [*GROUPS[:3], ALL]
    means = by_hand(key, "pmn")
    expected = sum(n * means[g] for n, g in zip((45, 30, 15), GROUPS, strict=False)) / 90
    assert table.rows[-1].pmn.mean == pytest.approx(expected)


def test_agreement_by_unit() -> None:
    some = [
        GradedSheet("q1", 1, 0, 4),
        GradedSheet("q1", 2, 0, 4),
        GradedSheet("q2", 1, 1, 3),
        GradedSheet("q2", 2, 0, 3),
    ]
    found = alphas(some)
    # PMN: 0 0 and 1 0, so o_00 = 2, o_01 = o_10 = 1, n = (3, 1): 1 - 3 * 2 / (2 * 3) = 0.
    assert found["pmn"]["interval"] == pytest.approx(0)
    assert found["baseline"]["interval"] == pytest.approx(1)
    assert found["both"]["interval"] is not None and 0.9 < found["both"]["interval"] < 1
    assert alphas([GradedSheet("q1", 1, 0, 4)])["both"]["ordinal"] is None


def test_what_claims_reads(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    found = grades_by_judge(key, judged(key, tmp_path))
    assert len({g.judge for g in found}) == 3 and {g.split for g in found} == {"test"}
    for grades in found:
        judge = int(grades.judge.split()[1])
        mine = [q for q in key.questions if q.group == grades.group]
        assert grades.questions == len(mine)
        assert grades.pmn == pytest.approx(fmean(opinion(key, judge, q.id, "pmn") for q in mine))
    stratified = made_round(tmp_path, stratify=True)
    sizes = {
        g.group: g.questions for g in grades_by_judge(stratified, judged(stratified, tmp_path))
    }
    assert sizes == dict(zip(GROUPS, (45, 30, 15, 10), strict=True))


def test_the_numbers_by_name(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    table = make_table(key, judged(key, tmp_path))
    found = numbers(table)
    assert found["all/pmn.mean"] == table.rows[-1].pmn.mean
    assert found["both right/difference.low"] == table.rows[0].difference.low
    assert found["alpha/both ordinal"] == table.alpha["both"]["ordinal"]
    assert found["all/questions"] == 40
    assert len(found) == 5 * (1 + 3 * 3) + 3 * 2


def test_the_papers_rows_do_not_average_to_its_last_row() -> None:
    # (715 · 3.13 + 584 · 2.78 + 162 · 1.73 + 139 · 1.95) / 1600 and the same for the baseline.
    assert GRADES[ALL].questions == 715 + 584 + 162 + 139
    pmn = (2237.95 + 1623.52 + 280.26 + 271.05) / 1600
    baseline = (2044.90 + 817.60 + 400.14 + 230.74) / 1600
    assert by_its_rows() == pytest.approx((1600, pmn, baseline))
    assert (round(pmn, 2), round(baseline, 2)) == (2.76, 2.18)
    assert paper_note() == (
        "The paper's four rows average 2.76 (PMN) and 2.18 (baseline) by their counts, while its "
        "row for all says 2.54 and 2.24."
    )
