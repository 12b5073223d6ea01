"""What a world is: a source of scenes with their truth, prepared once into a store.

A world is independent of models. To add one, subclass ``World`` in a file of your own and name
it in a stream's YAML as ``package.module:Name``.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pmn_cl.data.programs import ProgramExecutor
from pmn_cl.data.store import FORMAT_VERSION, Store, StoreWriter, build_store
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback


class WorldOptions(BaseModel):
    """What a stream's YAML may set about a world; a world adds its own fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class World(ABC):
    """Makes scenes, and samples of tasks about them, and keeps them in a store."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for ``pmn-bench list``
    # Raise it when the same options give other data. A change of the code is noticed without,
    # as far as it is in the file of the class, or in a package beside it.
    version: ClassVar[int] = 1
    Options: ClassVar[type[WorldOptions]] = WorldOptions
    # Of which other tasks' training samples it can make further ones of a task.
    extras: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    _source: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Note the code as it is now: it is edited many times before a world settles."""
        super().__init_subclass__()
        cls._source = _source_digest(cls)

    def __init__(self, options: Any = None) -> None:
        self.options = self.Options() if options is None else options

    @abstractmethod
    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        """Write scenes and samples, a few at a time, so that any number fits in memory."""

    def expected_bytes(self) -> int:
        """Return about how large the store will be, to refuse a disk that is too full."""
        return 0

    def extra_samples(self, store: Store, task: str, source: str) -> dict[str, NDArray[Any]]:
        """Return further training samples of a task, made of another's: columns as in its table."""
        raise NotImplementedError(f"{type(self).__name__} has extras, but makes none")

    @classmethod
    def check_extra(cls, task: str, source: str) -> None:
        """Refuse further samples that this world cannot make."""
        known = [f"{t} out of {', '.join(sources)}" for t, sources in cls.extras.items()]
        if source not in cls.extras.get(task, ()):
            raise UserError(
                f"the world {cls.name!r} makes no further samples of {task!r} out of {source!r}, "
                f"expected {' or '.join(known) or 'none: leave `extra` out'}"
            )

    def picture(self, store: Store, split: str, scene: int) -> NDArray[np.uint8]:
        """Return what people see of a scene (H, W, 3): models get regions alone."""
        raise UserError(f"the world {self.name!r} draws no pictures of its scenes")

    def question_kinds(self, store: Store, split: str) -> dict[str, NDArray[np.bool_]]:
        """Return which questions of a split are of which kind, by what it takes to answer them.

        "relational", "counting" and "caption" ones are those that M_rel, M_cnt and M_cap are for.
        """
        return {}

    @classmethod
    def executor(cls) -> ProgramExecutor:
        """Return what executes the programs of its questions, where it has them."""
        raise UserError(
            f"the world {cls.name!r} has no programs that say what its questions ask; execute "
            "them on one that has, such as digits"
        )

    def relation_phrases(self) -> dict[str, str]:
        """Return phrases for relations ("left of"), where their names are none themselves."""
        return {}

    def preview(self, store: Store, path: Path) -> None:
        """Draw some scenes with their truth into a picture."""
        raise UserError(f"the world {self.name!r} draws no preview")

    def check_preview(self, path: Path) -> None:
        """Refuse a picture that could not be drawn, before the world is built for it."""
        if type(self).preview is World.preview:
            raise UserError(f"the world {self.name!r} draws no preview")
        if path.suffix.lower() != ".png" or not path.stem:
            raise UserError(f"{path}: the preview is a PNG file, expected a name like scenes.png")
        if not os.path.isdir(path.parent):  # False, where Path raises: a name too long
            raise UserError(f"{path}: there is no folder {path.parent} to write it to")

    def path(self, cache: Path | None = None) -> Path:
        """Return where the store of these options is or will be."""
        kind = type(self)
        identity = [
            f"{kind.__module__}:{kind.__qualname__}",
            [base._source for base in kind.__mro__ if hasattr(base, "_source")],
            [self.version, FORMAT_VERSION],
            self.options.model_dump(mode="json"),
        ]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        return cache_folder(cache) / f"{self.name}-{key}.h5"

    def prepare(self, cache: Path | None = None, progress: ProgressCallback | None = None) -> Store:
        """Open the store, building it first where there is none yet."""
        path = self.path(cache)
        if not _is_file(path):
            build_store(
                path,
                lambda store: self.write(store, progress or (lambda done, total: None)),
                header={"world": self.name, "options": self.options.model_dump(mode="json")},
                size=self.expected_bytes(),
            )
        return Store(path)


def cache_folder(given: Path | None = None) -> Path:
    """Return the folder for prepared worlds: as given, else as set, else the user's cache."""
    if given is not None:
        return Path(given)
    if os.environ.get("PMN_BENCH_CACHE"):
        return Path(os.environ["PMN_BENCH_CACHE"]).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pmn-bench"


def _source_digest(kind: type) -> str:
    """Return a digest of the file that defines a class, in a package of all files beside it."""
    try:
        file = Path(inspect.getfile(kind))
        files = sorted(file.parent.glob("*.py")) if "." in kind.__module__ else [file]
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    except (OSError, TypeError):  # typed into a shell: no file
        return ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise UserError(f"{path}: cannot be looked at ({error})") from error
