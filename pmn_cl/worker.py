"""One run in a process of its own: whatever happens to it, a record remains."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmn_cl.checkpoints import Checkpoints
from pmn_cl.errors import UserError
from pmn_cl.files import held, write_whole
from pmn_cl.journal import Journal
from pmn_cl.results import Result, write_result
from pmn_cl.runs import Interrupted, RunSpec, carry_out, result_of
from pmn_cl.strategy import Progress

PROGRESS, OUTPUT, TRACEBACK = "progress.json", "output.txt", "traceback.txt"


def work(
    run: RunSpec, folder: Path, cache: Path | None, device: str, every: float, driver: int
) -> None:
    """Carry a run out, with what it prints in a file beside its record."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, who tells us
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    try:
        with (
            (folder / OUTPUT).open("a", encoding="utf-8", buffering=1) as output,
            redirect_stdout(output),
            redirect_stderr(output),
            held(folder, "this run"),
        ):
            finish(run, folder, cache, device, every, lambda: bool(told) or not _alive(driver))
    except (OSError, UserError) as error:  # it cannot write its record: the driver will
        raise SystemExit(f"{run.key}: {error}") from None


def _alive(process: int) -> bool:
    """Whether a process is there: a run whose driver was killed has nobody to go on for."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):  # gone, or another's by now
        return False
    return True


def finish(
    run: RunSpec,
    folder: Path,
    cache: Path | None,
    device: str,
    every: float,
    stop: Callable[[], bool],
) -> Result:
    """Carry a run out and write its record, also when it fails or is told to stop."""
    try:
        result = carry_out(
            run,
            folder,
            cache=cache,
            device=device,
            every=every,
            stop=stop,
            on_progress=Progresses(folder),
        )
    except Interrupted:
        result = ended(run, folder, "interrupted")
    except Exception as error:
        what = {"kind": type(error).__name__, "message": str(error)}
        if isinstance(error, UserError):
            what["kind"] = "UserError"
        with suppress(UserError):  # on a full disk the message must do
            write_whole(folder / TRACEBACK, traceback.format_exc())
            what["traceback"] = TRACEBACK
        result = ended(run, folder, "failed", error=what)
    write_result(result, folder)
    if result.status == "completed":
        Checkpoints(folder).clear()
    return result


def ended(run: RunSpec, folder: Path, how: str, **what: Any) -> Result:
    """Write down how a run ended and return its record, also where its journal is beyond use."""
    try:
        journal = Journal(folder)
        journal.write(how, **what)
        journal.close()
        return result_of(run, journal.events)
    except (OSError, UserError, LookupError, TypeError, ValueError):  # then of its end alone
        return result_of(run, [{"event": how, "time": time.time(), **what}])


class Progresses:
    """Writes how far a run is into a small file, for who watches."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        self._score: float | None = None
        self._task = ""

    def __call__(self, progress: Progress) -> None:
        """Take the latest progress; the last score stays until there is a new one."""
        if progress.task != self._task:
            self._task, self._score = progress.task, None
        if progress.score is not None:
            self._score = progress.score
        told = {**asdict(progress), "score": self._score, "time": time.time()}
        with suppress(UserError):  # no run ends because nobody can watch it
            write_whole(self._path, json.dumps(told), sync=False)
