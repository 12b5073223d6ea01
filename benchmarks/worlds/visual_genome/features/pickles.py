"""Reads pickles that hold plain data, and refuses any other before it can do anything.

A pickle is a program: it may name any function and call it. Here only what numbers, strings,
containers and numpy's arrays are made with can be named. Even those are stand-ins of ours where
numpy would trust any number it is given, and the program is looked through before it is run, since
a few bytes of it can ask for all of the memory.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 1 << 28  # bytes; an index of all of COCO takes 2 MB
_REFUSED = ("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_PLACES = ("PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET")
_PLAIN_TYPE = re.compile(r"[<>=|]?[?biufcSUO][0-9]{0,4}")


class RefusedError(ValueError):
    """Why a pickle was not read."""


def load_plain(data: bytes) -> Any:
    """Return what a pickle holds, if that is plain data."""
    if len(data) > _LARGEST:
        raise RefusedError(f"a pickle of {len(data):,} bytes, expected at most {_LARGEST:,}")
    try:
        _look_through(data)
        return _PlainUnpickler(io.BytesIO(data), encoding="latin1").load()
    except RefusedError:
        raise
    except Exception as error:  # damaged bytes can make it raise anything
        raise RefusedError(f"a damaged pickle ({type(error).__name__})") from error


def _look_through(data: bytes) -> None:
    for step, argument, _ in pickletools.genops(data):
        if step.name in _REFUSED:
            raise RefusedError(f"a pickle that uses {step.name}, which plain data do not")
        # Room is made for all places before it.
        if step.name in _PLACES and not 0 <= int(argument or 0) <= len(data):
            raise RefusedError("a damaged pickle (a place that is too far)")


class _PlainUnpickler(pickle.Unpickler):
    """Finds only what plain data are made with."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise RefusedError(
                f"a pickle that names {module}.{name}, which is no plain container, number, "
                "string or array; nothing of it was run"
            ) from None


class _Type:
    """Stands for numpy's dtype, which would let a pickle set its insides to anything."""

    def __init__(self, code: str, align: bool = False, copy: bool = False) -> None:
        if not isinstance(code, str) or not _PLAIN_TYPE.fullmatch(code):
            raise RefusedError("a pickle with an array of other things than numbers or strings")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):  # the only part that a plain type needs
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray[Any, Any]):
    """An array that a pickle fills, with a type of which numpy itself made sure."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        super().__setstate__((1, shape, kind.dtype, by_columns, data))


def _empty_array(kind: Any, shape: Any, code: Any) -> _Array:
    return _Array((0,), "i1")


def _scalar(kind: _Type, data: bytes | str) -> Any:
    raw = data.encode("latin1") if isinstance(data, str) else data  # a str is Python 2's
    return np.frombuffer(raw, kind.dtype, count=1)[0]


def _array_of(data: bytes, kind: _Type, shape: Any, order: str) -> NDArray[Any]:
    return np.frombuffer(data, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


def _as_bytes(text: str, encoding: str) -> bytes:
    """Return bytes of the string that old protocols keep them as."""
    if encoding not in ("latin1", "latin-1", "iso-8859-1"):
        raise RefusedError(f"a pickle that encodes by {encoding!r}, expected latin1")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Return what old protocols call ``bytes`` for; given a number, the true one takes memory."""
    return b""


_ADMITTED = {
    ("_codecs", "encode"): _as_bytes,
    ("collections", "OrderedDict"): dict,
    ("numpy", "ndarray"): None,  # named, never called
    ("numpy", "dtype"): _Type,
    **{
        (module, name): ours
        for module in ("builtins", "__builtin__")
        for name, ours in (
            ("set", set),
            ("frozenset", frozenset),
            ("complex", complex),
            ("bytes", _no_bytes),
        )
    },
    **{
        (f"numpy.{core}.{module}", name): ours
        for core in ("core", "_core")  # numpy 2 gave its core another name
        for module, name, ours in (
            ("multiarray", "_reconstruct", _empty_array),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _array_of),
        )
    },
}
