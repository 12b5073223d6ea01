"""Reading records one at a time gives what the json module gives, and says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.worlds.visual_genome.annotations import json_lists
from benchmarks.worlds.visual_genome.annotations.json_lists import records
from pmn_cl.errors import UserError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
quick = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@given(st.lists(values, max_size=5), st.integers(1, 9), st.sampled_from([None, 1]))
@quick
def test_a_list_is_read_as_the_json_module_reads_it(
    tmp_path: Path, items: list[Any], chunk: int, indent: int | None
) -> None:
    path = written(tmp_path / "list.json", json.dumps(items, indent=indent))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lists, "_CHUNK", chunk)
        assert list(records(path)) == items


@given(
    st.dictionaries(st.text(max_size=4).map(lambda name: f"x{name}"), values, max_size=4),
    st.lists(values, max_size=4),
    st.integers(0, 4),
    st.integers(1, 9),
)
@quick
def test_a_member_is_found_among_others(
    tmp_path: Path, before: dict[str, Any], items: list[Any], place: int, chunk: int
) -> None:
    members = list(before.items())
    members.insert(place, ("wanted", items))
    path = written(tmp_path / "object.json", json.dumps(dict(members), indent=place % 2 or None))
    others: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lists, "_CHUNK", chunk)
        assert list(records(path, "wanted", others=others)) == items
    assert others == {n: v for n, v in before.items() if not isinstance(v, list)}


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = json.dumps([{"image_id": 1, "objects": [{"x": 12.5, "names": ["a\u00e9"]}]}, 7, None])
    for length in range(len(whole)):
        path = written(tmp_path / "cut.json", whole[:length])
        with pytest.raises(UserError, match=r"cut\.json.*whole\?"):
            list(records(path))


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ('{"info": 1, "annotations": []}', None, "info, annotations, expected a list"),
        ('{"info": 1, "annotations": []}', "questions", "has info, annotations, expected 'quest"),
        ("[1, 2]", "questions", "a list, expected an object with 'questions'"),
        ('{"questions": 5}', "questions", "'5', expected '\\['"),
        ("<html>404</html>", None, "'<', expected '\\['"),
        ("[1, 2] [3]", None, "something follows its end"),
        ("[1, 2,, 3]", None, "no JSON, at character 6"),
        ("[" * 100_000, None, "without end"),
        (f"[{'9' * 5000}]", None, "no JSON"),
        ("", None, "its end"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, key: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        list(records(written(tmp_path / "wrong.json", text), key))


def test_a_mistake_early_in_a_long_file_is_found_without_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lists, "_CHUNK", 1000)
    monkeypatch.setattr(json_lists, "_LONGEST_TOKEN", 2000)
    path = written(tmp_path / "long.json", '[{"a": nonsense}' + ', {"a": 1}' * 50_000 + "]")
    read = []
    with pytest.raises(UserError, match="no JSON, at character 7"):
        list(records(path, progress=lambda done, total: read.append(done)))
    assert max(read) < path.stat().st_size / 10


def test_marks_at_the_beginning_and_foreign_bytes_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_bytes(b'\xef\xbb\xbf["caf\xe9", 1]')
    assert list(records(path)) == ["caf\ufffd", 1]
