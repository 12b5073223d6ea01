"""Files that are whole or not there, and folders that one process holds at a time.

The lock is ours and not filelock's: its version 4 needs Python 3.11, and where a file system has no
locks it falls back to files that outlive their process.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pmn_cl.errors import UserError

_LOCK = ".lock"


def write_whole(path: Path, text: str, *, sync: bool = True) -> None:
    """Put a text in its place in one go; ``sync`` waits until it is on disk."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with storing(path):
            with partial.open("w", encoding="utf-8") as file:
                file.write(text)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(partial, path)
    except UserError:
        with suppress(OSError):  # half a file takes room that others lack
            partial.unlink()
        raise


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Raise which file or folder cannot be written, and why, where the system refuses."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {error.strerror or error}; "
            "check the disk's space and the folder's permissions, then run again"
        ) from error


@contextmanager
def held(
    folder: Path, what: str, patience: float = 5.0, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold a folder alone; wait for it, calling ``waiting``, and after that name its holder.

    The system releases it when the process ends, however it ends.
    """
    with storing(folder / _LOCK):
        file = (folder / _LOCK).open("ab", buffering=0)
    with file:
        deadline = time.monotonic() + patience
        while not _locked(folder, file.fileno()):
            if time.monotonic() > deadline:
                raise UserError(f"{folder}: {what} is in use by {_holder(folder)}")
            if waiting is not None:
                waiting()
            time.sleep(0.05)
        mine = {"process": os.getpid(), "host": socket.gethostname(), "since": time.ctime()}
        with suppress(OSError):  # on a full disk it is held all the same
            file.truncate(0)
            file.write(json.dumps(mine).encode())
        yield


def _locked(folder: Path, descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # another process has it
        return False
    except OSError as error:  # waiting would not help
        raise UserError(
            f"{folder}: its file system has no locks: {error.strerror or error}; use a folder on "
            "another, such as a local disk"
        ) from error
    return True


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / _LOCK).read_text("utf-8"))
        return f"process {holder['process']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError):
        return "another process"
