"""Runs every speed benchmark in a process of its own; exits with 1 where a goal is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILES = (
    *("help_start.py", "stream_iteration.py", "store_reading.py", "world_building.py"),
    *("relation_folding.py", "memoised_children.py", "training_loop.py", "answer_step.py"),
    *("many_results.py", "report.py"),
    "harness.py",
)

if __name__ == "__main__":
    here = Path(__file__).parent
    codes = [subprocess.run([sys.executable, here / file]).returncode for file in FILES]
    sys.exit(any(codes))
