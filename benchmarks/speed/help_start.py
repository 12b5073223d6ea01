"""How long a person waits for ``pmn-bench --help``."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from timing import report, seconds


def main(limit: float = 0.1) -> bool:
    command = [str(Path(sys.executable).with_name("pmn-bench")), "--help"]

    def ask() -> None:
        subprocess.run(command, check=True, capture_output=True)

    def bare() -> None:
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    ask()
    waits = [seconds(ask) for _ in range(11)]
    wait, python = statistics.median(waits), statistics.median(seconds(bare) for _ in range(11))
    details = f"Python itself takes {python:.3f} s"
    return report("pmn-bench --help, seconds", wait, f"under {limit}", wait < limit, details)


if __name__ == "__main__":
    sys.exit(not main())
