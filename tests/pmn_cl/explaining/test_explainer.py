"""Explanations of a run that was carried through: true to what its network does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.explaining.explainer import NO_TRUTH, Explainer, truth_of
from pmn_cl.explaining.records.explanation import Explanation
from pmn_cl.explaining.records.sentence import call_of
from pmn_cl.modules.importance import gates_seen
from pmn_cl.results.selection import baseline_of, find_run, usual_run

Opened = Callable[[str], Explainer]


def batch(explainer: Explainer, ids: list[int]) -> dict[str, Tensor]:
    x, _ = explainer.experience("test").batches[torch.tensor(ids)]
    return dict(x.items())


def test_the_truth_is_no_answer_where_none_that_can_be_given_scores() -> None:
    names, scores = ["yes", "no", "red"], np.array([0.3, 0.9, 0.0])
    assert truth_of(np.array([2, 1, 0]), scores, names) == "no"
    # Questions of VQA 2.0 whose answers are outside the vocabulary: all places are 0, and score 0.
    assert truth_of(np.zeros(3, int), np.zeros(3), names) == NO_TRUTH


def test_answers_are_those_of_the_strategy(opened: Opened) -> None:
    explainer = opened("pmn")
    said, right = explainer.answers()
    ids = [5, 0, 77]
    found = explainer.explain(ids)
    assert [e.answer for e in found] == [said[i] for i in ids]
    assert [e.right for e in found] == right[ids].tolist()
    assert right.mean() == pytest.approx(explainer.result.secondary["test"][-1]["vqa"]["accuracy"])


def test_validation_questions_are_those_of_the_table_though_a_probe_was_set_apart(
    opened: Opened,
) -> None:
    explainer = opened("pmn")
    table = explainer.table("val")
    last = len(table["scene"]) - 1
    (found,) = explainer.explain([last], "val")
    x, _ = explainer.experience("val").batches[torch.tensor([last])]
    assert found.scene == table["scene"].array[last] and found.question_id == last
    assert x["question"][0].tolist() == table["question"].array[last].tolist()
    assert "probe" not in explainer.experiences


def test_questions_scenes_and_truth_are_those_of_the_table(opened: Opened) -> None:
    explainer = opened("pmn")
    table, names = explainer.store.table("test", "vqa"), explainer.store.names
    (found,) = explainer.explain([123])
    words = [names["question words"][w] for w in table["question"].array[123] if w]
    assert found.question == f"{' '.join(words)}?"
    assert found.scene == table["scene"].array[123]
    assert found.truth == names["answers"][table["answers"].array[123][0]]
    boxes = explainer.store.table("test", "scenes")["boxes"].array[found.scene]
    assert found.boxes == pytest.approx(boxes[: len(found.boxes)])
    assert (found.run, found.split, found.question_id) == (explainer.result.key, "test", 123)


def test_gates_are_those_that_the_network_had(opened: Opened) -> None:
    explainer = opened("pmn")
    ids = [3, 141, 59]
    network = explainer.network
    with gates_seen(explainer.tracer.module.G) as seen, torch.no_grad():
        outputs = network(batch(explainer, ids), "vqa").softmax(1)
    for row, found in enumerate(explainer.explain(ids)):
        assert len(found.steps) == len(seen) == 2
        for step, gates in zip(found.steps, seen, strict=True):
            assert list(step.gates) == ["Ω", "rel", "obj", "att", "Δ", "cnt", "cap"]
            for callee, gate in step.gates.items():
                assert gate == pytest.approx(float(gates[callee][row]), abs=1e-5)
            looked = sum(step.gates[k] * np.array(step.maps[k]) for k in ("Ω", "rel"))
            assert step.attended == pytest.approx(looked, abs=1e-5)
            assert sum(step.attended) == pytest.approx(1, abs=1e-5)
        assert found.attended == found.steps[-1].attended
        assert found.confidence == pytest.approx(float(outputs[row].max()), abs=1e-5)
        values = [found.confidence, *(value for _, value in found.runners_up)]
        assert values == sorted(values, reverse=True)


def test_calls_are_numbered_in_their_order_and_nested(opened: Opened) -> None:
    (found,) = opened("pmn").explain([11])
    assert [call.number for call in found.calls] == list(range(1, len(found.calls) + 1))
    own = [(call.step, call.callee) for call in found.calls if call.depth == 0]
    listed = ["Ω", "rel", "obj", "att", "Δ", "cnt", "cap"]
    assert [k for step, k in own if step == 1] == listed
    assert [k for step, k in own if step == 2] == listed
    assert max(call.depth for call in found.calls) == 2  # M_vqa asks M_cnt, which asks M_rel, …
    assert {call.caller for call in found.calls if call.depth == 0} == {"vqa"}
    spoken = [c for c in found.calls if c.caller == "cap" and c.callee == "Ω"]
    assert len(found.caption) <= len(spoken) <= len(found.caption) + 1  # the end mark is a step
    asked = call_of(found, "rel", 1)
    assert asked is not None
    assert sum(asked.query.boxes) == pytest.approx(1, abs=1e-5)
    assert next(iter(asked.query.chances)).startswith("what ")


def test_the_baseline_has_attention_alone(opened: Opened) -> None:
    (found,) = opened("independent").explain([0])
    assert [list(step.gates) for step in found.steps] == [["Ω", "Δ"], ["Ω", "Δ"]]
    assert found.caption == []
    assert "M_" not in found.sentence


def test_what_is_made_is_a_whole_record(opened: Opened) -> None:
    for name in ("pmn", "independent"):
        (found,) = opened(name).explain([2])
        assert Explanation.model_validate_json(found.model_dump_json()) == found


def test_a_question_of_ones_own_with_unknown_words(opened: Opened) -> None:
    explainer = opened("pmn")
    found = explainer.ask("How many BIG <b>symbols</b> are there, please?", 4)
    assert found.unknown_words == ["big", "b", "please"]
    assert found.question == "How many BIG <b>symbols</b> are there, please?"
    assert (found.truth, found.right, found.question_id) == (None, None, None)
    # Words left out change nothing.
    plain = explainer.ask("how many symbols are there", 4)
    assert (plain.answer, plain.attended) == (found.answer, found.attended)


def test_a_question_of_the_table_in_words_is_answered_alike(opened: Opened) -> None:
    explainer = opened("pmn")
    (known,) = explainer.explain([42])
    asked = explainer.ask(known.question, known.scene)
    assert asked.answer == known.answer
    assert asked.confidence == pytest.approx(known.confidence, abs=1e-5)


@pytest.mark.parametrize(
    ("question", "scene", "problem"),
    [
        ("xyzzy?", 0, "knows none of its words.*such as"),
        ("", 0, "knows none of its words"),
        ("is there a seven", 60, "no scene 60.*from 0 to 59"),
        ("how many " * 12, 0, "24 words, expected at most 22"),
    ],
)
def test_mistakes_in_questions(opened: Opened, question: str, scene: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        opened("pmn").ask(question, scene)


def test_mistakes_in_numbers_splits_and_types(opened: Opened) -> None:
    explainer = opened("pmn")
    with pytest.raises(UserError, match="no question 600 in 'test', expected one from 0 to 599"):
        explainer.explain([600])
    with pytest.raises(UserError, match=r"no split 'tests', expected .*test"):
        explainer.explain([0], "tests")
    with pytest.raises(UserError, match=r"'relationl', expected .*did you mean 'relational'"):
        explainer.sample(1, "relationl")
    with pytest.raises(UserError, match="9999 questions of the type 'caption' were asked for"):
        explainer.sample(9999, "caption")


def test_samples_are_of_their_kind_and_the_same_for_a_seed(opened: Opened) -> None:
    explainer = opened("pmn")
    table, names = explainer.store.table("test", "vqa"), explainer.store.names
    drawn = explainer.sample(40, "relational", seed=3)
    assert drawn == explainer.sample(40, "relational", seed=3)
    assert drawn != explainer.sample(40, "relational", seed=4)
    assert len(set(drawn)) == 40
    assert (table["ask_relation"].array[drawn] >= 0).all()
    for i in explainer.sample(20, "counting"):
        assert names["answers"][table["answers"].array[i][0]].isdigit()
    for i in explainer.sample(20, "caption"):
        scene = table["scene"].array[i]
        shows = explainer.store.table("test", "scenes")["owner"].array[scene] >= 0
        assert (table["about"].array[i] == shows).all()  # about all that there is
    assert set(explainer.sample(9, "yes/no")) <= set(np.flatnonzero(table["kind"].array == 0))


def test_regions_are_named_by_the_networks_own_modules(opened: Opened) -> None:
    explainer = opened("pmn")
    (found,) = explainer.explain([0])
    x = batch(explainer, [0])
    names = explainer.store.names
    with torch.no_grad():
        objects = explainer.network(x, "obj")[0].argmax(1)
        colours = explainer.network(x, "att")[0][:, : len(names["colour"])].argmax(1)
    for region, said in enumerate(found.regions):
        noun = names["objects"][objects[region]]
        look = names["attributes"][colours[region]]
        assert said == (noun if noun == "background" else f"{look} {noun}")


def test_a_picture_shows_every_thing_in_its_colour(opened: Opened) -> None:
    explainer = opened("pmn")
    pixels = explainer.picture("test", 6).astype(int)
    assert pixels.shape == (768, 768, 3)
    table = explainer.store.table("test", "scenes")
    there = table["digit"].array[6] >= 0
    palette = {"red": 0, "green": 1, "blue": 2}  # whose channel is the strongest
    names = explainer.store.names["colour"]
    seen = 0
    for box, colour in zip(
        table["thing_box"].array[6][there], table["colour"].array[6][there], strict=True
    ):
        x1, y1, x2, y2 = 4 * box.astype(int)
        patch = pixels[y1:y2, x1:x2].reshape(-1, 3)
        ink = patch[np.ptp(patch, axis=1).argmax()]  # the most coloured pixel
        if names[colour] in palette:
            assert ink.argmax() == palette[names[colour]]
            seen += 1
    assert seen


def test_which_run_is_meant(runs: Path) -> None:
    key = find_run(runs, "pmn").key
    assert key == find_run(runs, key).key == find_run(runs, "pmn 0").key == usual_run(runs).key
    beside = baseline_of(runs, usual_run(runs))
    assert beside is not None
    assert beside.strategy == "independent"
    assert baseline_of(runs, beside) is None
    with pytest.raises(UserError, match="no completed run 'pmm', expected one of"):
        find_run(runs, "pmm")
    with pytest.raises(UserError, match="no such folder"):
        find_run(runs / "none", "pmn")


def test_a_run_that_kept_nothing_is_refused(runs: Path, cache: Path, tmp_path: Path) -> None:
    key = find_run(runs, "pmn").key
    (tmp_path / key).mkdir()
    (tmp_path / key / "result.json").write_bytes((runs / key / "result.json").read_bytes())
    with pytest.raises(UserError, match=r"has no folder 'learned'.*makes it again"):
        Explainer(tmp_path, "pmn", cache=cache)
    with pytest.raises(UserError, match="no completed run of 'pmn' that kept what it learned"):
        usual_run(tmp_path)
