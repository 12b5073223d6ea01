"""MLflow's own pages on a folder of results: one light server, for this machine alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pmn_cl.errors import UserError
from pmn_cl.files import write_whole
from pmn_cl.mlflow_mirror.mirror import default_uri

_HOST = "127.0.0.1"  # results are nobody else's
_PORT = 5000
_SERVED = "mlflow-server.json"  # in the folder, while there is a server
_READY_WITHIN = 120.0  # seconds; 10 to 20 are usual


@contextmanager
def server(folder: Path, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Serve a folder's mirror; yield the address once it answers, and the process.

    Port 0 is any that is free; without one, it is the usual one if that is.
    """
    chosen = free_port(port)
    # One worker and no job runner: 0.4 GB instead of 2.2 (measured with MLflow 3.17).
    light = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", default_uri(folder)]
    command += ["--host", _HOST, "--port", str(chosen), "--workers", "1"]
    log = folder / "mlflow-server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, **light, "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # so that Ctrl-C reaches us alone, who end it in order
        )
    try:
        address = f"http://{_HOST}:{chosen}"
        _wait_until_ready(address, process, log)
        write_whole(folder / _SERVED, json.dumps({"address": address}))
        yield address, process
    finally:
        if served_at(folder) == f"http://{_HOST}:{chosen}":  # not another server's
            (folder / _SERVED).unlink(missing_ok=True)
        _end(process)


def served_at(folder: Path) -> str | None:
    """Return the address at which a server shows a folder now, if there is one."""
    try:
        address = str(json.loads((folder / _SERVED).read_text("utf-8"))["address"])
        with urllib.request.urlopen(f"{address}/health", timeout=1):
            return address
    except (OSError, ValueError, KeyError, TypeError):  # none, or one that was killed
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it has started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
            return


def free_port(wanted: int | None) -> int:
    """Return the port that was asked for, or the usual one, or, where that is taken, any."""
    for port in (_PORT if wanted is None else wanted, 0):
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                if wanted is not None:
                    raise UserError(f"--port {wanted}: is taken; without it, any is") from None
            else:
                return int(probe.getsockname()[1])
    raise UserError("no port is free on this machine")


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise UserError(f"MLflow's server ended with {process.returncode}; see {log}")
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise UserError(f"MLflow's server does not answer at {address}; see {log}")
