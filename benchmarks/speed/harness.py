"""What `pmn-bench run` costs beside training and evaluation, on quick.yaml.

Overhead: seconds of processor time that go into journal, checkpoints, progress, digests, driver and
mirror, of all that the command takes. Workers: the same runs one at a time and two at a time.
Start: from the command to the first training step, and from the end of one run to the next's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from timing import report

_STREAM = "quick.yaml"


@contextmanager
def timed(spent: dict[str, float], owner: Any, name: str, part: str) -> Iterator[None]:
    """Add what a method takes, itself and not within another that is timed, to a part."""
    original = getattr(owner, name)

    def wrapped(*given: Any, **named: Any) -> Any:
        before, began = sum(spent.values()), time.process_time()
        try:
            return original(*given, **named)
        finally:
            inside = sum(spent.values()) - before
            spent[part] += time.process_time() - began - inside

    setattr(owner, name, wrapped)
    try:
        yield
    finally:
        setattr(owner, name, original)


def inside_runs(cache: Path, out: Path) -> tuple[dict[str, float], float]:
    """Carry the runs out in this process; return what keeping records took, and everything."""
    from pmn_cl import registry, runs
    from pmn_cl.checkpoints import Checkpoints
    from pmn_cl.journal import Journal
    from pmn_cl.running import plan
    from pmn_cl.worker import Progresses, finish

    spent: dict[str, float] = defaultdict(float)
    parts = [
        (Journal, "write", "journal"),
        (Checkpoints, "write", "checkpoints"),
        (runs.Keeper, "keep", "checkpoints"),
        (runs.Keeper, "after_step", "looking whether to keep or stop"),
        (Progresses, "__call__", "progress"),
        (registry.load("strategies.template:TaskTemplate"), "digest", "digests of weights"),
        (runs, "_facts", "facts of the run"),
    ]
    began = time.process_time()
    with ExitStack() as stack:
        for owner, name, part in parts:
            stack.enter_context(timed(spent, owner, name, part))
        for run in plan(_STREAM).runs:
            folder = out / run.key
            folder.mkdir(parents=True)
            finish(run, folder, cache, "cpu", 60.0, lambda: False)
    return spent, time.process_time() - began


def whole_command(cache: Path, out: Path, workers: int, **chosen: Any) -> tuple[float, float]:
    """Run the stream as the command does; return its seconds, and the driver's own on the CPU."""
    from pmn_cl.running import carry_through, plan

    planned = plan(_STREAM, out=out, workers=workers, **chosen)
    wall, cpu = time.monotonic(), time.process_time()
    outcome = carry_through(planned, Console(quiet=True), device="cpu", cache=cache)
    assert all(result.status == "completed" for result in outcome.results)
    return time.monotonic() - wall, time.process_time() - cpu


def starts(out: Path) -> list[tuple[float, float]]:
    """Return when each run began to learn and when it ended, in the order of time."""
    from pmn_cl.journal import read_journal

    events = [read_journal(path) for path in out.glob("*/journal.jsonl")]
    return sorted((some[0]["time"], some[-1]["time"]) for some in events)


def first_start(cache: Path, out: Path) -> float:
    """Return the seconds from the command in a shell to the first training step."""
    began = time.time()
    asked = ["--strategy", "hard_sharing", "--out", str(out), "--cache", str(cache)]
    command = [sys.executable, "-m", "pmn_cl.cli", "run", _STREAM, *asked]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return starts(out)[0][0] - began


def throughput_seconds(cache: Path, out: Path, workers: int) -> float:
    """Return how long six equal runs take, from the first one's start to the last one's end."""
    whole_command(cache, out, workers, strategies=["independent"], seeds=range(6))
    spans = starts(out)
    return max(end for _, end in spans) - spans[0][0]


def main(place: Path) -> bool:
    from benchmarks.stream import Stream
    from pmn_cl.spec import find_stream, load_spec

    cache = place / "cache"
    Stream.open(
        load_spec(find_stream(_STREAM)[0]), 0, cache=cache
    )  # building a world is no overhead
    first = first_start(cache, place / "first")
    alone, driver = whole_command(cache, place / "one", 1)
    waits = [after[0] - before[1] for before, after in pairwise(starts(place / "one"))]
    two, one = (throughput_seconds(cache, place / f"with {workers}", workers) for workers in (2, 1))
    spent, everything = inside_runs(cache, place / "inside")
    spent["driver and mirror in MLflow"] = driver
    for part, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {part:<34}{seconds:7.2f} CPU-s  {100 * seconds / (everything + driver):5.2f}%")
    share = sum(spent.values()) / (everything + driver)
    good = [
        report(
            "overhead of run",
            share,
            "at most 0.05",
            share <= 0.05,
            f"{everything:.0f} CPU-s of runs, {alone:.0f} s the command",
        ),
        report(
            "two workers against one",
            one / two,
            "at least 1.7",
            one / two >= 1.7,
            f"{one:.0f} s and {two:.0f} s",
        ),
        report("start of the first run, s", first, "under 20", first < 20, "from the shell"),
        report(
            "start of the next run, s",
            max(waits),
            "under 2",
            max(waits) < 2,
            f"{len(waits)} of them",
        ),
    ]
    return all(good)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with TemporaryDirectory() as place:
        sys.exit(not main(Path(place)))
