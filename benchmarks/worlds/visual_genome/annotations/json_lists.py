"""The records of a list in a JSON file, one at a time: published files are larger than memory.

The list is the whole file, as in Visual Genome's, or a member of an object, as in COCO's and VQA's.
Ours and not ijson: that takes 1.5 times as long, yields nothing where the file has another shape,
refuses byte order marks and long integers, and runs out of memory on 100,000 open brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

_CHUNK = 1 << 22  # characters read at a time
_LONGEST_TOKEN = 1 << 20  # a mistake so far before the end of what is read is no cut
_TAIL = 4  # of a number that was cut: "1e+" can be read as 1
_DECODER = json.JSONDecoder()
_WHITE = " \t\r\n"


def records(
    path: Path,
    key: str | None = None,
    *,
    progress: ProgressCallback | None = None,
    others: dict[str, Any] | None = None,
) -> Iterator[Any]:
    """Yield the records of the list at the top of a file, or of its member ``key``.

    Members that are no lists are put into ``others``. What is no JSON, is cut off, or has no such
    list is refused, with the place.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            text = _Text(path, file, path.stat().st_size, progress)
            if key is None:
                yield from _whole(text)
            else:
                yield from _member(text, key, {} if others is None else others)
            if text.next_sign():
                raise text.wrong("something follows its end")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _whole(text: _Text) -> Iterator[Any]:
    if text.next_sign() == "{":
        members = [name for name, _ in zip(_names(text), range(5), strict=False)]
        raise text.wrong(f"an object with {', '.join(members) or 'nothing'}, expected a list")
    yield from _list(text)


def _names(text: _Text) -> Iterator[str]:
    """Yield the names of an object's members; the caller takes each value, or it is skipped."""
    text.take("{")
    if text.next_sign() == "}":
        text.take("}")
        return
    while True:
        name = text.value()
        if not isinstance(name, str):
            raise text.wrong(f"{name!r:.40} for the name of a member")
        text.take(":")
        text.next_sign()
        place = text.place
        yield name
        if text.place == place:
            _skip(text)
        if text.next_sign() != ",":
            break
        text.take(",")
    text.take("}")


def _skip(text: _Text) -> None:
    if text.next_sign() == "[":
        for _ in _list(text):
            pass
    else:
        text.value()


def _member(text: _Text, key: str, others: dict[str, Any]) -> Iterator[Any]:
    if text.next_sign() == "[":
        raise text.wrong(f"a list, expected an object with {key!r}")
    found, names = False, []
    for name in _names(text):
        names.append(name)
        if name == key and not found:
            found = True
            yield from _list(text)
        elif text.next_sign() != "[":
            others[name] = text.value()
    if not found:
        raise UserError(
            f"{text.path}: has {', '.join(f'{n:.40}' for n in names[:8]) or 'nothing'}, expected "
            f"{key!r}: another file's JSON? Compare its name with the published one"
        )


def _list(text: _Text) -> Iterator[Any]:
    text.take("[")
    if text.next_sign() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.next_sign() != ",":
            break
        text.take(",")
    text.take("]")


class _Text:
    """The text of a file, of which one piece is in memory, and a place in it."""

    def __init__(
        self, path: Path, file: TextIO, size: int, progress: ProgressCallback | None
    ) -> None:
        self.path = path
        self._file, self._size, self._progress = file, size, progress
        self._piece, self._at, self._before = "", 0, 0

    @property
    def place(self) -> int:
        """Return the number of characters before the next one."""
        return self._before + self._at

    def wrong(self, what: str) -> UserError:
        """Return what to raise where the text is not as it should be."""
        return UserError(
            f"{self.path}: {what}, at character {self.place:,}; is it the published file, whole? "
            "Download or unpack it again"
        )

    def next_sign(self) -> str:
        """Return the next character that is no white space, without taking it; "" at the end."""
        while True:
            while self._at < len(self._piece):
                if self._piece[self._at] not in _WHITE:
                    return self._piece[self._at]
                self._at += 1
            if not self._read_on():
                return ""

    def take(self, sign: str) -> None:
        """Step over a character that has to be next."""
        found = self.next_sign()
        if found != sign:
            raise self.wrong(f"{found or 'its end'!r}, expected {sign!r}")
        self._at += 1

    def value(self) -> Any:
        """Read the next value whole."""
        self.next_sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._piece, self._at)
            except RecursionError:
                raise self.wrong("lists within lists without end") from None
            except ValueError as error:  # also a number with thousands of digits
                wrong_at = getattr(error, "pos", self._at) - self._at
                seems_cut = len(self._piece) - self._at - wrong_at < _LONGEST_TOKEN
                if seems_cut and isinstance(error, json.JSONDecodeError) and self._read_on():
                    continue
                self._at += wrong_at
                raise self.wrong("no JSON" if self.next_sign() else "ends in the middle") from None
            if len(self._piece) - end < _TAIL and self._read_on():
                continue
            self._at = end
            return value

    def _read_on(self) -> bool:
        """Read more and forget what was taken; at the end nothing changes."""
        more = self._file.read(_CHUNK)
        if not more:
            return False
        self._before += self._at
        self._piece, self._at = self._piece[self._at :] + more, 0
        if self._progress is not None:
            self._progress(min(self._file.buffer.tell(), self._size), self._size)
        return True
