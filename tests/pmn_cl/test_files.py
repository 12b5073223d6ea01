"""A folder is held by one process at a time, and waiting for it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from pmn_cl.errors import UserError
from pmn_cl.files import held


def test_a_second_holder_waits_and_then_names_the_first(tmp_path: Path) -> None:
    waited: list[None] = []
    with (
        held(tmp_path, "the folder"),
        pytest.raises(UserError, match=f"the folder is in use by process {os.getpid()} on"),
        held(tmp_path, "the folder", patience=0.1, waiting=lambda: waited.append(None)),
    ):
        pass
    assert waited
    with held(tmp_path, "the folder", patience=0):  # released
        pass


def test_a_file_system_without_locks_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(UserError, match="has no locks: No locks available"),
        held(tmp_path, "the folder", patience=float("inf")),
    ):
        pass
