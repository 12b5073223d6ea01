"""From explanations to pages: what judges see, and that it does not tell which model is which."""

from __future__ import annotations

import base64
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_results import result
from made_rounds import BOXES, made_round, models
from PIL import Image

from pmn_cl.errors import UserError
from pmn_cl.human_eval.pages import content_of, picture_uri
from pmn_cl.human_eval.preparation import (
    as_shown,
    named_boxes,
    refuse_what_is_there,
    runs_to_judge,
    write_folder,
)
from pmn_cl.human_eval.rounds import read_round
from pmn_cl.results.folder import LEARNED
from pmn_cl.results.result import write_result


def quiet(done: int, total: int) -> None:
    pass


def content(page: Path) -> dict[str, Any]:
    found = re.search(r'id="content">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs of PMN, the first of which kept nothing; a baseline for each, one elsewhere."""
    for strategy, seed, data in (
        *(("pmn", 0, "d"), ("pmn", 1, "d"), ("pmn", 2, "d")),
        *(("independent", 0, "d"), ("independent", 1, "d"), ("independent", 2, "elsewhere")),
    ):
        one = result(strategy, seed, [[0.5]], tasks=["vqa"], metrics=["accuracy"], data=data)
        (tmp_path / one.key).mkdir()
        write_result(one, tmp_path / one.key)
        if one.key != "pmn-0":
            (tmp_path / one.key / LEARNED).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("pmn", "baseline", "expected"),
    [
        (None, None, ("pmn-1", "independent-1")),
        ("pmn 2", "independent 0", ("pmn-2", "independent-0")),
        ("independent-1", "pmn-2", ("independent-1", "pmn-2")),
    ],
)
def test_runs_that_are_not_named_are_the_first_pmn_and_its_baseline(
    runs: Path, pmn: str | None, baseline: str | None, expected: tuple[str, str]
) -> None:
    ours, theirs = runs_to_judge(runs, pmn, baseline)
    assert (ours.key, theirs.key) == expected


@pytest.mark.parametrize(
    ("pmn", "baseline", "message"),
    [
        ("pmn-2", None, "no completed run of 'independent' with the seed, data and training"),
        ("pmn-2", "independent-2", "--baseline independent-2: is another world"),
        ("pmn-1", "pmn-1", "--baseline pmn-1: is the same run"),
        ("pmn-7", None, "no completed run 'pmn-7'"),
    ],
)
def test_runs_that_cannot_be_judged_are_refused(
    runs: Path, pmn: str, baseline: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        runs_to_judge(runs, pmn, baseline)


def test_judges_see_the_boxes_that_a_sentence_names() -> None:
    for model, boxes in zip(models(4), ([0, 2], [0]), strict=True):
        [explanation] = model.explain([1], "test")
        assert named_boxes(explanation) == boxes
        said = re.findall(r"box (\d)", explanation.sentence)
        assert [int(number) for number in said] == boxes
        shown = as_shown(explanation)
        assert shown.boxes == [(number, BOXES[number]) for number in boxes]
        assert shown.sentence == explanation.sentence and shown.answer == "blue"


def test_a_folder_has_the_key_and_a_page_for_each_judge(tmp_path: Path) -> None:
    key, out = made_round(tmp_path, judges=4), tmp_path / "a" / "round"
    pages = write_folder(key, out, models(100)[0], quiet)
    assert sorted(path.name for path in out.iterdir()) == [
        *(f"judge-{judge}.html" for judge in (1, 2, 3, 4)),
        "round.json",
    ]
    assert read_round(out) == key
    for page, sheet in zip(pages, key.sheets, strict=True):
        shown = content(page)
        assert (shown["round"], shown["judge"]) == (key.digest, sheet.judge)
        assert [asked["id"] for asked in shown["questions"]] == sheet.questions
        questions = {question.id: question for question in key.questions}
        scenes = {questions[name].scene for name in sheet.questions}
        assert len(shown["pictures"]) == len(scenes)  # each of them once


def test_letters_are_as_the_key_says(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    pictures = {question.scene: "data:" for question in key.questions}
    questions = {question.id: question for question in key.questions}
    for sheet in key.sheets:
        letters = sheet.letters()
        for asked in content_of(key, sheet, pictures)["questions"]:
            question = questions[asked["id"]]
            pmn, baseline = ("A", "B") if letters[asked["id"]] else ("B", "A")
            assert asked[pmn]["sentence"] == question.pmn.sentence
            assert asked[baseline]["sentence"] == question.baseline.sentence


def test_swapping_the_models_swaps_letters_and_nothing_else(tmp_path: Path) -> None:
    """So what a page says beside the explanations cannot depend on whose they are."""
    key = made_round(tmp_path)
    pictures = {question.scene: "data:" for question in key.questions}
    swapped = [q.model_copy(update={"pmn": q.baseline, "baseline": q.pmn}) for q in key.questions]
    other = key.model_copy(update={"questions": swapped})
    ours, theirs = (content_of(some, key.sheets[0], pictures) for some in (key, other))
    assert {**theirs, "round": ""} != {**ours, "round": ""}
    for asked in theirs["questions"]:
        asked["A"], asked["B"] = asked["B"], asked["A"]
    assert {**theirs, "round": ""} == {**ours, "round": ""}


def test_a_page_names_no_model_run_truth_or_seed(tmp_path: Path) -> None:
    key = made_round(tmp_path)
    [page, *_] = write_folder(key, tmp_path / "round", models(100)[0], quiet)
    shown = content(page)
    assert set(shown) == {"format", "round", "judge", "questions", "pictures"}
    for asked in shown["questions"]:
        assert set(asked) == {"id", "text", "picture", "A", "B"}
        assert set(asked["A"]) == set(asked["B"]) == {"sentence", "answer", "boxes"}
    text = page.read_text("utf-8")
    for word in ("pmn-0", "independent", "baseline", str(tmp_path), "stratif", "both right"):
        assert word not in text


def test_pictures_keep_the_colours_of_small_things() -> None:
    rng = np.random.default_rng(0)
    pixels = np.clip(60 + rng.integers(-7, 8, (768, 768, 1)) * np.ones(3), 0, 255).astype(np.uint8)
    colours = [(225, 45, 45), (50, 190, 75), (50, 105, 240), (245, 205, 25)]
    for place, colour in enumerate(colours):
        pixels[100:140, 100 + 80 * place : 140 + 80 * place] = colour
    address = picture_uri(pixels)
    encoded = base64.b64decode(address.removeprefix("data:image/webp;base64,"))
    seen = np.asarray(Image.open(BytesIO(encoded)).convert("RGB")).astype(int)
    assert seen.shape == (480, 480, 3) and len(encoded) < 40_000
    scale = 480 / 768
    for place, colour in enumerate(colours):
        y, x = int(120 * scale), int((120 + 80 * place) * scale)
        middle = seen[y - 5 : y + 5, x - 5 : x + 5].reshape(-1, 3).mean(axis=0)
        assert np.abs(middle - colour).max() < 25


def test_small_pictures_are_not_enlarged() -> None:
    encoded = picture_uri(np.zeros((30, 50, 3), dtype=np.uint8)).split(",")[1]
    assert Image.open(BytesIO(base64.b64decode(encoded))).size == (50, 30)


def test_a_folder_in_which_something_is_is_refused(tmp_path: Path) -> None:
    refuse_what_is_there(tmp_path / "new")
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="is there already, expected a new or empty folder"):
            refuse_what_is_there(place)
