"""The scripts in ``examples/`` run as they stand, on a world that is small enough for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pmn_cl

ROOT = Path(pmn_cl.__file__).parent.parent
EXAMPLES = ROOT / "examples"
STREAM = """
name: small
world: {name: digits, scenes: {train: 128, val: 20, test: 20, novel: 20}}
tasks:
  - obj
  - {task: "largest:LargestTask", calls: [obj]}
strategies:
  - name: pmn
    modules: {largest: "largest:LargestModule"}
    training:
      obj: {epochs: 1}
      largest: {learning_rate: 0.01, batch_size: 64, epochs: 2}
seeds: [0]
"""


def run(*command: str | Path, cache: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PMN_BENCH_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_avalanche_users_script_and_a_seventh_task(tmp_path: Path, cache: Path) -> None:
    """The script takes under 40 lines; the task and its module are one file beside the YAML."""
    script = EXAMPLES / "avalanche_pmn.py"
    assert len(script.read_text("utf-8").splitlines()) < 40
    shutil.copy(EXAMPLES / "largest.py", tmp_path)
    (tmp_path / "small.yaml").write_text(STREAM, "utf-8")
    lines = run(script, tmp_path / "small.yaml", cache=cache)
    starts = [" ".join(line.split()[:3]) for line in lines]
    assert starts[0] == "obj epoch 1:"  # the plugin's line
    assert [line.split()[0] for line in lines if "{" in line] == ["obj", "obj", "largest"]
    assert starts.count("largest epoch 1:") == starts.count("largest epoch 2:") == 1


def test_the_other_scripts_explain_themselves(cache: Path) -> None:
    """Both in one process, which imports torch and Avalanche once."""
    code = """
import runpy, sys
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert end.code == 0
"""
    scripts = [EXAMPLES / name for name in ("trace_question.py", "swap_object_module.py")]
    told = run("-c", code, *scripts, cache=cache)
    usage = [line for line in told if line.startswith("Usage: ")]
    assert [line.split()[1] for line in usage] == [script.name for script in scripts]
    assert all("MODULES" in line for line in usage)
