"""Lists of images in all the forms that people have them in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worlds.visual_genome.features.image_lists import read_lists
from pmn_cl.errors import UserError


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("42\n\n  7  \nvg 42\n", {(0, 42): None, (0, 7): None, (1, 42): None}),
        ([{"image_id": 3, "width": 640, "height": 480}], {(1, 3): (640, 480)}),
        ([{"id": 3, "width": 640, "height": 480}], {(1, 3): (640, 480)}),  # version 1.0
        ([{"id": 5, "qas": []}], {(1, 5): None}),
        (
            {
                "images": [{"id": 9, "width": 20, "height": 30}],
                "annotations": [{"image_id": 9, "id": 1, "caption": "a"}, {"image_id": 8, "id": 2}],
            },
            {(0, 9): (20, 30), (0, 8): None},
        ),
        ({"questions": [{"image_id": 4, "question_id": 40}]}, {(0, 4): None}),
        ([{"image_id": 3, "width": -1, "height": 480}], {(1, 3): None}),
    ],
)
def test_what_lists_say(tmp_path: Path, content: Any, expected: dict[Any, Any]) -> None:
    assert read_lists((written(tmp_path / "list", content),)) == expected


def test_several_lists(tmp_path: Path) -> None:
    questions = written(tmp_path / "a", {"questions": [{"image_id": 9}, {"image_id": 1}]})
    images = written(tmp_path / "b", {"images": [{"id": 9, "width": 20, "height": 30}]})
    expected = {(0, 9): (20, 30), (0, 1): None}
    assert read_lists((questions, images)) == read_lists((images, questions)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("42\nforty-two\n", "list, line 2: 'forty-two', expected a line for each image"),
        ("vg\n", "line 1"),
        ('{"images": [', "no JSON, or cut off"),
        ({"licenses": []}, "no list of images, annotations or questions"),
        ({"images": [{"file_name": "x"}]}, "an entry without image"),
        ([1, 2], "an entry without image"),
        ('[{"image_id": 1}, ', "list"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_lists((written(tmp_path / "list", content),))


def test_no_such_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_lists((tmp_path / "missing.json",))


def test_published_files() -> None:
    if "PMN_BENCH_SAMPLES" not in os.environ:
        pytest.skip("needs the samples that PMN_BENCH_SAMPLES names")
    samples = Path(os.environ["PMN_BENCH_SAMPLES"])
    genome = read_lists((samples / "visual_genome/image_data.json",))
    assert len(genome) == 100 and genome[1, 1] == (800, 600)  # type: ignore[index]
    questions = samples / "vqa_v2/v2_OpenEnded_mscoco_val2014_questions.json"
    asked = {q["image_id"] for q in json.loads(questions.read_text())["questions"]}
    assert read_lists((questions,)) == {(0, image): None for image in asked}
    captions = samples / "coco_captions/captions_val2014.json"
    assert read_lists((captions,))[0, 391895] == (640, 360)  # type: ignore[index]
