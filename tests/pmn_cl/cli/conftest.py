"""Commands run in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each command in an empty folder, and leave the path as it was."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path / "default cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
