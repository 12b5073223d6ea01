"""The command line as tests call it: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import pmn_cl
from pmn_cl.cli.main import main

HOME = Path(pmn_cl.__file__).parent.parent
# A stream whose world is built in a moment; ``TINY_SCENES`` are its sizes.
TINY_SCENES = {"train": 12, "val": 4, "test": 6, "novel": 5}
STREAM = """\
name: tiny
world: {name: digits, scenes: {train: 12, val: 4, test: 6, novel: 5}}
tasks: [obj, att, {task: rel, calls: [obj]}, {task: cap, fraction: 50}, vqa]
strategies: [constant]
seeds: [0]
"""


def run(*arguments: str | Path) -> Result:
    """Run a command in this process; nothing but an exit may escape from it."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*arguments: str | Path) -> str:
    """Run a command that must refuse its input, and return its message."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


def run_fresh(*arguments: str | Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command, or some code, in a process of its own."""
    start = ["-c", code] if code else ["-m", "pmn_cl.cli.main"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
    )
