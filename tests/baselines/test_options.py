"""The options of the baselines: a stream is checked with them, before anything learns."""

from __future__ import annotations

import subprocess
import sys


def test_they_need_no_torch() -> None:
    code = "import sys, baselines.options; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
