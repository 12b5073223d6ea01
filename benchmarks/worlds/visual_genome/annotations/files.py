"""Published files: what they are called, what needs them, where they come from; their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback

_BLOCK = 1 << 20


class PublishedFile(NamedTuple):
    """A file that others publish."""

    names: tuple[str, ...]  # the first that is there is taken
    tasks: str  # that need it
    home: str  # where it comes from


def check_folder(folder: Path, what: str) -> None:
    """Refuse a folder that is none."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise UserError(f"{folder}: {found}, expected the folder with {what}")


def find(folder: Path, file: PublishedFile) -> Path:
    """Return where a published file is, or raise what is missing."""
    check_folder(folder, file.names[0])
    for name in file.names:
        if (folder / name).is_file():
            return folder / name
    there = sorted(path.name for path in folder.iterdir())
    packed = [name for name in there if name.endswith(".zip")]
    hint = f"; unpack {', '.join(packed[:3])} there" if packed else ""
    also = f" (nor {', '.join(file.names[1:])})" if file.names[1:] else ""
    holds = ", ".join(there[:5]) + (", …" if there[5:] else "")
    raise UserError(
        f"{folder}: no {file.names[0]}{also}, needed by {file.tasks}; it comes from {file.home}. "
        f"The folder has {holds or 'nothing'}{hint}"
    )


def find_if_there(folder: Path, file: PublishedFile) -> Path | None:
    """Return where a file is that one can do without."""
    there = (folder / name for name in file.names if (folder / name).is_file())
    return next(there, None)


def digests(paths: Iterable[Path], progress: ProgressCallback) -> dict[str, dict[str, Any]]:
    """Return for each file's name its size and the digest of what is in it."""
    given = list(paths)
    total = max(1, sum(path.stat().st_size for path in given))
    found, done = {}, 0
    for path in given:
        whole = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                whole.update(block)
                done += len(block)
                progress(min(done, total), total)
        found[path.name] = {"bytes": path.stat().st_size, "sha256": whole.hexdigest()}
    return found
