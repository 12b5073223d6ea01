"""Runs on a Ray cluster: on one that is there, by its address, or on one for this command alone.

Ray says where there is room, and a task of its holds that room. But Ray's workers are used again,
with whatever torch has left in them, so the task asks its node's fork server for a fresh process,
as on one machine. What a run writes goes straight into the driver's folder where its node sees
that, and is carried home where it does not. A run whose worker or node was lost begins anew
elsewhere, from the last state that came home.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pmn_cl.data.store import Store
from pmn_cl.data.world import cache_folder
from pmn_cl.errors import UserError
from pmn_cl.files import storing
from pmn_cl.results.folder import RESULT
from pmn_cl.runs.engines.base import Ending
from pmn_cl.runs.engines.local import GRACE
from pmn_cl.runs.engines.ray_node import (
    ATTEMPT,
    Done,
    Home,
    Job,
    Node,
    Prepared,
    carry_out,
    code_here,
)
from pmn_cl.runs.plan import RunSpec
from pmn_cl.runs.worker import Terms

_log = logging.getLogger(__name__)


@dataclass
class _Attempt:
    """A run that was handed to Ray, and how often."""

    run: RunSpec
    folder: Path
    terms: Terms
    name: str = ""
    number: int = 0


class RayEngine:
    """Tasks of a Ray cluster."""

    def __init__(
        self,
        address: str | None = None,
        *,
        gpus: float = 0.0,
        patience: float = 120.0,
        retries: int = 3,
        share: bool = True,
    ) -> None:
        """``patience``: seconds without room for a single run; ``share``: use what nodes see."""
        self._address = address or os.environ.get("RAY_ADDRESS") or "local"
        self._gpus, self._patience, self._retries = gpus, patience, retries
        self._share = share
        self._running: dict[Any, _Attempt] = {}
        self._nodes: dict[str, Any] = {}
        self._worlds: dict[Path, Prepared] = {}
        self._session = ""
        self._home: Any = None
        self._began_here = False
        self._moved = 0.0  # when something last began from nothing, or ended

    def __enter__(self) -> RayEngine:
        self._began_here = not ray.is_initialized()
        if self._began_here:
            _connect(self._address)
        self._session = f"pmn-bench-{uuid4().hex[:8]}"
        here = ray.get_runtime_context().get_node_id()
        self._home = _pinned(Home, here).remote()
        self._greet()
        return self

    def __exit__(self, *how: object) -> None:
        self.stop()
        for actor in filter(None, (*self._nodes.values(), self._home)):
            ray.kill(actor)
        self._nodes, self._home = {}, None
        if self._began_here:
            ray.shutdown()

    def usual_workers(self, threads: int) -> int:
        """As many as there is room for, which is known when the cluster is."""
        return sys.maxsize

    def has_room(self, run: RunSpec) -> bool:
        """Whether a node could take it; one is always asked for, since clusters may grow."""
        room = sum(self._fit(run, node["Resources"]) for node in _alive_nodes())
        if not room and self._began_here and self._address == "local":
            raise UserError(f"{self._no_room(run)}; this machine has no more to give")
        return len(self._running) < max(1, room)

    def _fit(self, run: RunSpec, resources: dict[str, float]) -> int:
        """Return how many such runs a node with these resources takes."""
        fit = int(resources.get("CPU", 0) // run.stream.threads)
        return min(fit, int(resources.get("GPU", 0) / self._gpus)) if self._gpus else fit

    def start(self, run: RunSpec, folder: Path, terms: Terms) -> None:
        """Hand a run to Ray."""
        if terms.device.startswith("cuda") and not self._gpus:
            raise UserError(f"--device {terms.device} on Ray: ask for GPUs, such as --gpus 1")
        if not self._running:
            self._moved = time.monotonic()
        cache = cache_folder(terms.cache).absolute()
        self._submit(_Attempt(run, folder.absolute(), replace(terms, cache=cache)))

    def _submit(self, attempt: _Attempt) -> None:
        self._greet()
        attempt.name, attempt.number = uuid4().hex, attempt.number + 1
        with storing(attempt.folder):
            (attempt.folder / ATTEMPT).write_text(attempt.name, "utf-8")
        job = Job(
            attempt.run,
            attempt.folder,
            attempt.terms,
            attempt.name,
            self._world(attempt.run, attempt.terms),
            self._share,
            self._session,
            self._home,
            [entry for entry in sys.path if entry],
            code_here(),
        )
        task = ray.remote(carry_out).options(
            name=attempt.run.key,
            num_cpus=attempt.run.stream.threads,
            num_gpus=self._gpus,
            max_retries=0,  # by us: the next attempt goes on from what came home
        )
        self._running[task.remote(job)] = attempt

    def _greet(self) -> None:
        """See to it that every node has a fork server."""
        for node in _alive_nodes():
            name = node["NodeID"]
            if name not in self._nodes:
                options = {"name": f"{self._session}-{name}", "max_restarts": 3}
                path = [entry for entry in sys.path if entry]
                self._nodes[name] = _pinned(Node, name, **options).remote(path)

    def _world(self, run: RunSpec, terms: Terms) -> Prepared | None:
        path = run.stream.make_world().path(terms.cache)
        if path not in self._worlds and path.is_file():
            self._worlds[path] = Prepared(path, Store(path).digest, path.stat().st_size)
        return self._worlds.get(path)

    def ended(self, patience: float) -> list[Ending]:
        """Wait for a task to end; begin those anew that were lost."""
        if not self._running:
            return []
        over, _ = ray.wait(list(self._running), timeout=patience)
        if over:
            self._moved = time.monotonic()
        elif time.monotonic() > self._moved + self._patience:
            self._check_that_some_have_begun()
        return [ending for task in over if (ending := self._ending(task)) is not None]

    def _check_that_some_have_begun(self) -> None:
        begun = ray.get(self._home.begun.remote())
        if not any(attempt.name in begun for attempt in self._running.values()):
            run = next(iter(self._running.values())).run
            raise UserError(
                f"{self._no_room(run)}, for {self._patience:.0f} s; wait until others are done, "
                "ask for less (`threads` in the stream, --gpus), or wait longer with --ray-timeout"
            )
        self._moved = time.monotonic()

    def _no_room(self, run: RunSpec) -> str:
        asked = f"{run.stream.threads} CPU" + (f" and {self._gpus:g} GPU" if self._gpus else "")
        free, whole = ray.available_resources(), ray.cluster_resources()
        has = ", ".join(f"{free.get(k, 0):g} of {whole.get(k, 0):g} {k}" for k in ("CPU", "GPU"))
        nodes = len(_alive_nodes())
        return f"Ray has no room for a run that asks for {asked}: free are {has} on {nodes} nodes"

    def _ending(self, task: Any, *, last: bool = False) -> Ending | None:
        """Return how a task ended; none of one that was lost and has begun anew."""
        attempt, code = self._running.pop(task), 1
        try:
            done: Done = ray.get(task)
        except RayTaskError as error:
            cause = _root(error)
            lost, how = isinstance(cause, RayError), _in_short(cause)  # of what it asked for help
        except RayError as error:
            lost, how = True, "stopped before it began" if last else _in_short(error)
        else:
            code, how = done.code, Ending.of(attempt.run, done.code).how
            lost = code == -signal.SIGKILL  # not by us: its node's memory was full, most likely
            _await_record(attempt.folder, done.recorded)
        if lost and not last and attempt.number <= self._retries:
            _log.warning("%s was lost and begins anew (%s)", attempt.run.key, how)
            self._submit(attempt)
            return None
        return self._closed(attempt, code, how)

    def _closed(self, attempt: _Attempt, code: int, how: str) -> Ending:
        with suppress(OSError):
            (attempt.folder / ATTEMPT).unlink()
        return Ending(attempt.run, code, how)

    def stop(self) -> list[Ending]:
        """Tell the runs on all nodes, and give up those of which nothing is heard."""
        if not self._running:
            return []
        deadline = time.monotonic() + GRACE
        for node in self._nodes.values():
            node.stop.remote()
        with suppress(RayError):
            begun = ray.get(self._home.begun.remote(), timeout=GRACE / 2)
            for task, attempt in self._running.items():
                if attempt.name not in begun:
                    ray.cancel(task)
        left = max(0.0, deadline - time.monotonic())
        over, late = ray.wait(list(self._running), num_returns=len(self._running), timeout=left)
        for task in late:
            ray.cancel(task, force=True)
        if late:
            for node in self._nodes.values():
                node.kill.remote()
            ray.wait(late, num_returns=len(late), timeout=0.5)
        endings = [self._ending(task, last=True) for task in over]
        endings += [
            self._closed(self._running.pop(task), 1, "did not stop in time") for task in late
        ]
        return [ending for ending in endings if ending is not None]


def _connect(address: str) -> None:
    """Join a cluster, or start one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cores = len(os.sched_getaffinity(0))
        ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
        return
    advice = "name a machine of a cluster as HOST:PORT, or leave the address out for one of its own"
    if address.startswith("ray://"):
        raise UserError(
            f"Ray at {address}: this is a client's address, expected HOST:PORT: {advice}"
        )
    host, _, port = address.rpartition(":")
    try:
        if host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"Ray at {address}: no answer ({_in_short(error)}); {advice}") from None


def _pinned(kind: type, node: str, **options: Any) -> Any:
    """Return a kind of actor that lives on a node and takes no room there."""
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(kind).options(num_cpus=0, scheduling_strategy=where, **options)


def _alive_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _root(error: BaseException) -> BaseException:
    """Return what went wrong in a task, or in what the task had asked."""
    while isinstance(error, RayTaskError):
        error = error.cause
    return error


def _in_short(error: BaseException) -> str:
    """Return what the user must know of an error; Ray's tell long stories."""
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, UserError) else f"{type(error).__name__}: {first}"


def _await_record(folder: Path, recorded: bool) -> None:
    """Wait until this machine sees what a node has seen: network file systems are in no hurry."""
    deadline = time.monotonic() + 90
    with suppress(OSError):  # the folder may be gone for all
        while recorded and RESULT not in os.listdir(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
