"""Carries out many runs, each in a fresh process, and leaves a result for each of them.

Runs are forked from a server that has imported torch and Avalanche and done nothing else, so
that only the first one waits for that. The driver writes no result of a run that is alive.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from pmn_cl.checkpoints import CHECKPOINT
from pmn_cl.errors import UserError
from pmn_cl.files import held, storing
from pmn_cl.journal import JOURNAL, read_journal
from pmn_cl.results import RESULT, Result, read_result, write_result
from pmn_cl.runs import RunSpec, result_of
from pmn_cl.worker import PROGRESS, ended, work

_SERVER = ("benchmarks.avalanche_stream", "strategies.template", "pmn_cl.worker")
_LOOK_EVERY = 0.5  # seconds
_GRACE = 5.0  # seconds that a run has to stop in order


class Watcher(Protocol):
    """Somebody who is told how the runs go."""

    def begin(self, waiting: int) -> None:
        """Hear how many runs are to be done; their folders are as they will find them."""

    def update(self, running: dict[str, dict[str, Any]], ended: list[Result]) -> None:
        """Hear what each running one is at, by key, and which have just ended."""


@dataclass
class Driver:
    """Goes through runs with so many at a time."""

    out: Path
    workers: int = 1
    cache: Path | None = None
    device: str = "cpu"
    every: float = 60.0  # seconds between two states kept
    fresh: bool = False
    interrupted: bool = field(default=False, init=False)
    _unwritten: dict[str, Result] = field(default_factory=dict, init=False)  # there was no room

    def run(self, runs: Sequence[RunSpec], watcher: Watcher | None = None) -> list[Result]:
        """Do what is not done yet; return all results in the order of the runs."""
        with storing(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
        with held(self.out, "the folder", patience=1.0):
            self._unwritten.clear()
            if not self.fresh:
                self._results(runs)  # what cannot be read is refused before anything is touched
            waiting = [run for run in runs if self._is_open(run)]
            if watcher is not None:
                watcher.begin(len(waiting))
            if waiting:
                self._go_through(waiting, watcher)
            return self._results(runs)

    def _results(self, runs: Sequence[RunSpec]) -> list[Result]:
        return [
            self._unwritten.get(run.key) or read_result(self.out / run.key / RESULT)
            for run in runs
            if self._known(run)
        ]

    def _known(self, run: RunSpec) -> bool:
        return run.key in self._unwritten or (self.out / run.key / RESULT).exists()

    def _is_open(self, run: RunSpec) -> bool:
        """Whether a run is still to be done; get its folder ready if it is."""
        folder = self.out / run.key
        with storing(folder):
            folder.mkdir(exist_ok=True)
        # A run whose driver was killed may hold it still.
        with held(folder, "this run", patience=60.0), storing(folder):
            return self._prepare(run, folder)

    def _prepare(self, run: RunSpec, folder: Path) -> bool:
        if self.fresh and any(folder.glob("[!.]*")):
            earlier = self.out / "earlier"
            number = 1 + len(list(earlier.glob("*")))
            (earlier / str(number)).mkdir(parents=True)
            folder.rename(earlier / str(number) / run.key)
            folder.mkdir()
        if not (folder / RESULT).exists():
            return True
        status = read_result(folder / RESULT).status
        if status == "failed":  # again from the start: what it kept may be why it failed
            (folder / CHECKPOINT).unlink(missing_ok=True)
            if (folder / JOURNAL).exists():
                number = 1 + len(list(folder.glob(f"{JOURNAL}.*")))
                (folder / JOURNAL).rename(folder / f"{JOURNAL}.{number}")
        if status != "completed":
            (folder / RESULT).unlink()
        return status != "completed"

    def _go_through(self, waiting: list[RunSpec], watcher: Watcher | None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(_SERVER))
        running: dict[int, tuple[Any, RunSpec]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    run = waiting.pop(0)
                    process = self._start(context, run)
                    running[process.sentinel] = process, run
                over = wait(list(running), timeout=_LOOK_EVERY)
                ended = [self._ended(*running.pop(cast(int, sentinel))) for sentinel in over]
                if watcher is not None:
                    watcher.update(
                        {run.key: self._progress(run) for _, run in running.values()}, ended
                    )
        except KeyboardInterrupt:
            self.interrupted = True
            self._stop(running)
            ended = [self._ended(process, run) for process, run in running.values()]
            if watcher is not None:
                watcher.update({}, ended)
        except BaseException:
            self._stop(running)  # nobody would be there to hear of them
            raise

    def _start(self, context: Any, run: RunSpec) -> Any:
        given = (run, self.out / run.key, self.cache, self.device, self.every, os.getpid())
        process = context.Process(target=work, args=given, name=run.key)
        with _without_working_directory(), _without_main():
            process.start()
        return process

    def _stop(self, running: dict[int, tuple[Any, RunSpec]]) -> None:
        """Let every run keep its state, and end those that do not."""
        for process, _ in running.values():
            process.terminate()
        deadline = time.monotonic() + _GRACE - 1
        for process, _ in running.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _ended(self, process: Any, run: RunSpec) -> Result:
        """Return the record of a run that has ended, also of one that could not write it."""
        process.join()
        folder = self.out / run.key
        code = process.exitcode
        how = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        try:
            if not (folder / RESULT).exists():
                write_result(_left_behind(run, folder, code, how), folder)
            return read_result(folder / RESULT)
        except (OSError, UserError) as error:  # a full disk, most likely: the others go on
            what = {"kind": "ProcessEnded", "message": f"{how}; {error}"}
            failed = result_of(run, [{"event": "failed", "time": time.time(), "error": what}])
            self._unwritten[run.key] = failed
            return failed

    def _progress(self, run: RunSpec) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.out / run.key / PROGRESS).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found


def _left_behind(run: RunSpec, folder: Path, code: int, how: str) -> Result:
    """Return the record of a run whose process has left none."""
    with suppress(UserError):  # a journal that is not there, or none
        events = read_journal(folder / JOURNAL)
        if events and events[-1]["event"] in ("completed", "failed"):
            return result_of(run, events)
    error = {"kind": "ProcessEnded", "message": f"{how}; run again to go on"}
    if code != -signal.SIGBUS:
        return ended(run, folder, "interrupted", error=error)
    # The end of a file that is cut while it is mapped shows zeros: what was kept may come of them.
    error["message"] = (
        f"{how}: a file was cut while it was read, such as the world's store; delete that, "
        "then run again to start over"
    )
    return ended(run, folder, "failed", error=error)


@contextmanager
def _without_working_directory() -> Iterator[None]:
    """Keep the server from finding modules in the working directory before ours."""
    wanted = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep a new process from running the caller's script or notebook again."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = before


def check_folder(out: Path) -> None:
    """Refuse a place for results that cannot be one."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file, expected a folder for results")
