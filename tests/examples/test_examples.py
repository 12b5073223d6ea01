"""The scripts in ``examples/`` run as they stand, on a world that is small enough for a test."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_an_avalanche_users_script_and_a_seventh_task(tmp_path: Path, cache: Path) -> None:
    """The script takes under 40 lines; the task and its module are one file beside the YAML."""
    script = EXAMPLES / "avalanche_pmn.py"
    assert len(script.read_text("utf-8").splitlines()) < 40
    shutil.copy(EXAMPLES / "largest.py", tmp_path)
    (tmp_path / "small.yaml").write_text(STREAM, "utf-8")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "small.yaml"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PMN_BENCH_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    starts = [" ".join(line.split()[:3]) for line in lines]
    assert starts[0] == "obj epoch 1:"  # the plugin's line
    assert [line.split()[0] for line in lines if "{" in line] == ["obj", "obj", "largest"]
    assert starts.count("largest epoch 1:") == starts.count("largest epoch 2:") == 1


@pytest.mark.parametrize("name", ["trace_question.py", "swap_object_module.py"])
def test_the_other_scripts_explain_themselves(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: one of their own would take seconds to import torch and Avalanche."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), "--help"])
    with pytest.raises(SystemExit) as ending:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert ending.value.code == 0
    [usage] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Usage: ")]
    assert usage.split()[1] == name and "MODULES" in usage
