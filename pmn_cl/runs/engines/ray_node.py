"""What Ray does on the nodes of a cluster for ``pmn_cl.runs.engines.ray``: carry out one run.

A task holds the room of a run and asks its node's fork server for the process. Where the node sees
neither the driver's folder nor its world, the task copies what is needed and carries home what
comes of it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayActorError

from pmn_cl.config.names import make_world
from pmn_cl.config.spec import RunSpec
from pmn_cl.data.store import Store
from pmn_cl.data.world import cache_folder
from pmn_cl.errors import UserError
from pmn_cl.files import held, storing
from pmn_cl.provenance import code_revision, versions
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.runs.checkpoint import CHECKPOINT
from pmn_cl.runs.engines.local import ForkServer
from pmn_cl.runs.worker import Terms

ATTEMPT = ".attempt"  # a file in a run's folder that says who may write there
_BLOCK = 1 << 26  # bytes of a world in one message
# The record last, and no state before the journal knows of it: what is there is always of use.
_WRITTEN = {JOURNAL: 0, CHECKPOINT: 2, RESULT: 3}
_OTHERS = 1


class Prepared(NamedTuple):
    """A world's store on the driver's machine."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True)
class Job:
    """What a task needs to know."""

    run: RunSpec
    folder: Path  # the driver's
    terms: Terms
    attempt: str
    world: Prepared | None  # None: not built yet, and the run will
    share: bool
    session: str
    home: Any
    path: list[str]  # where the driver finds modules
    code: dict[str, str | None]


class Done(NamedTuple):
    """How a run ended on its node."""

    code: int
    recorded: bool  # whether its node saw a record


@functools.cache
def code_here() -> dict[str, str | None]:
    """Return what results depend on beside the spec."""
    return {**versions(), "revision": code_revision()}


class Home:
    """On the driver's machine: gives what nodes lack, and takes what runs have written."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def begin(self, attempt: str) -> None:
        """Note that an attempt has found room."""
        self._begun.add(attempt)

    def begun(self) -> set[str]:
        """Return which attempts have found room."""
        return self._begun

    def read(self, path: Path, start: int) -> bytes:
        """Return a block of a file."""
        with path.open("rb") as file:
            file.seek(start)
            return file.read(_BLOCK)

    def state(self, folder: Path) -> dict[str, bytes]:
        """Return the files of a run, to go on from."""
        return {name: (folder / name).read_bytes() for name in _files(folder)}

    def take(self, job: Job, folder: Path, files: dict[str, bytes | None]) -> None:
        """Put files of a run into a folder; without content, remove them."""
        if not _may_write(job):
            raise UserError(f"{job.folder}: another attempt at this run has begun")
        with storing(folder):
            for name in sorted(files, key=_turn):
                _put(folder / name, files[name])


class Node:
    """On every node: forks a fresh process for each run."""

    def __init__(self, path: Sequence[str]) -> None:
        _search(path)
        self._server = ForkServer()
        self._server.warm_up()
        self._one_at_a_time = asyncio.Lock()
        self._processes: dict[str, Any] = {}
        self._closed = False

    async def start(
        self, run: RunSpec, folder: Path, terms: Terms, task: int, environment: dict[str, str]
    ) -> None:
        """Start a run for a task of this node: it goes on as long as both of us do."""
        async with self._one_at_a_time:
            if self._closed:
                raise UserError("stopped before it began")
            self._processes[run.key] = await asyncio.to_thread(
                self._server.start,
                run,
                folder,
                terms,
                [os.getpid(), task],
                patience=60.0,  # one whose task was lost may hold the folder still
                environment=environment,
            )
        if self._closed:
            self._processes[run.key].terminate()

    async def wait(self, key: str, patience: float) -> int | None:
        """Return the exit code of a run; none if it still goes on after so many seconds."""
        process, over = self._processes[key], asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(process.sentinel, over.set)
        try:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(over.wait(), patience)
        finally:
            loop.remove_reader(process.sentinel)
        code: int | None = process.exitcode
        if code is not None and self._processes.get(key) is process:
            del self._processes[key]
        return code

    async def stop(self) -> None:
        """Signal every run to keep its state and end."""
        self._closed = True
        for process in self._processes.values():
            process.terminate()

    async def kill(self, key: str = "") -> None:
        """End a run, or all, at once."""
        for name, process in self._processes.items():
            if key in ("", name):
                process.kill()


def carry_out(job: Job) -> Done:
    """Have a run done on the node of this task."""
    job.home.begin.remote(job.attempt)
    _search(job.path)
    _check_code(job)
    terms = replace(job.terms, cache=_cache_here(job))
    with _workplace(job) as place:
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, ray.get_gpu_ids()))}
        given = (place.run, place.folder, terms, os.getpid(), visible)
        node = _start_here(job.session, *given)
        try:
            pause = place.carry()
            while (code := _answer(node.wait.remote(job.run.key, pause))) is None:
                pause = place.carry()
            place.carry()
        except BaseException:
            node.kill.remote(job.run.key)
            raise
        return Done(code, (place.folder / RESULT).exists())


def _answer(reference: Any) -> Any:
    """Wait for an actor's answer in a thread of its own.

    While a task itself waits, Ray gives its cores to others: nodes had more runs than room.
    """
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        return pool.submit(ray.get, reference).result()
    finally:
        pool.shutdown(wait=False)


def _search(path: Sequence[str]) -> None:
    """Find modules where the driver does, after those of this node."""
    sys.path.extend(entry for entry in path if entry not in sys.path)


def _check_code(job: Job) -> None:
    """Refuse a node whose results would not be those of the driver's machine."""
    here = code_here()
    other = {k: (here.get(k), v) for k, v in job.code.items() if v and here.get(k) not in (v, None)}
    if (
        job.world
        and make_world(job.run.stream.world).path(job.terms.cache).name != job.world.path.name
    ):
        other["the world's code"] = ("other", "the driver's")
    if other:
        said = "; ".join(
            f"{name}: {mine}, expected {theirs}" for name, (mine, theirs) in other.items()
        )
        raise UserError(f"the node {socket.gethostname()} would give other results: {said}")


def _start_here(session: str, *given: Any, patience: float = 60.0) -> Any:
    """Start a run at the fork server of this node, which the driver sets up, and return that."""
    name = f"{session}-{ray.get_runtime_context().get_node_id()}"
    deadline = time.monotonic() + patience
    while True:
        try:
            node = ray.get_actor(name)
            _answer(node.start.remote(*given))
            return node
        except (ValueError, RayActorError):  # not there yet, or on its way back
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _cache_here(job: Job) -> Path | None:
    """Return a folder of this node that has the world, which is copied there if need be."""
    if job.world is None or (job.share and _is_store(job.world.path, job.world.digest)):
        return job.terms.cache
    folder = cache_folder() / "copies" / job.world.digest[:16]
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with held(folder, "the copy of a world", patience=3600):
        path = folder / job.world.path.name
        if not _is_store(path, job.world.digest):
            _copy_store(job, path)
    return folder


def _is_store(path: Path, digest: str) -> bool:
    try:
        found = path.stat()
        return _digest(path, found.st_mtime_ns, found.st_size) == digest
    except (OSError, UserError):
        return False


@functools.lru_cache(maxsize=16)
def _digest(path: Path, *stamp: int) -> str:
    """Return a store's digest; opening one takes a while, and every run of a node asks."""
    return Store(path).digest


def _copy_store(job: Job, path: Path) -> None:
    """Copy the world's store to this node, whole or not at all."""
    assert job.world is not None
    partial = path.with_name(f".{path.name}.partial")
    with storing(path), partial.open("wb") as file:
        for start in range(0, job.world.size, _BLOCK):
            file.write(_answer(job.home.read.remote(job.world.path, start)))
        file.flush()
        os.fsync(file.fileno())
    if not _is_store(partial, job.world.digest) or not Store(partial).verify():
        raise UserError(f"{path}: the copy of {job.world.path} is not like it; run again")
    partial.replace(path)


@dataclass(frozen=True)
class _Workplace:
    """Where a run works on its node, and what is to be carried home from there."""

    run: RunSpec
    folder: Path
    carriers: Sequence[_Carrier] = ()  # none, where the node sees the driver's folder

    def carry(self) -> float:
        """Carry home what is new; return how many seconds to wait before the next time."""
        began = time.monotonic()
        for carrier in self.carriers:
            carrier.carry()
        spent = time.monotonic() - began
        return max(1.0, 10 * spent) if self.carriers else 60.0


@contextmanager
def _workplace(job: Job) -> Iterator[_Workplace]:
    """Offer the driver's folder where this node sees it, else one whose files are carried home."""
    if job.share and _may_write(job):
        yield _Workplace(job.run, job.folder)
        return
    with tempfile.TemporaryDirectory(prefix="pmn-bench-", ignore_cleanup_errors=True) as place:
        folder, modules = Path(place) / job.run.key, Path(place) / "modules"
        carriers = [_Carrier(job, folder, job.folder)]
        if job.run.reuse is not None:  # named by what they were learned from: the same everywhere
            carriers.insert(0, _Carrier(job, modules, Path(job.run.reuse)))
        reuse = None if job.run.reuse is None else str(modules)
        yield _Workplace(job.run.model_copy(update={"reuse": reuse}), folder, carriers)


class _Carrier:
    """Fetches the files of a folder at home, and carries back what becomes of them."""

    def __init__(self, job: Job, here: Path, home: Path) -> None:
        self._job, self._here, self._home = job, here, home
        here.mkdir()
        for name, content in _answer(job.home.state.remote(home)).items():
            _put(here / name, content)
        self._known = self._stamps()

    def carry(self) -> None:
        """Send what is new, and say what is gone."""
        stamps = self._stamps()
        new = {name for name, stamp in stamps.items() if self._known.get(name) != stamp}
        found: dict[str, bytes | None] = dict.fromkeys(self._known.keys() - stamps.keys())
        # In the order against that of writing: the journal is never older than the state.
        for name in sorted(new, key=_turn, reverse=True):
            with suppress(FileNotFoundError):
                found[name] = (self._here / name).read_bytes()
        if found:
            _answer(self._job.home.take.remote(self._job, self._home, found))
        self._known = stamps

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name in _files(self._here):
            with suppress(FileNotFoundError):
                found = (self._here / name).stat()
                stamps[name] = found.st_mtime_ns, found.st_size
        return stamps


def _may_write(job: Job) -> bool:
    """Whether a run's folder is there and waits for this attempt."""
    try:
        return (job.folder / ATTEMPT).read_text("utf-8") == job.attempt
    except OSError:
        return False


def _files(folder: Path) -> list[str]:
    """Return the names of all files of a run but those that are half written, or ours."""
    paths = (path.relative_to(folder) for path in folder.rglob("[!.]*") if path.is_file())
    return [str(path) for path in paths if path.suffix != ".partial"]


def _turn(name: str) -> int:
    return _WRITTEN.get(name, _OTHERS)


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
