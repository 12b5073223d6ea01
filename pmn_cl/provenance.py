"""Where numbers come from: versions of packages, and of this code."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

from pmn_cl import __version__

_PACKAGES = ("torch", "avalanche-lib", "numpy", "scikit-learn", "tensordict")


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
