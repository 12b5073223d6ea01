"""The classes that annotations are mapped to, and the words of questions and captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmn_cl.errors import UserError

PADDING, START, END, UNKNOWN = "", "<s>", "</s>", "<unk>"


def clean_name(name: str) -> str:
    """Return a name as vocabularies spell it: lower case, single spaces, no period behind."""
    return " ".join(name.lower().split()).rstrip(".").rstrip()


class Classes:
    """Classes with their aliases: a line each in a vocabulary file, numbered from its first."""

    def __init__(self, names: Sequence[str], number_of: dict[str, int]) -> None:
        self.names = list(names)
        self._number_of = number_of
        self._found: dict[str, int | None] = {}  # names as they were written: few, and often

    @classmethod
    def read(cls, path: Path, expected: int | None, aliases: Path | None = None) -> Classes:
        """Read a vocabulary of so many lines, and further aliases for its names."""
        lines = _lines(path)
        if expected is not None and len(lines) != expected:
            raise UserError(
                f"{path}: {len(lines):,} lines, expected {expected:,}, each a class with its "
                "aliases; take the file published with the features, or add --other-vocab"
            )
        number_of: dict[str, int] = {}
        names = []
        for number, line in enumerate(lines):
            spellings = [name for part in line.split(",") if (name := clean_name(part))]
            if not spellings:
                raise UserError(f"{path}: line {number + 1} is empty: lines number the classes")
            names.append(spellings[0])
            for name in spellings:
                number_of.setdefault(name, number)
        if aliases is not None:
            _add_aliases(number_of, _lines(aliases))
        return cls(names, number_of)

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        """Return the class that a name stands for."""
        if name not in self._found:
            self._found[name] = self._number_of.get(clean_name(name))
        return self._found[name]

    def find_any(self, names: Iterable[str]) -> int | None:
        """Return the class of the first name that stands for one."""
        return next((number for name in names if (number := self.find(name)) is not None), None)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8-sig", errors="replace")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    return text.rstrip().splitlines()


def _add_aliases(number_of: dict[str, int], lines: Iterable[str]) -> None:
    """Let what others call alike mean the same class; the vocabulary's own names stay."""
    for line in lines:
        group = [name for part in line.split(",") if (name := clean_name(part))]
        number = next((number_of[name] for name in group if name in number_of), None)
        if number is not None:
            for name in group:
                number_of.setdefault(name, number)


class Words:
    """The words that sentences are written with, behind marks; others are "<unk>"."""

    def __init__(self, counts: Counter[str], *, at_least: int, marks: Sequence[str]) -> None:
        known = sorted(word for word, count in counts.items() if count >= at_least)
        self.names = [*marks, *(word for word in known if word not in marks)]
        self.number_of = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, words: Sequence[str], longest: int) -> NDArray[np.uint16]:
        """Return the numbers of the first words, filled up with padding."""
        unknown = self.number_of[UNKNOWN]
        row = np.zeros(longest, np.uint16)
        first = [self.number_of.get(word, unknown) for word in words[:longest]]
        row[: len(first)] = first
        return row
