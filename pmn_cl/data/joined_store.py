"""Prepared files of one folder as one store: the regions once, the samples about them beside.

A folder holds ``features.h5``, whose table ``all/scenes`` is the scenes of every split, and parts
with samples of some tasks, each made for just those features. Parts that no task of a stream needs
may be missing. A part may have further splits that no score is given on: ``extra`` (more training
samples, which a world adds where a stream wants them) and ``server`` (questions without
answers, for an evaluation server). They are no splits of the stream; ``table`` gives them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pmn_cl.data.store import SCENES, MappedArray, Store
from pmn_cl.errors import UserError

FEATURES = "features.h5"
EXTRA = "extra"
_SCORED = ("train", "val", "test", "novel")
_ALWAYS = ("train", "val", "test")  # every stream needs them


@dataclass(frozen=True)
class Part:
    """A file with the samples of some tasks, and how it is made."""

    file: str
    tasks: tuple[str, ...]
    command: str

    def missing(self, folder: Path) -> UserError:
        """Return the error that it is not there, with what needs it and what to do."""
        plural = "s" if len(self.tasks) > 1 else ""
        return UserError(
            f"{folder / self.file}: not prepared yet, but needed by the task{plural} "
            f"{', '.join(self.tasks)}; make it with `{self.command} --out {folder}`"
        )


class JoinedStore(Store):
    """The files of a prepared folder, opened for reading."""

    def __init__(self, folder: Path, features: Part, parts: Sequence[Part]) -> None:
        self.path = folder / features.file
        if not self.path.is_file():
            raise features.missing(folder)
        self._folder = folder
        self._absent = [part for part in parts if not (folder / part.file).is_file()]
        regions = Store(self.path)
        annotated = {part: Store(folder / part.file) for part in parts if part not in self._absent}
        for part, store in annotated.items():
            _check_features(part, store, regions)
        self._parts = [regions, *annotated.values()]
        self.names = _joined_names(self._parts)
        digests = {store.path.name: store.digest for store in self._parts}
        self.header = {"parts": {store.path.name: store.header for store in self._parts}}
        self.digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        self._scenes = regions.table("all", SCENES)
        self._columns = {
            name: columns
            for store in annotated.values()
            for name, columns in store._columns.items()
        }

    @property
    def splits(self) -> list[str]:
        """Return the splits that are learned from or scored on, training first."""
        found = {name.split("/")[0] for name in self._columns}
        return [split for split in _SCORED if split in found or split in _ALWAYS]

    def tasks(self, split: str) -> list[str]:
        """Return the tasks of a split, also of parts that are not prepared yet.

        The table of one of those raises how to prepare it.
        """
        absent = [task for part in self._absent for task in part.tasks if split in _ALWAYS]
        return [*super().tasks(split), *absent]

    def table(self, split: str, table: str) -> dict[str, MappedArray]:
        """Return the columns of a task's samples of one split; the scenes are those of all."""
        if table == SCENES:
            return self._scenes
        for part in self._absent:
            if table in part.tasks:
                raise part.missing(self._folder)
        return super().table(split, table)

    def verify(self) -> bool:
        """Read every file and return whether all still have their digests."""
        return all(store.verify() for store in self._parts)


def _check_features(part: Part, store: Store, regions: Store) -> None:
    """Refuse samples about the scenes of another file: their numbers would mean other images."""
    made_for = store.header.get("features")
    if made_for != regions.digest:
        found = f"features {str(made_for)[:12]}" if made_for else "features it does not name"
        raise UserError(
            f"{store.path}: made for {found}, but {regions.path.name} beside it is "
            f"{regions.digest[:12]}; delete it and make it again with `{part.command}`"
        )


def _joined_names(stores: Sequence[Store]) -> dict[str, list[str]]:
    """Return what the numbers of all files mean; two files may not mean different things."""
    joined: dict[str, list[str]] = {}
    first_in: dict[str, Path] = {}
    for store in stores:
        for what, names in store.names.items():
            if joined.setdefault(what, names) != names:
                raise UserError(
                    f"{store.path}: has other {what} ({len(names)}) than {first_in[what].name} "
                    f"({len(joined[what])}); prepare both with the same vocabularies"
                )
            first_in.setdefault(what, store.path)
    return joined
