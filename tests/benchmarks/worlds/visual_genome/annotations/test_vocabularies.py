"""Classes with aliases, and words of sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.worlds.visual_genome.annotations.vocabularies import (
    Classes,
    Words,
    clean_name,
)
from pmn_cl.errors import UserError


def test_lines_number_classes_and_aliases_mean_them(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text(
        "on,on top of\r\nswimming in, swimming,swims in\r\nnear\r\n"
    )
    (tmp_path / "alias.txt").write_text("near,next to\nbeside,near\nnear,on\nfar,away\n")
    classes = Classes.read(tmp_path / "vocab.txt", 3, tmp_path / "alias.txt")
    assert classes.names == ["on", "swimming in", "near"]
    found = {name: classes.find(name) for name in ("ON", " on  top of ", "swimming", "Beside.")}
    assert found == {"ON": 0, " on  top of ": 0, "swimming": 1, "Beside.": 2}
    assert classes.find("next to") == 2
    assert classes.find("on") == 0  # an alias file takes no name from the vocabulary
    assert classes.find("far") is None
    assert classes.find_any(["far", "swims in", "on"]) == 1


def test_a_vocabulary_of_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects_vocab.txt"
    path.write_text("a\nb\n")
    with pytest.raises(UserError, match=r"2 lines, expected 1,600.*--other-vocab"):
        Classes.read(path, 1600)
    assert len(Classes.read(path, None)) == 2
    path.write_text("a\n\nb\n")
    with pytest.raises(UserError, match="line 2 is empty"):
        Classes.read(path, 3)


def test_the_published_vocabularies_have_their_lengths(samples: Path) -> None:
    for name, length in (("objects", 1600), ("attributes", 400), ("relations", 20)):
        path = samples / f"vocab/{name}_vocab.txt"
        classes = Classes.read(path, length)
        # The class of a line is its number, whichever of its names is used.
        for number, line in enumerate(path.read_text("utf-8").splitlines()):
            first = line.split(",")[0].strip().lower()
            assert clean_name(classes.names[number]) == first
            assert classes.find(first.upper()) is not None
    relations = Classes.read(samples / "vocab/relations_vocab.txt", 20)
    assert relations.find("Next To") == relations.find("near") == 6
    assert relations.find("swimming") == 19  # behind a comma and a space


def test_words_seen_often_enough_are_known() -> None:
    words = Words(Counter(["a", "b", "a", "c", "a", "b"]), at_least=2, marks=("", "<unk>"))
    assert words.names == ["", "<unk>", "a", "b"]
    assert words.numbers(["b", "c", "a"], 5).tolist() == [3, 1, 2, 0, 0]
    assert words.numbers(["b", "c", "a"], 2).tolist() == [3, 1]
