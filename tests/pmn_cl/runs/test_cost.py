"""What parts of a run cost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pmn_cl.runs.cost import Clock

LARGE = 200_000_000  # bytes


ALLOCATE = f"""
import json
import numpy as np
from pmn_cl.runs.cost import Clock

clock = Clock()
before = clock.spent()["peak"]
taken = np.ones({LARGE}, dtype=np.uint8)
del taken
clock.learned()
print(json.dumps({{"before": before, **clock.cost()}}))
"""


def test_each_phase_has_its_own_peak_of_memory() -> None:
    """In a process of its own: what other tests leave may be freed at any moment in this one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux forgets a peak")
    done = subprocess.run([sys.executable, "-c", ALLOCATE], capture_output=True, check=True)
    cost = json.loads(done.stdout)
    assert cost["learn_peak_bytes"] > cost["before"] + 0.9 * LARGE
    assert cost["evaluate_peak_bytes"] < cost["learn_peak_bytes"] - 0.9 * LARGE


def test_a_turn_that_was_cut_off_goes_on_from_what_it_had_cost() -> None:
    peak = 10**15
    clock = Clock({"seconds": 100.0, "cpu": 50.0, "peak": peak})
    clock.learned()
    cost = clock.cost()
    assert 100 <= cost["learn_seconds"] < 110 and cost["evaluate_seconds"] < 10
    assert 50 <= cost["cpu_seconds"] < 60
    assert cost["learn_peak_bytes"] == peak > cost["evaluate_peak_bytes"]
