"""What the parts of a run cost: seconds, and memory at its highest."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Clock:
    """What a phase of a run costs; one that was cut off goes on from what it had cost."""

    def __init__(self, spent: dict[str, float] | None = None) -> None:
        before = spent or {"seconds": 0.0, "cpu": 0.0, "peak": 0}
        self._began = time.monotonic() - before["seconds"]
        self._cpu = time.process_time() - before["cpu"]
        self._learned, self._learn_cpu = self._began, 0.0
        self._peak = self._peak_before = int(before.get("peak", 0))
        self._aside = (before.get("aside", 0.0), before.get("aside_cpu", 0.0))
        forget_peak()

    def spent(self) -> dict[str, float]:
        """Return what to go on from."""
        now, cpu = time.monotonic(), time.process_time()
        peak = max(self._peak_before, peak_bytes())
        seconds = {"seconds": round(now - self._began, 3), "cpu": round(cpu - self._cpu, 3)}
        aside = dict(zip(("aside", "aside_cpu"), self._aside, strict=True))
        return {**seconds, **aside, "peak": peak}

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Count what is done here as evaluation, though learning goes on."""
        began, cpu = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu
            self._aside = (self._aside[0] + seconds, self._aside[1] + cpu_seconds)

    def learning_cpu(self) -> float:
        """Return the seconds that learning has taken on the CPU by now."""
        return round(time.process_time() - self._cpu - self._aside[1], 3)

    def learned(self) -> None:
        """Mark where learning ends and evaluation begins."""
        self._learned = time.monotonic()
        self._learn_cpu = self.learning_cpu()
        self._peak = max(self._peak_before, peak_bytes())
        forget_peak()

    def learning(self) -> tuple[float, float, int]:
        """Return what learning took: seconds, those on the CPU, and bytes."""
        seconds = self._learned - self._began - self._aside[0]
        return round(seconds, 3), round(self._learn_cpu, 3), self._peak

    def count_instead(self, seconds: float, cpu: float, peak: int) -> None:
        """Let learning have taken this: what was learned elsewhere took nothing here."""
        self._cpu += self._learn_cpu - cpu
        self._began = self._learned - self._aside[0] - seconds
        self._learn_cpu, self._peak = cpu, peak

    def cost(self) -> dict[str, float]:
        """Return seconds and bytes by now."""
        seconds, _, peak = self.learning()
        return {
            "learn_seconds": seconds,
            "evaluate_seconds": round(time.monotonic() - self._learned + self._aside[0], 3),
            "cpu_seconds": round(time.process_time() - self._cpu, 3),
            "learn_peak_bytes": peak,
            "evaluate_peak_bytes": peak_bytes(),
        }


def peak_bytes() -> int:
    """Return the most memory that this process had since the peak was forgotten last.

    Where the system cannot forget it (anywhere but on Linux), since the process began.
    """
    try:
        lines = _STATUS.read_text("ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def forget_peak() -> None:
    """Let the peak be what the process has now."""
    try:
        _FORGET.write_text("5", "ascii")  # proc(5): resets the peak resident set size
    except OSError:
        return
