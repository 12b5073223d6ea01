"""A run's journal: what happened, one line of JSON after another, safe against being cut off.

One process at a time writes it: the run, or the driver when the run has ended. Anybody may read
it while it grows. No torch here.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pmn_cl.errors import UserError
from pmn_cl.files import storing
from pmn_cl.results.folder import JOURNAL

Event = dict[str, Any]  # "event", "time" and whatever belongs to it


class Journal:
    """Appends events to a file; each is on disk when ``write`` returns."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self.events = read_journal(self.path) if self.path.exists() else []
        with storing(self.path):
            self._drop_what_was_cut()
            # Without a buffer: what a full disk refused would be written later, at a wrong place.
            self._file = self.path.open("ab", buffering=0)

    def write(self, event: str, **what: Any) -> None:
        """Add an event."""
        entry = {"event": event, "time": round(time.time(), 3), **what}
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        left = memoryview(line)
        with storing(self.path):
            while left:  # a disk that is almost full takes a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        self.events.append(json.loads(line))

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _drop_what_was_cut(self) -> None:
        """Remove the beginning of a line whose end was never written."""
        if not self.path.exists():
            return
        whole = self.path.read_bytes()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            with self.path.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())


def read_journal(path: Path) -> list[Event]:
    """Return the events of a journal; a last line without an end is not there yet."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    return [_event(path, number, line) for number, line in enumerate(lines, start=1)]


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"event", "time"} <= found.keys():
        raise UserError(
            f"{path}:{number}: is no line of a journal: {line[:60]!r}; run again to start it over"
        )
    return found
