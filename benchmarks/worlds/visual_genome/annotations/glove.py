"""Word vectors out of a GloVe text file: a word and its numbers on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.parts import Made
from benchmarks.worlds.visual_genome.callbacks import Watch
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

_REPORTED = 100_000  # lines between two reports


class Vectors(NamedTuple):
    """A vector for each word (W, d), zero where the file has none, and whether it has (W,)."""

    vectors: NDArray[np.float32]
    found: NDArray[np.bool_]
    malformed: int  # lines that are no word with d numbers


def read_vectors(path: Path, words: Sequence[str], progress: ProgressCallback) -> Vectors:
    """Read the vectors of these words. Of a word that comes twice, the first counts."""
    wanted = {word: number for number, word in enumerate(words) if word}
    found: dict[int, NDArray[np.float32]] = {}
    width, malformed, good = 0, 0, 0
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            for number, raw in enumerate(file):
                done += len(raw)
                if number % _REPORTED == 0:
                    progress(done, max(done, size))
                fields = raw.decode("utf-8", "replace").rstrip().split(" ")
                if number == 0 and len(fields) == 2:
                    continue  # how many words, how many numbers: some tools write that first
                width = width or len(fields) - 1
                # Some words have spaces in them; no word of ours has.
                if len(fields) <= width or width < 2:
                    malformed += 1
                elif len(fields) == width + 1 and fields[0] in wanted:
                    vector = _numbers(fields[1:])
                    if vector is None:
                        malformed += 1
                        continue
                    good += 1
                    found.setdefault(wanted[fields[0]], vector)
                else:
                    good += 1
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not good:
        raise UserError(f"{path}: no line is a word with numbers, expected a GloVe text file")
    vectors = np.zeros((len(words), width), np.float32)
    for place, vector in found.items():
        vectors[place] = vector
    return Vectors(vectors, np.isin(np.arange(len(words)), list(found)), malformed)


def _numbers(fields: Sequence[str]) -> NDArray[np.float32] | None:
    try:
        with np.errstate(over="ignore"):
            vector = np.array([float(field) for field in fields], np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def check_vectors(path: Path | None) -> None:
    """Refuse a file that is not there before anything long is begun."""
    if path is not None and not path.is_file():
        raise UserError(f"{path}: not there, expected a GloVe text file (nlp.stanford.edu)")


def add_vectors(
    made: Made, table: str, path: Path, words: Sequence[str], marks: int, watch: Watch
) -> None:
    """Let a part keep vectors for its words, in ``words/<table>``, and note which share was found.

    The first words are marks, which no file has.
    """
    with watch(f"reading {path.name}") as progress:
        read = read_vectors(path, words, progress)
    made.tables[f"words/{table}"] = {"vector": read.vectors, "found": read.found}
    count, share = int(read.found[marks:].sum()), read.found[marks:].mean()
    figure = f"{count:,} of {len(words) - marks:,} words, {share:.1%}"
    made.summary.add(f"vectors ({read.vectors.shape[1]}-d) in {path.name}", figure)
    made.summary.tally.note(f"lines of {path.name} without a word and its numbers: left out",
                            times=read.malformed)  # fmt: skip
