"""What a reader of features is, which there are, and which one a file needs.

Another form is one small class: subclass ``Reader`` in a file of your own and name it as
``--format module:Class``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from benchmarks.worlds.visual_genome.features.images import Image, Skipped
from pmn_cl import registry
from pmn_cl.errors import UserError

FORMATS = {
    "bottom_up": "benchmarks.worlds.visual_genome.features.tsv:BottomUpTsv",
    "lxmert": "benchmarks.worlds.visual_genome.features.tsv:LxmertTsv",
    "hdf5": "benchmarks.worlds.visual_genome.features.hdf5:Hdf5WithPickle",
    "npy": "benchmarks.worlds.visual_genome.features.npy:NpyFolder",
}
DUPLICATE, NOT_NEEDED = "there already", "not needed"
_PACKED = {b"PK\x03\x04": "zip", b"\x1f\x8b": "gzip", b"7z\xbc\xaf": "7z", b"BZh": "bzip2"}
_ENDS = 1 << 20  # bytes at either end of a file that identify it


class Reader(ABC):
    """Goes through the images of one source from ``position``, which ends at ``size``.

    What it yields can be left off and gone on with: another reader whose ``position`` is set to
    this one's yields the rest. ``unwanted`` gives the reason why an image need not be
    read at all; calling it before decoding saves time, and nothing else depends on it.
    """

    summary: ClassVar[str]  # the form, in a few words
    fixed_is_ordered: ClassVar[bool] = False  # 36 boxes in every image: by confidence

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0
        self.unwanted: Callable[[int], str] = lambda image: ""

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path) -> bool:
        """Return from the beginning of a file whether this is a source of its form."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how far ``position`` goes: bytes, rows or files."""

    @abstractmethod
    def __iter__(self) -> Iterator[Image | Skipped]: ...

    def files(self) -> list[Path]:
        """Return the files that it reads."""
        return [self.path]

    def disk_bytes(self) -> int:
        """Return how large its files are together."""
        return sum(file.stat().st_size for file in self.files())

    def fingerprint(self) -> str:
        """Return what identifies its files without reading them whole."""
        found = hashlib.sha256()
        for path in self.files():
            size = path.stat().st_size
            found.update(f"{path.name} {size} ".encode("utf-8", "surrogateescape"))
            with path.open("rb") as file:
                found.update(file.read(_ENDS))
                file.seek(max(0, size - _ENDS))
                found.update(file.read(_ENDS))
        return found.hexdigest()


def find_reader(path: Path, form: str | None = None) -> Reader:
    """Return a reader for this source: of the form that is named, else of the one it has."""
    if not path.exists():
        raise UserError(
            f"{path}: no such file or folder; expected region features as published: "
            "trainval_36.tsv, train36.hdf5, a folder of .npy files, …"
        )
    try:
        if form is not None:
            registry.search_last(Path.cwd())  # where a reader of the user's may be
            reader: Reader = registry.find(form, FORMATS, "format", Reader)(path)
            return reader
        for name in FORMATS:
            kind = registry.find(name, FORMATS, "format", Reader)
            if kind.recognises(path):
                known: Reader = kind(path)
                return known
        raise UserError(f"{path}: {_what_it_seems(path)}")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _what_it_seems(path: Path) -> str:
    """Say what keeps a source from being recognised, and what to do."""
    if path.is_dir():
        return "a folder without NAME_info.npy files; name the files in it instead"
    with path.open("rb") as file:
        start = file.read(1 << 16)
    for magic, packer in _PACKED.items():
        if start.startswith(magic):
            return f"packed with {packer}; unpack it and name what was in it"
    if not start:
        return "an empty file; get it anew"
    fields = start.split(b"\n", 1)[0].count(b"\t") + 1
    expected = "; ".join(
        f"{name}: {registry.load(reference).summary}" for name, reference in FORMATS.items()
    )
    return (
        f"none of the known forms of features (the first line has {fields} fields). "
        f"Expected one of: {expected}. Name the form with --format if it is one of these, "
        "or a reader of yours as --format module:Class"
    )
