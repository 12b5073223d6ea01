"""The server of MLflow's pages: where it listens. What it shows is for tests/browser to see."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pmn_cl.errors import UserError
from pmn_cl.mlflow_mirror.server import _SERVED, free_port, served_at


def test_a_folder_is_served_as_long_as_its_server_lives(tmp_path: Path) -> None:
    assert served_at(tmp_path) is None
    (tmp_path / "health").write_text("OK", "utf-8")
    port = free_port(0)
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as server:
        facts = {"address": f"http://127.0.0.1:{port}"}
        (tmp_path / _SERVED).write_text(json.dumps(facts), "utf-8")
        while (found := served_at(tmp_path)) is None and server.poll() is None:
            time.sleep(0.05)
        server.kill()
    assert found == facts["address"]
    assert served_at(tmp_path) is None
    (tmp_path / _SERVED).write_text("{", "utf-8")
    assert served_at(tmp_path) is None


def test_a_port_that_is_taken_is_refused_only_if_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {taken}: is taken"):
            free_port(taken)
        monkeypatch.setattr("pmn_cl.mlflow_mirror.server._PORT", taken)
        assert free_port(None) not in (taken, 0)
    assert free_port(taken) == taken
