"""VQA 2.0: soft targets by hand and as the evaluation gives them, the real samples, bad input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.worlds.visual_genome.annotations.vqa.files import Answers, truth_of
from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions, prepare_vqa
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.metrics import vqa_accuracy

# --- soft targets ------------------------------------------------------------------------


def known(*names: str) -> Answers:
    """A vocabulary of these answers, in this order."""
    truths = [truth_of([name]) for place, name in enumerate(names) for _ in range(99 - place)]
    answers = Answers(truths, 1)
    assert answers.names == list(names)
    return answers


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # min(n / 3, 1) among the other nine, averaged over ten: 0.3, 0.6, 0.9, 1 for 1 to 4.
        (["yes"] * 10, {"yes": 1.0}),
        (["yes"] * 9 + ["no"], {"yes": 1.0, "no": 0.3}),
        (["yes"] * 3 + ["no"] * 2 + ["maybe"] * 5, {"yes": 0.9, "no": 0.6}),
        # Where people differ, answers are normalised: number words, articles, commas, periods.
        (["two"] * 2 + ["2"] * 2 + ["3"] * 6, {"2": 1.0}),
        (["The dog."] * 3 + ["cat"] * 7, {"dog": 0.9}),
        (["1,000"] * 2 + ["1000"] + ["999"] * 7, {"1000": 0.9}),
        (["dont know"] * 5 + ["cat"] * 5, {"don't know": 1.0}),
        # All ten agree: nothing is normalised, and "2" is not what they wrote.
        (["two"] * 10, {}),
        (["2"] * 9 + ["2\n"], {"2": 1.0}),
    ],
)
def test_soft_targets_by_hand(given: list[str], expected: dict[str, float]) -> None:
    answers = known("yes", "no", "2", "dog", "1000", "don't know")
    found = answers.targets(truth_of(given))
    assert {answers.names[n]: s for n, s in found} == pytest.approx(expected)
    assert [s for _, s in found] == sorted((s for _, s in found), reverse=True)


spoken = st.sampled_from(
    [
        "yes",
        "Yes",
        "no",
        "2",
        "two",
        "a dog",
        "dog",
        "dog.",
        "dont",
        "don't",
        "1,000",
        "1000",
        "none",
    ]
)


@given(st.lists(spoken, min_size=1, max_size=10))
@settings(deadline=None, max_examples=80)
def test_soft_targets_are_what_the_evaluation_gives(given: list[str]) -> None:
    answers = known("yes", "no", "2", "dog", "don't", "1000", "0")
    found = dict(answers.targets(truth_of(given)))
    for number, name in enumerate(answers.names):
        assert found.get(number, 0.0) == pytest.approx(vqa_accuracy(name, given)), name


def test_answers_are_those_that_are_common_enough() -> None:
    truths = [truth_of(["red"] * 10, "red")] * 9 + [truth_of(["blue"] * 10, "blue")] * 8
    assert Answers(truths, 9).names == ["red"]
    assert Answers(truths, 8).names == ["red", "blue"]
    with pytest.raises(UserError, match=r"at least 10 training questions.*--min-answers"):
        Answers(truths, 10)


# --- tiny files --------------------------------------------------------------------------

Asked = tuple[int, int, str, Sequence[str]]  # question id, image, question, answers


def write_vqa(folder: Path, **subsets: list[Asked]) -> Path:
    """Write questions and, but for test2015, annotations."""
    folder.mkdir(exist_ok=True)
    for subset, asked in subsets.items():
        questions = [{"question_id": q, "image_id": i, "question": text} for q, i, text, _ in asked]
        annotations = [
            {
                "question_id": q,
                "image_id": i,
                "answers": [{"answer": answer, "answer_id": 1} for answer in answers],
                "multiple_choice_answer": Counter(answers).most_common(1)[0][0],
                "answer_type": "number" if text.lower().startswith("how many") else "other",
            }
            for q, i, text, answers in asked
            if answers
        ]
        named = f"v2_OpenEnded_mscoco_{subset}_questions.json"
        whole: dict[str, Any] = {"data_subtype": subset, "questions": questions}
        (folder / named).write_text(json.dumps(whole))
        if subset != "test2015":
            whole = {"annotations": annotations, "data_subtype": subset}
            (folder / f"v2_mscoco_{subset}_annotations.json").write_text(json.dumps(whole))
    return folder


def some_questions(first: int) -> list[Asked]:
    """Three questions about each of ten images."""
    asked: list[Asked] = []
    for image in range(first, first + 10):
        count = str(image % 15)
        asked += [
            (image * 10, image, "How many dogs are there?", [count] * 10),
            (image * 10 + 1, image, "What colour is it?", ["red"] * 7 + ["blue"] * 3),
            (image * 10 + 2, image, "Is it a dog?", ["yes"] * 10),
        ]
    return asked


@pytest.fixture
def tiny(tmp_path: Path, features: Callable[..., Path]) -> Path:
    """A folder ``out`` with features, and questions about its images in ``vqa``."""
    images = [*range(100, 110), *range(200, 210), *range(300, 302)]
    features(tmp_path / "out", {("coco", image): [[0, 0, 1, 1]] for image in images})
    server: list[Asked] = [(3000 + i, 300 + i, "Where is it?", ()) for i in range(2)]
    asked = {"train2014": some_questions(100), "val2014": some_questions(200)}
    write_vqa(tmp_path / "vqa", **asked, test2015=server)
    return tmp_path


def prepare(folder: Path, watch: Any, said: list[str] | None = None, **given: Any) -> Store:
    options = VqaOptions(**{"synthetic": False, "min_answers": 1, "min_words": 1, **given})
    say = (said if said is not None else []).append
    return prepare_vqa(folder / "vqa", folder / "out", None, options, watch, say)


def rows(store: Store, split: str, task: str) -> dict[str, Any]:
    return {name: column.load() for name, column in store.table(split, task).items()}


def test_val2014_is_tested_on_and_a_part_of_train2014_chooses(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch)
    ids = {split: rows(store, split, "vqa")["question_id"] for split in ("train", "val", "test")}
    assert set(ids["test"] // 10) == set(range(200, 210))
    assert not set(ids["train"] // 10) & set(ids["val"] // 10)  # no image in both
    assert set(ids["train"] // 10) | set(ids["val"] // 10) == set(range(100, 110))
    server = rows(store, "server", "vqa")
    assert server["question_id"].tolist() == [3000, 3001] and not server["scores"].any()
    assert set(server["kind"]) == {255}


def test_train_and_val_together(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch, train_on="train+val", held_out=10)
    images = [set(rows(store, s, "vqa")["question_id"] // 10) for s in ("train", "val", "test")]
    assert sum(map(len, images)) == 20 == len(set.union(*images))
    assert len(images[0]) > 12 and len(images[1]) and len(images[2])


def test_how_many_up_to_twelve_is_counted(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch)
    for split in ("train", "val", "test"):
        table = rows(store, split, "cnt")
        image = table["question_id"] // 10
        assert table["count"].tolist() == (image % 15).tolist()
        assert (table["count"] <= 12).all() and set(table["kind"]) == {0}
        assert (table["ask_box"] == -1).all() and not table["ask_boxes"].any()
        assert (table["ask_relation"] == -1).all() and (table["ask_direction"] == -1).all()
    # Of images 200 to 209 the answers are 5 to 14: two are too many.
    assert len(rows(store, "test", "cnt")["count"]) == 8
    noted = store.header["summary"]["noted"]
    assert (
        noted["questions how many, answers over 12: left out of cnt"]["count"] == 4
    )  # 103, 104, 208, 209


def test_questions_are_lower_case_words_cut_and_filled_up(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch, longest=4)
    words = store.names["question words"]
    assert words[:2] == ["", "<unk>"]
    table = rows(store, "train", "vqa")
    texts = {" ".join(words[n] for n in row) for row in table["question"]}
    assert texts == {"how many dogs are", "what colour is it", "is it a dog"}


def test_a_wrong_answer_file_is_refused_and_a_few_strangers_are_counted(
    tiny: Path, watch: Any
) -> None:
    vqa = tiny / "vqa"
    annotations = vqa / "v2_mscoco_train2014_annotations.json"
    whole = json.loads(annotations.read_text())
    good = json.dumps(whole)
    records = whole["annotations"]
    records[0]["question_id"] = 77  # of no question
    records[1]["image_id"] = 5  # of another image than the question's
    records.append(dict(records[2]))  # twice
    records += [None, {"question_id": 1021}, {"question_id": "x", "answers": [{"answer": "a"}]}]
    annotations.write_text(json.dumps(whole))
    noted = prepare(tiny, watch).header["summary"]["noted"]
    name = annotations.name
    assert noted[f"annotations in {name} of no question: left out"] == {"count": 1, "of": ["77"]}
    assert noted[f"annotations in {name} of another image: left out"]["of"] == ["1001"]
    assert noted[f"annotations twice in {name}: the first counts"]["of"] == ["1002"]
    assert noted[f"damaged records in {name}: left out"]["count"] == 3
    silent = noted[f"questions without an annotation in {name}: left out"]
    assert silent == {"count": 2, "of": ["1000", "1001"]}
    annotations.write_text(good.replace('"question_id": 1', '"question_id": 9'))
    with pytest.raises(UserError, match="none of its 30 question ids is one of the 30 questions"):
        prepare(tiny, watch)
    annotations.write_text(good.replace("train2014", "val2014"))
    with pytest.raises(UserError, match="data_subtype is 'val2014', expected 'train2014'"):
        prepare(tiny, watch)
    annotations.unlink()
    with pytest.raises(UserError, match=rf"no {name}, needed by cnt and vqa"):
        prepare(tiny, watch)


def test_questions_about_images_without_features(
    tmp_path: Path, tiny: Path, features: Callable[..., Path], watch: Any
) -> None:
    features(tmp_path / "out", {("coco", i): [[0, 0, 1, 1]] for i in (100, 101, 102, 200)})
    noted = prepare(tiny, watch).header["summary"]["noted"]
    assert noted["questions about images without features: left out"]["count"] == 21 + 27 + 2
    features(tmp_path / "out", {("coco", 200): [[0, 0, 1, 1]]})
    with pytest.raises(UserError, match=r"no question is left for train: 59 are about images"):
        prepare(tiny, watch)


def test_the_limit_takes_the_first_images_of_each_part(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch, limit=4)
    images = set()
    for split in ("train", "val", "test"):
        images |= set((rows(store, split, "vqa")["question_id"] // 10).tolist())
    # 103 and 104 have answers 13 and 14: an image needs a question for cnt as well.
    assert images == {100, 101, 102, 105, 200, 201, 202, 203}


def test_vectors_are_kept_for_the_words(tiny: Path, watch: Any) -> None:
    (tiny / "glove.txt").write_text("dog 1 2 3\nmany 4 5 6\nunheard 7 8 9\n")
    said: list[str] = []
    options = VqaOptions(synthetic=False, min_answers=1, min_words=1)
    out = tiny / "out"
    store = prepare_vqa(tiny / "vqa", out, tiny / "glove.txt", options, watch, said.append)
    vectors = rows(store, "words", "question")
    words = store.names["question words"]
    assert vectors["vector"].shape == (len(words), 3)
    assert vectors["vector"][words.index("many")].tolist() == [4, 5, 6]
    assert {words[i] for i in vectors["found"].nonzero()[0]} == {"dog", "many"}
    # how many dogs are there / what colour is it / is it a dog: 11 different words
    assert any("2 of 11 words, 18.2%" in line for line in said)


# --- the real samples, read once more by other code ------------------------------------


def test_real_questions_and_answers_are_what_the_files_say(samples: Path, prepared: Path) -> None:
    store = Store(prepared / "vqa.h5")
    image = Store(prepared / "features.h5").table("all", "scenes")["image"].load()
    words, names = store.names["question words"], store.names["answers"]
    questions: dict[int, Any] = {}
    annotations: dict[int, Any] = {}
    for part in ("train", "val"):
        folder = samples / "vqa_v2"
        asked = json.loads((folder / f"v2_OpenEnded_mscoco_{part}2014_questions.json").read_text())
        told = json.loads((folder / f"v2_mscoco_{part}2014_annotations.json").read_text())
        questions |= {q["question_id"]: {**q, "part": part} for q in asked["questions"]}
        annotations |= {a["question_id"]: a for a in told["annotations"]}
    seen = 0
    for split in ("train", "val", "test"):
        table = rows(store, split, "vqa")
        for row, number in enumerate(table["question_id"].tolist()):
            question, annotation = questions[number], annotations[number]
            assert image[table["scene"][row]] == question["image_id"]
            assert (question["part"] == "val") == (split == "test")
            kinds = store.names["vqa kinds"]
            assert kinds[table["kind"][row]] == annotation["answer_type"]
            # Every word that is known stands where the question has it.
            letters = "".join(c for c in question["question"].lower() if c.isalnum() or c == " ")
            for place, word in enumerate(table["question"][row]):
                if words[word] not in ("", "<unk>") and words[word].isalnum():
                    assert words[word] in letters, (question["question"], place)
            given = [answer["answer"] for answer in annotation["answers"]]
            if row % 10 == 0:  # the evaluation itself, for every answer there is
                scores = np.bincount(table["answers"][row], table["scores"][row], len(names))
                expected = [vqa_accuracy(name, given) for name in names]
                np.testing.assert_allclose(scores, expected, atol=1e-6)
            seen += 1
    assert seen > 1500
    # The task's score of always saying yes is the official accuracy of always saying yes.
    table = rows(store, "test", "vqa")
    always = np.full(len(table["scene"]), names.index("yes"))
    scored = AnswerTask().score(always, table, store.names)["accuracy"]
    given_for = [
        [a["answer"] for a in annotations[q]["answers"]] for q in table["question_id"].tolist()
    ]
    assert scored == pytest.approx(np.mean([vqa_accuracy("yes", given) for given in given_for]))


def test_real_counts_are_the_commonest_answers(samples: Path, prepared: Path) -> None:
    store = Store(prepared / "vqa.h5")
    folder = samples / "vqa_v2"
    expected: dict[int, int] = {}
    for part in ("train", "val"):
        asked = json.loads((folder / f"v2_OpenEnded_mscoco_{part}2014_questions.json").read_text())
        told = json.loads((folder / f"v2_mscoco_{part}2014_annotations.json").read_text())
        usual = {a["question_id"]: a["multiple_choice_answer"] for a in told["annotations"]}
        for q in asked["questions"]:
            answer = usual[q["question_id"]]
            counts = q["question"].lower().split()[:2] == ["how", "many"] and answer.isdigit()
            if counts and int(answer) <= 12:
                expected[q["question_id"]] = int(answer)
    found: dict[int, int] = {}
    for split in ("train", "val", "test"):
        table = rows(store, split, "cnt")
        found |= dict(zip(table["question_id"].tolist(), table["count"].tolist(), strict=True))
    assert found == expected and len(found) > 400
