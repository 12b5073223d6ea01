"""The sentence follows the trace: expected ones are written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_explanations import BOXES, asking, baseline, call, relational

from pmn_cl.explaining.records.explanation import Explanation, Message, Step
from pmn_cl.explaining.records.sentence import named, overlap, place_of

CALLEES = ("Ω", "rel", "obj", "att", "Δ", "cnt", "cap")


def with_step(explanation: Explanation, number: int, **changes: Any) -> Explanation:
    """The same with one of its steps changed."""
    steps = list(explanation.steps)
    steps[number - 1] = steps[number - 1].model_copy(update=changes)
    return explanation.model_copy(update={"steps": steps})


def with_gates(explanation: Explanation, **gates: float) -> Explanation:
    for number in (1, 2):
        merged = {**explanation.steps[number - 1].gates, **gates}
        explanation = with_step(explanation, number, gates=merged)
    return explanation


def test_a_relational_question_in_one_sentence() -> None:
    assert relational().sentence == (
        "I asked M_rel about the red seven (box 0, 0.90): “what is left of it?” (0.80), and was "
        "shown the green two (boxes 1 + 2, 0.90) [gate 0.90]; M_att told me that it is green "
        "(0.95), small (0.70) [gate 0.60]; so the answer is green (0.75), before blue (0.20)."
    )


def test_another_query_is_told_as_it_is() -> None:
    query = Message(boxes=[0.0, 1.0, 0.0], chances={"what it is above": 0.5})
    asked = asking(1, 0.9).model_copy(update={"query": query})
    calls = [asked if (c.callee, c.step) == ("rel", 1) else c for c in relational().calls]
    changed = relational(calls=calls).sentence
    assert "about the green two (boxes 1 + 2, 1.00): “what it is above?” (0.50)" in changed
    assert "what is left of it" not in changed


def test_what_a_callee_hardly_believes_is_not_told_as_a_fact() -> None:
    calls = [
        call(5, "att", 1, 0.6, reply=Message(chances={"small": 0.01}))
        if (c.callee, c.step, c.depth) == ("att", 1, 0)
        else c
        for c in relational().calls
    ]
    changed = relational(calls=calls).sentence
    assert "; M_att was not sure what it is, most of all small (0.01) [gate 0.60];" in changed


def test_a_callee_whose_gate_shuts_is_no_longer_named() -> None:
    without = with_gates(relational(), rel=0.1, Ω=0.9)
    assert "M_rel" not in without.sentence
    assert "I looked at the red seven (box 0, 1.00) [gate 0.90]" in without.sentence
    # It still attends to the green two by its maps, so that "it" would be another thing.
    assert "M_att told me that the green two (boxes 1 + 2, 0.81) is green" in without.sentence


def test_a_callee_whose_gate_opens_is_named_with_its_words() -> None:
    counted = call(10, "cnt", 2, 0.7, reply=Message(chances={"3": 0.6, "2": 0.3}))
    with_count = relational(calls=[*relational().calls, counted])
    opened = with_step(with_count, 2, gates={**with_count.steps[1].gates, "cnt": 0.7})
    assert "I had M_cnt count, which found 3 (0.60) [gate 0.70]" in opened.sentence
    assert "M_cnt" not in with_count.sentence


def test_the_caption_is_given_with_the_words_that_were_listened_to() -> None:
    found = with_step(with_gates(relational(), att=0.0, cap=0.8), 2, listened=[0.1, 0.7, 0.0, 0.2])
    step = found.steps[1]
    found = with_step(found, 2, gates={**step.gates, "cap": 0.85})
    assert (
        "I had M_cap describe the scene, “a ring of symbols”, and listened to “ring” (0.70), "
        "“symbols” (0.20) [gate 0.85]"
    ) in found.sentence


def test_attention_that_is_spread_is_not_given_as_a_look_at_one_thing() -> None:
    spread = with_gates(relational(), rel=0.1, Ω=0.9)
    for number in (1, 2):
        maps = {"Ω": [0.4, 0.3, 0.3], "rel": [0.1, 0.6, 0.3]}
        spread = with_step(spread, number, maps=maps)
    assert "I looked around, most of all at the red seven (box 0, 0.40)" in spread.sentence


def test_the_baseline_tells_where_it_looked_at_each_step_and_no_gate() -> None:
    assert baseline().sentence == (
        "I looked at the red seven (box 0, 0.80); I looked at the green two (boxes 1 + 2, 0.80); "
        "so the answer is red (0.40), before green (0.30)."
    )
    again = with_step(baseline(), 2, maps={"Ω": [1.0, 0.0, 0.0]})
    assert again.sentence.count("I looked at") == 1


def test_the_widest_step_is_the_one_that_is_told() -> None:
    wider = with_step(relational(), 2, gates={**relational().steps[1].gates, "att": 0.7})
    assert "green (0.90) [gate 0.70]" in wider.sentence  # the chance of the second step's call
    assert [(n.callee, n.step) for n in named(wider)] == [("rel", 1), ("att", 2)]


@pytest.mark.parametrize("answer", ["<script>alert(1)</script>", "שבע", "x" * 10_000])
def test_words_of_the_data_stay_as_they_are(answer: str) -> None:
    assert f"so the answer is {answer} (0.75)" in relational(answer=answer).sentence


def test_without_names_of_regions_boxes_are_enough() -> None:
    assert "a region (box 0, 0.90)" in relational(regions=["", "", ""]).sentence


def test_a_callee_that_hard_gates_left_unasked_was_still_a_choice() -> None:
    gates = {"Ω": 1.0, "rel": 0.0, "obj": 0.0, "att": 0.0, "Δ": 1.0, "cnt": 0.0, "cap": 0.0}
    step = Step(gates=gates, maps={"Ω": [1.0, 0.0, 0.0]}, attended=[1.0, 0.0, 0.0], pad={})
    hard = relational(steps=[step, step], calls=[])
    assert hard.sentence.startswith(
        "I looked at the red seven (box 0, 1.00) [gate 1.00]; I took in more of it by myself (Δ) "
        "[gate 1.00]; so the answer is"
    )


gates = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(CALLEES, gates)), min_size=1, max_size=3))
def test_named_are_those_with_at_least_an_even_share_and_no_others(
    steps: list[dict[str, float]],
) -> None:
    usual = relational().steps[0]
    made = [Step(gates=g, maps=usual.maps, attended=usual.attended, pad={}) for g in steps]
    explanation = relational(steps=made, calls=[])
    widest = {k: max(step[k] for step in steps) for k in CALLEES}
    expected = {k for k in CALLEES if widest[k] >= (0.5 if k in ("Ω", "rel") else 0.2)}
    assert {n.callee for n in named(explanation)} == expected
    for n in named(explanation):
        assert n.gate == widest[n.callee] == steps[n.step - 1][n.callee]
    for k in {"rel", "obj", "att", "cnt", "cap"} - expected:
        assert f"M_{k}" not in explanation.sentence
    for k in {"rel", "obj", "att", "cnt", "cap"} & expected:
        assert f"M_{k}" in explanation.sentence


def test_overlap_is_what_boxes_share_of_what_they_cover() -> None:
    assert overlap((0, 0, 2, 2), (1, 0, 3, 2)) == pytest.approx(2 / 6)
    assert overlap((0, 0, 1, 1), (2, 2, 3, 3)) == 0
    assert overlap(BOXES[1], BOXES[2]) == pytest.approx(0.04 / 0.044)
    assert overlap((0, 0, 0, 0), (0, 0, 0, 0)) == 0


def test_a_place_is_the_best_box_with_those_that_cover_the_same() -> None:
    found = place_of(relational(), [0.5, 0.2, 0.3])
    assert (found.boxes, found.share, found.name) == ([0], 0.5, "red seven")
    found = place_of(relational(), [0.3, 0.3, 0.4])
    assert (found.boxes, found.name) == ([2, 1], "green two")
    assert found.share == pytest.approx(0.7)


def test_the_record_is_read_back_and_its_sentence_is_worked_out_anew() -> None:
    written = relational().model_dump_json()
    assert relational().sentence in written.encode().decode()
    assert Explanation.model_validate_json(written) == relational()
    lie = written.replace("so the answer is green", "so the answer is purple")
    assert lie != written
    assert Explanation.model_validate_json(lie).sentence == relational().sentence
