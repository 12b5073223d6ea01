"""What an engine is: it executes runs, on this machine or on a cluster. Knows no results.

An engine starts runs, says which have ended, and stops them. How a run ended is what its journal
and its record say, in the driver's folder, whichever engine it was; an engine adds how its process
ended, for those that could write neither.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pmn_cl.config.spec import RunSpec
from pmn_cl.runs.worker import Terms


@dataclass(frozen=True)
class Ending:
    """How the process of a run ended, whatever the run has written."""

    run: RunSpec
    code: int  # as of a process: below 0, the signal that ended it
    how: str  # in words

    @classmethod
    def of(cls, run: RunSpec, code: int) -> Ending:
        """Return the ending of a process with this exit code."""
        signalled = f"ended by signal {signal.Signals(-code).name}" if code < 0 else ""
        return cls(run, code, signalled or f"exit code {code}")


class Engine(Protocol):
    """Carries runs out; a context in which they go on."""

    def __enter__(self) -> Any:
        """Get ready."""

    def __exit__(self, *how: object) -> None:
        """Leave nothing behind; no run goes on."""

    def usual_workers(self, threads: int) -> int:
        """Return how many runs of so many threads go on at a time, unless the user says."""

    def has_room(self, run: RunSpec) -> bool:
        """Whether a run could begin now, beside those that go on."""

    def start(self, run: RunSpec, folder: Path, terms: Terms) -> None:
        """Begin a run, which reads and writes its folder, and return at once."""

    def ended(self, patience: float) -> list[Ending]:
        """Wait so many seconds for a run to end; return those that have."""

    def stop(self) -> list[Ending]:
        """Let every run keep its state, end those that do not, and return them all."""
