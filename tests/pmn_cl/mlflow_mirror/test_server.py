"""The server of MLflow's pages: where it listens. What it shows is for tests/browser to see."""

from __future__ import annotations

import socket

import pytest

from pmn_cl.errors import UserError
from pmn_cl.mlflow_mirror.server import free_port


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
