"""Word vectors out of text files as they are published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.glove import read_vectors
from pmn_cl.errors import UserError

WORDS = ["", "<unk>", "cat", "dog", "n't", "zebra"]


def nothing(done: int, total: int) -> None:
    assert 0 < done <= total


def test_vectors_of_known_words_are_found(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    lines = [
        "the 0.1 0.2 0.3",
        "cat 1 2 3",
        ". . . 7 8 9",  # a word with spaces in it
        "dog 4 5",  # cut
        "dog 4 five 6",
        "dog 4 nan 6",
        "dog 4 5 6",
        "cat 9 9 9",  # again
        "n't -1e-3 0 1",
        "",
    ]
    path.write_text("\n".join(lines) + "\n")
    read = read_vectors(path, WORDS, nothing)
    assert read.found.tolist() == [False, False, True, True, True, False]
    expected = [[0] * 3, [0] * 3, [1, 2, 3], [4, 5, 6], [-1e-3, 0, 1], [0] * 3]
    np.testing.assert_allclose(read.vectors, np.array(expected, "f4"))
    assert read.malformed == 4  # cut, five, nan, empty


def test_a_first_line_with_sizes_is_no_word(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\ncat 1 2 3\ndog 4 5 6\n")
    read = read_vectors(path, WORDS, nothing)
    assert read.vectors[2].tolist() == [1, 2, 3] and read.malformed == 0


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.zip"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(UserError, match="expected a GloVe text file"):
        read_vectors(path, WORDS, nothing)
