"""A disk that is small enough to be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk_of(megabytes: int, folder: Path) -> Iterator[Path]:
    """Mount one at a folder, or skip the test where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk to fill")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
