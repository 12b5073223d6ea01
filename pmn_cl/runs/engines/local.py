"""Runs as processes of this machine, forked from one server."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pmn_cl.config.spec import RunSpec
from pmn_cl.runs.engines.base import Ending
from pmn_cl.runs.worker import Terms, work

GRACE = 4.0  # seconds that a run has to stop in order
_SERVER = ("benchmarks.avalanche_stream", "strategies.loop", "pmn_cl.runs.worker")


class LocalEngine:
    """Processes of this machine, forked from one server."""

    def __init__(self) -> None:
        self._server = ForkServer()
        self._running: dict[int, tuple[Any, RunSpec]] = {}  # by sentinel

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *how: object) -> None:
        self.stop()

    def usual_workers(self, threads: int) -> int:
        """As many as there are cores for."""
        return max(1, len(os.sched_getaffinity(0)) // threads)

    def has_room(self, run: RunSpec) -> bool:
        """How many at a time is for the user to say."""
        return True

    def start(self, run: RunSpec, folder: Path, terms: Terms) -> None:
        """Begin a run in a fresh process."""
        process = self._server.start(run, folder, terms, [os.getpid()])
        self._running[process.sentinel] = process, run

    def ended(self, patience: float) -> list[Ending]:
        """Wait for a process to end."""
        over = wait(list(self._running), timeout=patience)
        return [self._ending(cast(int, sentinel)) for sentinel in over]

    def stop(self) -> list[Ending]:
        """Signal every process, and kill those that do not stop."""
        end_all([process for process, _ in self._running.values()])
        return [self._ending(sentinel) for sentinel in list(self._running)]

    def _ending(self, sentinel: int) -> Ending:
        process, run = self._running.pop(sentinel)
        process.join()
        return Ending.of(run, process.exitcode)


class ForkServer:
    """Starts processes from a server that has imported torch and Avalanche and done nothing else,
    so that only the first one waits for that.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")

    def warm_up(self) -> None:
        """Let the server import what it will need, without waiting for it."""
        self._context.set_forkserver_preload(list(_SERVER))
        with _without_working_directory(), _without_main(), _without_ctrl_c():
            forkserver.ensure_running()
        atexit.unregister(_end_server)
        atexit.register(_end_server)

    def start(
        self,
        run: RunSpec,
        folder: Path,
        terms: Terms,
        parents: Sequence[int],
        *,
        patience: float = 5.0,
        environment: Mapping[str, str] | None = None,
    ) -> Any:
        """Start the process of a run and return it."""
        self.warm_up()
        given = (environment or {}, run, folder, terms, tuple(parents), patience)
        process = self._context.Process(target=_work, args=given, name=run.key)
        try:
            with _without_working_directory(), _without_main():
                process.start()
        except BaseException:  # Ctrl-C, most likely: what nobody knows of must not go on
            _end_server()
            raise
        return process


def _work(environment: Mapping[str, str], *given: Any) -> None:
    os.environ.update(environment)
    work(*given)


def end_all(processes: Sequence[Any], grace: float = GRACE) -> None:
    """Signal processes to stop, and kill those that have not after some seconds."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C, which a terminal sends to all processes, from the server and all its runs.

    It would end the server in the middle of an import, with a traceback; runs are told by us.
    """
    resource_tracker.ensure_running()  # it would let Ctrl-C through again while it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_server() -> None:
    """End the server with us: it would first finish what it imports, with our terminal open."""
    server = getattr(forkserver, "_forkserver", None)
    process = getattr(server, "_forkserver_pid", None)
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


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
