"""Where numbers come from: versions of packages, and of this code."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pmn_cl import __version__

_PACKAGES = ("torch", "avalanche-lib", "numpy", "scikit-learn", "tensordict")
_ROOT = Path(__file__).parent.parent
_SOURCES = ("pmn_cl", "benchmarks", "strategies", "baselines")  # that may decide a weight
_LEFT_OUT = ("benchmarks/speed", "benchmarks/reference")


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    found = {"pmn-cl": __version__, "python": platform.python_version()}
    return found | {name: metadata.version(name) for name in _PACKAGES}


def code_revision() -> str | None:
    """Return the revision of this code, where it is a git checkout; "+" says it was changed."""
    here = Path(__file__).parent
    asked = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def code_digest(*kinds: type) -> str:
    """Return a digest of all sources that may decide what is learned, as they are now.

    Unlike a revision, it tells one uncommitted change from another. The files of ``kinds`` and of
    their bases count, too, where they are not ours: a module, task or strategy of a user's own.
    """
    whole = hashlib.sha256(own_code_digest(_ROOT).encode())
    modules = {base.__module__ for kind in kinds for base in kind.__mro__}
    for name in sorted(modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and name.split(".")[0] not in _SOURCES:
            whole.update(f"\0{name}\0".encode() + Path(file).read_bytes())
    return whole.hexdigest()


@functools.cache  # a process goes on with the code that it started with
def own_code_digest(root: Path) -> str:
    """Return a digest of our own sources in a folder."""
    whole = hashlib.sha256()
    for path in sorted(_sources(root)):
        with open(f"{root}/{path}", "rb") as file:  # paths of pathlib would take twice as long
            content = file.read()
        whole.update(f"\0{path}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def _sources(root: Path) -> Iterator[str]:
    """Yield the source files that may decide a weight, relative to the folder of the packages."""
    for package in _SOURCES:
        for folder, below, names in os.walk(root / package):
            relative = Path(folder).relative_to(root).as_posix()
            below[:] = [name for name in below if f"{relative}/{name}" not in _LEFT_OUT]
            yield from (f"{relative}/{name}" for name in names if name.endswith(".py"))
