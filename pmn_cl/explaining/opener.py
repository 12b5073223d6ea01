"""Opens a run for a command, and shows why that takes a while."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pmn_cl import registry
from pmn_cl.console import show_progress, status

if TYPE_CHECKING:
    from pmn_cl.explaining.explainer import Explainer


def open_explainer(folder: Path, run: str, cache: Path | None) -> Explainer:
    """Open a run with what it learned; modules of this folder are found, too."""
    with status("opening the run (importing torch takes some seconds)"):
        from pmn_cl.explaining.explainer import Explainer

        registry.search_last(Path.cwd())
    with show_progress("building the world") as progress:
        return Explainer(folder, run, cache=cache, progress=progress)
