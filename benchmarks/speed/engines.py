"""What Ray costs beside processes of this machine, on 24 short runs, once both are under way.

From the first run's beginning to the last one's end, by their journals, with as many at a time:
what a run waits for between two others counts, starting Ray and importing torch does not. The
results must be the same. Both go three times, in turns.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from timing import report

_TINY = Path(__file__).parent.parent.parent / "tests" / "streams" / "tiny.yaml"
_SEEDS, _TURNS = range(8), 3


def seconds_of(out: Path, cache: Path, runs: list[Any], engine: Any) -> tuple[float, float]:
    """Return the seconds from the first beginning to the last end, and those before."""
    from pmn_cl.runs.driver import Driver
    from pmn_cl.runs.journal import read_journal

    began = monotonic()
    workers = len(os.sched_getaffinity(0))
    results = Driver(out, workers=workers, cache=cache, engine=engine).run(runs)
    whole = monotonic() - began
    assert [result.status for result in results] == ["completed"] * len(runs)
    events = [read_journal(path) for path in out.glob("*/journal.jsonl")]
    under_way = max(some[-1]["time"] for some in events) - min(some[0]["time"] for some in events)
    return under_way, whole - under_way


def weights(out: Path) -> list[list[str]]:
    from pmn_cl.results.result import read_results

    return [result.weights for result in read_results(out)]


def main(place: Path) -> bool:
    from benchmarks.stream import Stream
    from pmn_cl.config.stream import load_spec
    from pmn_cl.runs.engines.factory import make_engine
    from pmn_cl.runs.plan import plan_runs

    cache, spec = place / "cache", load_spec(_TINY)
    Stream.open(spec, 0, cache=cache)
    runs = plan_runs(spec, (), _SEEDS)
    names = ("local", "ray")
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(_TURNS):
        for name in names if turn % 2 else reversed(names):
            out = place / f"{name}-{turn}"
            spent[name].append(seconds_of(out, cache, runs, make_engine(name)))
            print(
                f"  {name:<6}{spent[name][-1][0]:6.1f} s, start and end {spent[name][-1][1]:.1f} s"
            )
    assert weights(place / "ray-0") == weights(place / "local-0")
    local, ray = (min(under_way for under_way, _ in spent[name]) for name in names)
    return report(
        f"Ray against local, {len(runs)} runs",
        ray / local,
        "at most 1.10",
        ray / local <= 1.1,
        f"{ray:.1f} s and {local:.1f} s, the better of {_TURNS} each",
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("RAY_ADDRESS", None)
    with TemporaryDirectory() as place:
        sys.exit(not main(Path(place)))
