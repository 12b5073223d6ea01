"""Building the digit world: scenes per second, and whether four times as many take four times."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from timing import report, seconds

from benchmarks.worlds.digit_scenes.world import DigitOptions, DigitScenes


def build(count: int, folder: Path) -> float:
    rest = {"val": 1, "test": 1, "novel": 1}
    options = DigitOptions.model_validate({"scenes": {"train": count, **rest}})
    return seconds(lambda: DigitScenes(options).prepare(folder))


def main(few: int = 10_000) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        build(10, Path(folder))  # imports and tables
        before = build(few, Path(folder))
        many = build(4 * few, Path(folder))
        after = build(few - 1, Path(folder))  # a machine that slows down must not count
    once = (before + after) / 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    details = (
        f"{few / once:.0f} scenes per second, then {4 * few / many:.0f}; peak memory {peak:.2f} GB"
    )
    what = f"building {4 * few:,} scenes / {few:,}"
    return report(what, many / once, "at most 4.4", many / once <= 4.4, details)


if __name__ == "__main__":
    sys.exit(not main())
