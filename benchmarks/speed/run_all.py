"""Runs every speed benchmark in a process of its own; exits with 1 where a goal is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMANDS = (
    *("help_start.py", "stream_iteration.py", "store_reading.py", "world_building.py"),
    *("relation_folding.py", "memoised_children.py", "training_loop.py", "answer_step.py"),
    *("scene_batches.py", "recurrent.py", "continual.py"),
    *("many_results.py", "report.py"),
    "feature_batches.py --scenes 10000",  # parts of their full sizes
    "prepare_features.py --images 4000",
    "prepare_annotations.py 5000",
    "harness.py",
)

if __name__ == "__main__":
    here = Path(__file__).parent
    codes = []
    for command in COMMANDS:
        file, *options = command.split()
        codes.append(subprocess.run([sys.executable, here / file, *options]).returncode)
    sys.exit(any(codes))
