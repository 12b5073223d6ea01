"""What `pmn-bench run` costs beside training and evaluation, on quick.yaml.

Overhead: what journal, checkpoints, progress, digests, driver and mirror take, as a share of all
processor time, and as a share of the command's seconds with two workers on two cores, where what
the driver does while runs start costs nothing. Workers: equal runs one and two at a time.
Start: from the command to the first training step, and from the end of one run to the next's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

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
    from pmn_cl.runs import execute as runs
    from pmn_cl.runs.checkpoint import Checkpoints
    from pmn_cl.runs.journal import Journal
    from pmn_cl.runs.worker import Progresses, finish
    from pmn_cl.studies.request import RunRequest
    from pmn_cl.studies.run import plan_comparison
    from strategies.loop import TaskTemplate

    spent: dict[str, float] = defaultdict(float)
    parts = [
        (Journal, "write", "journal"),
        (Checkpoints, "write", "checkpoints"),
        (runs.Keeper, "keep", "checkpoints"),
        (runs.Keeper, "after_step", "looking whether to keep or stop"),
        (Progresses, "__call__", "progress"),
        (TaskTemplate, "digest", "digests of weights"),
        (runs, "_facts", "facts of the run"),
    ]
    began = time.process_time()
    with ExitStack() as stack:
        for owner, name, part in parts:
            stack.enter_context(timed(spent, owner, name, part))
        for run in plan_comparison(RunRequest(stream=_STREAM, out=out)).runs:
            folder = out / run.key
            folder.mkdir(parents=True)
            finish(run, folder, cache, "cpu", 60.0, lambda: False)
    return spent, time.process_time() - began


class Command(NamedTuple):
    """What a whole command took: seconds, and the driver's own on the CPU, of both in parts."""

    seconds: float
    cpu: float
    cpu_meanwhile: float  # from the first run's start to the last one's end
    closing: float  # seconds after the last run's end


def whole_command(cache: Path, out: Path, workers: int, **chosen: Any) -> Command:
    """Run the stream as the command does."""
    from pmn_cl.studies.conduct import carry_through
    from pmn_cl.studies.request import RunRequest
    from pmn_cl.studies.run import plan_comparison

    request = RunRequest(
        stream=_STREAM, out=out, workers=workers, device="cpu", cache=cache, **chosen
    )
    plan = plan_comparison(request)
    samples: list[tuple[float, float]] = []  # time, and CPU-seconds by then
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            samples.append((time.time(), time.process_time()))

    sampler = threading.Thread(target=sample)
    wall, cpu = time.time(), time.process_time()
    sampler.start()
    try:
        outcome = carry_through(plan, request, Console(quiet=True))
    finally:
        over.set()
        sampler.join()
    assert all(result.status == "completed" for result in outcome.results)
    first, last = starts(out)[0][0], max(end for _, end in starts(out))
    meanwhile = [spent for moment, spent in samples if first <= moment <= last]
    return Command(
        time.time() - wall,
        time.process_time() - cpu,
        meanwhile[-1] - meanwhile[0],
        time.time() - last,
    )


def starts(out: Path) -> list[tuple[float, float]]:
    """Return when each run began to learn and when it ended, in the order of time."""
    from pmn_cl.runs.journal import read_journal

    events = [read_journal(path) for path in out.glob("*/journal.jsonl")]
    return sorted((some[0]["time"], some[-1]["time"]) for some in events)


def first_start(cache: Path, out: Path) -> float:
    """Return the seconds from the command in a shell to the first training step."""
    began = time.time()
    asked = ["--strategy", "hard_sharing", "--out", str(out), "--cache", str(cache)]
    command = [sys.executable, "-m", "pmn_cl.cli.main", "run", _STREAM, *asked]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return starts(out)[0][0] - began


def throughput_seconds(cache: Path, out: Path, workers: int) -> float:
    """Return how long six equal runs take, from the first one's start to the last one's end."""
    whole_command(cache, out, workers, strategies=("independent",), seeds=tuple(range(6)))
    spans = starts(out)
    return max(end for _, end in spans) - spans[0][0]


def main(place: Path) -> bool:
    from benchmarks.stream import Stream
    from pmn_cl.config.stream import find_stream, load_spec

    cache = place / "cache"
    Stream.open(load_spec(find_stream(_STREAM)[0]), 0, cache=cache)  # building it is no overhead
    first = first_start(cache, place / "first")
    alone = whole_command(cache, place / "one", 1)
    waits = [after[0] - before[1] for before, after in pairwise(starts(place / "one"))]
    usual = whole_command(cache, place / "usual", 2)
    two, one = (throughput_seconds(cache, place / f"with {workers}", workers) for workers in (2, 1))
    spent, everything = inside_runs(cache, place / "inside")
    inside = sum(spent.values())
    spent["driver and mirror in MLflow"] = alone.cpu
    for part, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {part:<34}{seconds:7.2f} CPU-s  {100 * seconds / (everything + alone.cpu):5.2f}%")
    share = sum(spent.values()) / (everything + alone.cpu)
    print(f"  together {100 * share:.1f}% of all processor time")
    # Of the command's seconds on two cores: what runs and driver do meanwhile keeps both busy, the
    # end keeps one waiting, and a worker stands still between two runs.
    lost = (inside + usual.cpu_meanwhile + max(waits)) / 2 + usual.closing
    good = [
        report(
            "overhead of run",
            lost / usual.seconds,
            "at most 0.05",
            lost / usual.seconds <= 0.05,
            f"{lost:.1f} of {usual.seconds:.0f} s with two workers: {inside / 2:.1f} s in runs, "
            f"{usual.cpu_meanwhile / 2:.1f} s the driver, {usual.closing:.1f} s at the end",
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
