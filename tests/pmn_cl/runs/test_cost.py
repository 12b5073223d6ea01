"""What parts of a run cost."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from pmn_cl.runs.cost import Clock

LARGE = 200_000_000  # bytes


def test_each_phase_has_its_own_peak_of_memory() -> None:
    """In a process of its own: what other tests leave may be freed at any moment in this one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux forgets a peak")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        before, cost = process.submit(_cost_of_much_memory).result()
    assert cost["learn_peak_bytes"] > before + 0.9 * LARGE
    assert cost["evaluate_peak_bytes"] < cost["learn_peak_bytes"] - 0.9 * LARGE


def _cost_of_much_memory() -> tuple[float, dict[str, float]]:
    clock = Clock()
    before = clock.spent()["peak"]
    taken = np.ones(LARGE, dtype=np.uint8)
    assert taken[-1] == 1
    del taken
    clock.learned()
    return before, clock.cost()


def test_a_turn_that_was_cut_off_goes_on_from_what_it_had_cost() -> None:
    peak = 10**15
    clock = Clock({"seconds": 100.0, "cpu": 50.0, "peak": peak})
    clock.learned()
    cost = clock.cost()
    assert 100 <= cost["learn_seconds"] < 110 and cost["evaluate_seconds"] < 10
    assert 50 <= cost["cpu_seconds"] < 60
    assert cost["learn_peak_bytes"] == peak > cost["evaluate_peak_bytes"]
