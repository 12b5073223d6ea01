"""Goes through many runs, and leaves a result for each of them.

An engine carries them out. The driver says which are open, and writes no result of a run that is
alive.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pmn_cl.config.spec import RunSpec
from pmn_cl.errors import UserError
from pmn_cl.files import held, storing
from pmn_cl.results.folder import JOURNAL, PROGRESS, RESULT
from pmn_cl.results.result import Result, read_result, write_result
from pmn_cl.runs.engines.base import Ending, Engine
from pmn_cl.runs.engines.local import LocalEngine
from pmn_cl.runs.journal import read_journal
from pmn_cl.runs.plan import next_run
from pmn_cl.runs.record import result_of
from pmn_cl.runs.worker import Terms, ended, open_again

_LOOK_EVERY = 0.5  # seconds


class RunObserver(Protocol):
    """Follows how the runs go."""

    def begin(self, waiting: int) -> None:
        """Take how many runs are to be done; their folders are as they will find them."""

    def update(self, running: dict[str, dict[str, Any]], ended: list[Result]) -> None:
        """Take what each running one is at, by key, and which have just ended."""


@dataclass
class Driver:
    """Goes through runs with so many at a time."""

    out: Path
    workers: int = 1
    cache: Path | None = None
    device: str = "cpu"
    every: float = 60.0  # seconds between two states kept
    fresh: bool = False
    engine: Engine = field(default_factory=LocalEngine)
    interrupted: bool = field(default=False, init=False)
    _unwritten: dict[str, Result] = field(default_factory=dict, init=False)  # there was no room

    def run(self, runs: Sequence[RunSpec], observer: RunObserver | None = None) -> list[Result]:
        """Do what is not done yet; return all results in the order of the runs."""
        with storing(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
        with held(self.out, "the folder", patience=1.0):
            self._unwritten.clear()
            if not self.fresh:
                self._results(runs)  # what cannot be read is refused before anything is touched
            waiting = [run for run in runs if self._is_open(run)]
            if self.fresh:  # what they learned is learned again
                for modules in {Path(run.reuse) for run in runs if run.reuse is not None}:
                    with storing(modules):
                        self._move_away(modules)
            if observer is not None:
                observer.begin(len(waiting))
            if waiting:
                self._go_through(waiting, observer)
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
            return self._prepare(folder)

    def _prepare(self, folder: Path) -> bool:
        if self.fresh:
            self._move_away(folder)
            folder.mkdir(exist_ok=True)
        return open_again(folder)

    def _move_away(self, folder: Path) -> None:
        """Move a folder to those of earlier runs, if anything is in it."""
        if any(folder.glob("[!.]*")):
            earlier = self.out / "earlier"
            number = 1 + len(list(earlier.glob("*")))
            (earlier / str(number)).mkdir(parents=True)
            folder.rename(earlier / str(number) / folder.name)

    def _go_through(self, waiting: list[RunSpec], observer: RunObserver | None) -> None:
        engine, terms = self.engine, Terms(self.cache, self.device, self.every)
        running: dict[str, RunSpec] = {}
        with ExitStack() as until_the_end:
            try:
                until_the_end.enter_context(engine)
                while waiting or running:
                    while (run := self._next(waiting, running)) is not None:
                        waiting.remove(run)
                        engine.start(run, self.out / run.key, terms)
                        running[run.key] = run
                    over = engine.ended(_LOOK_EVERY)
                    ended = [self._ended(ending) for ending in over]
                    for ending in over:
                        del running[ending.run.key]
                    if observer is not None:
                        observer.update({key: self._progress(key) for key in running}, ended)
            except KeyboardInterrupt:
                self.interrupted = True
                ended = [self._ended(ending) for ending in engine.stop()]
                if observer is not None:  # those that were interrupted are counted in the end
                    observer.update({}, [r for r in ended if r.status != "interrupted"])

    def _next(self, waiting: list[RunSpec], running: dict[str, RunSpec]) -> RunSpec | None:
        """Return the run to start now, if there is one and room for it."""
        if not waiting or len(running) >= self.workers:
            return None
        run = next_run(waiting, running.values())
        return run if self.engine.has_room(run) else None

    def _ended(self, ending: Ending) -> Result:
        """Return the record of a run that has ended, also of one that could not write it."""
        run, folder = ending.run, self.out / ending.run.key
        try:
            if not (folder / RESULT).exists():
                write_result(_left_behind(ending, folder), folder)
            return read_result(folder / RESULT)
        except (OSError, UserError) as error:  # a full disk, most likely: the others go on
            what = {"kind": "ProcessEnded", "message": f"{ending.how}; {error}"}
            failed = result_of(run, [{"event": "failed", "time": time.time(), "error": what}])
            self._unwritten[run.key] = failed
            return failed

    def _progress(self, key: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.out / key / PROGRESS).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found


def _left_behind(ending: Ending, folder: Path) -> Result:
    """Return the record of a run whose process has left none."""
    run, how = ending.run, ending.how
    with suppress(UserError):  # a journal that is not there, or none
        events = read_journal(folder / JOURNAL)
        if events and events[-1]["event"] in ("completed", "failed"):
            return result_of(run, events)
    error = {"kind": "ProcessEnded", "message": f"{how}; run again to go on"}
    if ending.code != -signal.SIGBUS:
        return ended(run, folder, "interrupted", error=error)
    # The end of a file that is cut while it is mapped shows zeros: what was kept may come of them.
    error["message"] = (
        f"{how}: a file was cut while it was read, or its disk failed: such as the world's store; "
        "delete that, then run again to start over"
    )
    return ended(run, folder, "failed", error=error)


def check_folder(out: Path) -> None:
    """Refuse a place for results that cannot be one."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file, expected a folder for results")
