"""Which of the judges' files count, and what is said of those that do not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from made_rounds import made_round, opinion, saved_by

from pmn_cl.human_eval.rounds import Round
from pmn_cl.human_eval.sheets import Marks, Saved, collect


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Round:
    return made_round(tmp_path_factory.mktemp("results"))


def write(folder: Path, name: str, saved: Saved) -> Path:
    path = folder / name
    path.write_text(saved.model_dump_json())
    return path


def reasons(key: Round, *paths: Path, allow_incomplete: bool = False) -> dict[str, str]:
    found = collect(key, paths, allow_incomplete=allow_incomplete)
    return {path.name: why for path, why in found.left_out}


def test_the_checksum_by_hand() -> None:
    marks = {
        "q0002": Marks(A=4, B=None, milliseconds=7, at=9),
        "q0001": Marks(A=0, B=3, milliseconds=5, at=8),
    }
    saved = Saved(
        **{"format": "pmn-bench judge 1", "round": "r", "judge": 2, "token": "t", "saved": 10},
        **{"marks": marks, "checksum": ""},
    )
    lines = b"pmn-bench judge 1\nr\n2\nt\n10\nq0001 0 3 5 8\nq0002 4 - 7 9"
    assert saved.expected_checksum() == hashlib.sha256(lines).hexdigest()


def test_letters_become_models_again(key: Round, tmp_path: Path) -> None:
    paths = [write(tmp_path, f"{judge}.json", saved_by(key, judge)) for judge in (1, 2, 3)]
    found = collect(key, paths)
    assert not found.left_out and not found.again and found.taken == dict(enumerate(paths, start=1))
    assert len(found.judged) == 3 * 40
    for one in found.judged:
        assert one.pmn == opinion(key, one.judge, one.question, "pmn")
        assert one.baseline == opinion(key, one.judge, one.question, "baseline")


def test_incomplete_files_say_which_questions_are_missing(key: Round, tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", saved_by(key, 1, skip=7))
    first = sorted(key.sheets[0].questions[:7])
    assert reasons(key, path)["a.json"] == (
        f"incomplete: 7 of 40 questions lack a grade ({', '.join(first[:5])} and 2 more); "
        "finish it, or take what is there with --allow-incomplete"
    )
    found = collect(key, [path], allow_incomplete=True)
    assert not found.left_out and len(found.judged) == 33 and found.missing == {1: first}


def test_half_a_pair_is_no_judgement(key: Round, tmp_path: Path) -> None:
    saved = saved_by(key, 1)
    name = key.sheets[0].questions[0]
    half = {**saved.marks, name: saved.marks[name].model_copy(update={"B": None})}
    saved = saved.model_copy(update={"marks": half})
    saved = saved.model_copy(update={"checksum": saved.expected_checksum()})
    path = write(tmp_path, "a.json", saved)
    assert f"1 of 40 questions lack a grade ({name})" in reasons(key, path)["a.json"]
    found = collect(key, [path], allow_incomplete=True)
    assert name not in {one.question for one in found.judged} and len(found.judged) == 39


@pytest.mark.parametrize(
    "part", ["A", "B", "milliseconds", "at", "judge", "token", "saved", "gone"]
)
def test_any_edit_is_noticed(key: Round, tmp_path: Path, part: str) -> None:
    edited = json.loads(saved_by(key, 1).model_dump_json())
    name = key.sheets[0].questions[3]
    if part == "gone":
        del edited["marks"][name]
    elif part in edited:
        edited[part] = "other" if part == "token" else 2
    else:
        edited["marks"][name][part] = (edited["marks"][name][part] + 1) % 5
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(edited))
    assert reasons(key, path)["edited.json"].startswith("edited after the page saved it")


def test_the_same_said_in_other_json_is_no_edit(key: Round, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(json.loads(saved_by(key, 1).model_dump_json()), indent=4, sort_keys=True)
    )
    assert reasons(key, path) == {}


def test_what_is_of_another_round_or_judge(key: Round, tmp_path: Path) -> None:
    other = made_round(tmp_path, seed=1)
    foreign = write(tmp_path, "foreign.json", saved_by(other, 1))
    nobody = saved_by(key, 1).model_copy(update={"judge": 9})
    nobody = nobody.model_copy(update={"checksum": nobody.expected_checksum()})
    strange = saved_by(key, 1)
    marks = {**strange.marks, "q9999": Marks(A=1, B=1, milliseconds=1, at=1)}
    strange = strange.model_copy(update={"marks": marks})
    strange = strange.model_copy(update={"checksum": strange.expected_checksum()})
    paths = [write(tmp_path, "nobody.json", nobody), write(tmp_path, "strange.json", strange)]
    assert reasons(key, foreign, *paths) == {
        "foreign.json": f"of another round ({other.digest[:8]}, this one is {key.digest[:8]})",
        "nobody.json": "of judge 9; the round has judges 1 to 3",
        "strange.json": "has questions that judge 1 was not given (q9999)",
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b'{"format": "pmn-bench judge 2"}',
        b"null",
        b"<script>",
    ],
)
def test_what_cannot_be_read(key: Round, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / '<script>"‮.json'
    path.write_bytes(content)
    assert reasons(key, path)[path.name].startswith("not as a judge's page saves it (")
    assert path.read_bytes() == content


@pytest.mark.parametrize("grade", [5, -1, 2.5, "3", True, None])
def test_grades_are_whole_numbers_from_0_to_4(key: Round, tmp_path: Path, grade: object) -> None:
    saved = json.loads(saved_by(key, 1).model_dump_json())
    name = key.sheets[0].questions[0]
    saved["marks"][name]["A"] = grade
    path = tmp_path / "a.json"
    path.write_text(json.dumps(saved))
    why = reasons(key, path)["a.json"]
    assert why.startswith(
        "edited" if grade is None else f"not as a judge's page saves it (marks.{name}.A"
    )


def test_files_that_are_not_there_or_are_folders(key: Round, tmp_path: Path) -> None:
    found = reasons(key, tmp_path / "none.json", tmp_path)
    assert found["none.json"] == "cannot be read: No such file or directory"
    assert found[tmp_path.name] == "cannot be read: Is a directory"


def test_what_a_browser_saved_last_counts(key: Round, tmp_path: Path) -> None:
    early = write(tmp_path, "early.json", saved_by(key, 1, at=5, skip=20))
    late = write(tmp_path, "late.json", saved_by(key, 1, at=6))
    copy = write(tmp_path, "copy.json", saved_by(key, 1, at=6))
    for order in ([early, late], [late, early]):
        found = collect(key, order)
        assert found.taken == {1: late} and not found.left_out
        assert found.again == [(early, f"saved before {late}")]
    found = collect(key, [copy, late])
    assert not found.left_out and len(found.judged) == 40
    assert [why.startswith("the same as") for _, why in found.again] == [True]


def test_two_browsers_for_one_judge_are_not_ours_to_choose_from(key: Round, tmp_path: Path) -> None:
    first = write(tmp_path, "first.json", saved_by(key, 1, token="one"))
    second = write(tmp_path, "second.json", saved_by(key, 1, token="two", at=9))
    unfinished = write(tmp_path, "unfinished.json", saved_by(key, 1, token="three", skip=1))
    found = collect(key, [first, second])
    assert not found.judged and {path for path, _ in found.left_out} == {first, second}
    assert all(f"judged in 2 browsers ({first} and {second})" in why for _, why in found.left_out)
    assert collect(key, [first, unfinished]).taken == {1: first}  # only one can count
