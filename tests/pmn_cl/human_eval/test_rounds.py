"""Which questions are drawn, who gets them, and that letters are balanced and hidden."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rounds import made_round

from pmn_cl.claims.evidence import Group
from pmn_cl.errors import UserError
from pmn_cl.human_eval.rounds import GROUPS, ROUND, Given, assign, draw, groups_of, read_round

SOME_GROUPS = st.lists(st.sampled_from(GROUPS), min_size=1, max_size=60)


def test_who_was_right() -> None:
    found = groups_of([True, True, False, False], [True, False, True, False])
    assert found == ["both right", "pmn right", "baseline right", "both wrong"]


@given(SOME_GROUPS, st.integers(1, 80), st.booleans(), st.integers(0, 1000))
def test_drawing_gives_what_was_asked_for_once(
    groups: list[Group], count: int, stratify: bool, seed: int
) -> None:
    drawn = draw(groups, count, stratify=stratify, rng=np.random.default_rng(seed))
    assert len(drawn) == len(set(drawn)) == min(count, len(groups))
    assert drawn == sorted(drawn) and all(0 <= place < len(groups) for place in drawn)
    if stratify:
        taken, there = Counter(groups[place] for place in drawn), Counter(groups)
        for small in GROUPS:  # one that gives less than another has no more, but for a remainder
            if taken[small] < max(taken.values()) - 1:
                assert taken[small] == there[small]


def test_every_question_is_as_likely() -> None:
    groups: list[Group] = ["both right"] * 10
    drawn = Counter(
        place
        for seed in range(2000)
        for place in draw(groups, 3, stratify=False, rng=np.random.default_rng(seed))
    )
    # 600 each; binomial, standard deviation 20.5
    assert all(abs(drawn[place] - 600) < 82 for place in range(10))


def test_strata_by_hand() -> None:
    groups: list[Group] = ["both right"] * 50 + ["pmn right"] * 30 + ["both wrong"] * 2
    drawn = draw(groups, 22, stratify=True, rng=np.random.default_rng(0))
    # None of the second group, both of the last; the other 20 evenly.
    assert Counter(groups[place] for place in drawn) == {
        **{"both right": 10, "pmn right": 10, "both wrong": 2}
    }


def leads(given_: Sequence[Sequence[Given]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for some in given_:
        for judge, pmn_is_a in some:
            found[judge] += 1 if pmn_is_a else -1
    return found


@given(SOME_GROUPS, st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_work_and_letters_are_balanced(
    groups: list[Group], judges: int, per_question: int, seed: int
) -> None:
    per_question = min(per_question, judges)
    found = assign(groups, judges, per_question, np.random.default_rng(seed))
    load: Counter[int] = Counter()
    for some in found:
        assert len({one.judge for one in some}) == len(some) == per_question
        assert abs(sum(1 if one.pmn_is_a else -1 for one in some)) == per_question % 2
        load.update(one.judge for one in some)
    assert max(load.values()) - min(load[judge] for judge in range(judges)) <= 1
    assert all(abs(lead) <= 3 for lead in leads(found).values())
    for group in GROUPS:
        within = [some for some, of in zip(found, groups, strict=True) if of == group]
        assert all(abs(lead) <= 6 for lead in leads(within).values())


def test_three_judges_of_everything_see_pmn_first_half_of_the_time() -> None:
    found = assign(["both right"] * 41, 3, 3, np.random.default_rng(0))
    assert {abs(lead) for lead in leads(found).values()} == {1}
    assert Counter(sum(one.pmn_is_a for one in some) for some in found).keys() == {1, 2}


def test_sheets_hold_what_was_assigned_in_an_order_of_each_judge(tmp_path: Path) -> None:
    key = made_round(tmp_path, judges=5)
    ids = [question.id for question in key.questions]
    seen = Counter(name for sheet in key.sheets for name in sheet.questions)
    assert seen == dict.fromkeys(ids, 3)
    assert {len(sheet.questions) for sheet in key.sheets} == {24}
    assert all(sheet.questions != sorted(sheet.questions) for sheet in key.sheets)


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    assert made_round(tmp_path) == made_round(tmp_path)
    other = made_round(tmp_path, seed=1)
    assert other.digest != made_round(tmp_path).digest
    assert [q.row for q in other.questions] != [q.row for q in made_round(tmp_path).questions]
    more = made_round(tmp_path, judges=4)
    assert [q.row for q in more.questions] == [q.row for q in made_round(tmp_path).questions]


def test_numbers_of_questions_say_nothing_about_who_was_right(tmp_path: Path) -> None:
    key = made_round(tmp_path, stratify=True)
    rows = [question.row for question in key.questions]
    assert [question.id for question in key.questions] == [f"q{n:04d}" for n in range(1, 41)]
    assert rows == sorted(rows)


def test_a_round_is_read_as_it_was_written_wherever_the_results_are(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    key.write(tmp_path)
    assert read_round(tmp_path) == key
    assert key.model_copy(update={"folder": "/elsewhere"}).digest == key.digest


def test_a_key_that_was_changed_is_refused(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    key.write(tmp_path)
    kept = json.loads((tmp_path / ROUND).read_text("utf-8"))
    kept["round"]["sheets"][0]["pmn_is_a"][0] ^= True
    (tmp_path / ROUND).write_text(json.dumps(kept))
    with pytest.raises(UserError, match="was changed after it was made"):
        read_round(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digest": 1}', '{"round": {}, "digest": ""}'])
def test_a_key_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / ROUND).write_text(content)
    with pytest.raises(UserError, match="cannot be read"):
        read_round(tmp_path)


def test_a_folder_without_a_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no round\.json there; expected a folder that"):
        read_round(tmp_path)
