"""Times two ways of doing one thing in turns, so that a noisy machine disturbs both alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple


class Comparison(NamedTuple):
    """Median seconds of both, and the median of the ratios of neighbouring turns."""

    ours: float
    plain: float
    ratio: float


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def compare(
    ours: Callable[[], object], plain: Callable[[], object], *, turns: int = 15
) -> Comparison:
    ours()  # once for the caches
    plain()
    pairs = []
    for turn in range(turns):  # who goes first alternates
        first, second = (ours, plain) if turn % 2 else (plain, ours)
        taken = (seconds(first), seconds(second))
        pairs.append(taken if turn % 2 else taken[::-1])
    return Comparison(
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def report(what: str, ratio: float, goal: str, reached: bool, details: str) -> bool:
    print(f"{what}: {ratio:.2f} (goal: {goal}) {'reached' if reached else 'MISSED'}; {details}")
    return reached
