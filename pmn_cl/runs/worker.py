"""One run in a process of its own: whatever happens to it, a record remains."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pmn_cl.config.spec import RunSpec
from pmn_cl.errors import UserError
from pmn_cl.files import held, storing, write_whole
from pmn_cl.results.folder import JOURNAL, OUTPUT, PROGRESS, RESULT, TRACEBACK
from pmn_cl.results.result import Result, read_result, write_result
from pmn_cl.runs.checkpoint import CHECKPOINT, Checkpoints, Interrupted
from pmn_cl.runs.execute import carry_out
from pmn_cl.runs.journal import Journal
from pmn_cl.runs.record import result_of
from pmn_cl.strategy.base import TrainingProgress


@dataclass(frozen=True)
class Terms:
    """What holds for every run, whichever engine executes it."""

    cache: Path | None = None  # of prepared worlds
    device: str = "cpu"  # auto: a GPU, where the run finds one
    every: float = 60.0  # seconds between two states kept


def work(
    run: RunSpec, folder: Path, terms: Terms, parents: Sequence[int] = (), patience: float = 5.0
) -> None:
    """Carry a run out, with what it prints in a file beside its record.

    It stops in order on a signal, or when one of its parents (process ids) is gone.
    """
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    if parents:  # Ctrl-C reaches them, and they signal us
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))

    def stop() -> bool:
        return bool(signals) or not all(map(_alive, parents))

    try:
        with (
            (folder / OUTPUT).open("a", encoding="utf-8", buffering=1) as output,
            redirect_stdout(output),
            redirect_stderr(output),
            held(folder, "this run", patience),
        ):
            if open_again(folder):
                device = chosen_device(terms.device)
                finish(run, folder, terms.cache, device, terms.every, stop)
    except (OSError, UserError) as error:  # it cannot write its record: the driver will
        raise SystemExit(f"{run.key}: {error}") from None


def chosen_device(device: str) -> str:
    """Return the device that is meant; ``auto`` is a GPU where there is one."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def open_again(folder: Path) -> bool:
    """Whether a run is still to be done; clear the way if it is. Its folder must be held."""
    if not (folder / RESULT).exists():
        return True
    status = read_result(folder / RESULT).status
    with storing(folder):
        if status == "failed":  # again from the start: what it kept may be why it failed
            (folder / CHECKPOINT).unlink(missing_ok=True)
            if (folder / JOURNAL).exists():
                number = 1 + len(list(folder.glob(f"{JOURNAL}.*")))
                (folder / JOURNAL).rename(folder / f"{JOURNAL}.{number}")
        if status != "completed":
            (folder / RESULT).unlink()
    return status != "completed"


def _alive(process: int) -> bool:
    """Whether a process is there: a run whose driver was killed has no reason to go on."""
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
    """Carry a run out and write its record, also when it fails or is asked to stop."""
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
    """Writes how far a run is into a small file, for the driver to show."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        self._score: float | None = None
        self._task = ""

    def __call__(self, progress: TrainingProgress) -> None:
        """Take the latest progress; the last score stays until there is a new one."""
        if progress.task != self._task:
            self._task, self._score = progress.task, None
        if progress.score is not None:
            self._score = progress.score
        written = {**asdict(progress), "score": self._score, "time": time.time()}
        with suppress(UserError):  # no run ends because it cannot be shown
            write_whole(self._path, json.dumps(written), sync=False)
