"""The report of 1,000 results: seconds from the shell and megabytes of the page.

One real record of a run through all six tasks stands for all of them, under other names and seeds
and with other scores: half are runs of ten strategies, a quarter a sweep, a quarter an ablation.
The goal is of seconds waited for; those of the processor are printed beside them, since on a busy
machine the two are far apart. `--profile` shows where the time goes.
"""

from __future__ import annotations

import cProfile
import pstats
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from many_results import real_record
from timing import report, seconds

_TURNS = 3
_EPOCHS, _KINDS = 20, ("", ", yes/no", ", number", ", other")
_OTHERS = ("hard_sharing", "hard_sharing_joint", "independent", "pnn", "multinet", "ewc", "si")


def settings() -> Iterator[dict[str, Any]]:
    """Yield what tells 1,000 results apart."""
    from pmn_cl.results.paper import FRACTIONS
    from pmn_cl.studies.ablation import RUNGS

    names = ["pmn", *_OTHERS, "mas", "lwf"]
    yield from ({"strategy": name, "seed": seed} for name in names for seed in range(50))
    for name in ("pmn", "independent"):
        for fraction in FRACTIONS:
            for seed in range(20):
                swept = {"variant": "low-data", "study": "sweep", "fraction": fraction}
                yield {"strategy": name, "seed": seed, **swept}
    for rung in list(RUNGS)[:26]:
        yield from (
            {"strategy": "pmn", "seed": n, "variant": rung, "study": "ablate", "rung": rung}
            for n in range(10)
        )


def run_of(record: dict[str, Any], strategy: str, seed: int, **given: Any) -> dict[str, Any]:
    """Return the run of a record with another strategy, seed, study or fraction."""
    run = {**record["run"], "seed": seed}
    run |= {name: given[name] for name in ("study", "rung") if name in given}
    own = {"name": strategy, "variant": given.get("variant", "")}
    run["strategy"] = {**run["strategy"], **own}
    fraction = given.get("fraction", run["stream"]["fraction"])
    run["stream"] = {**run["stream"], "fraction": fraction}
    return run


def write_all(record: dict[str, Any], out: Path) -> int:
    """Write the results, each with scores, curves and gates of its own."""
    from pmn_cl.results.result import Result, write_result

    rng, count = random.Random(0), 0
    for count, given in enumerate(settings(), start=1):
        level = rng.uniform(0.8, 1.0)
        scores = {
            split: [[v and v * level * rng.uniform(0.9, 1.0) for v in row] for row in rows]
            for split, rows in record["scores"].items()
        }
        curves = {
            task: [
                {"step": 50 * n, "loss": 1.0 / n, "score": level * n / _EPOCHS}
                for n in range(1, _EPOCHS + 1)
            ]
            for task in record["tasks"]
        }
        changed = {**record, "run": run_of(record, **given), "scores": scores, "curves": curves}
        changed["key"] = f"run{count}"
        result = Result.model_validate(changed)
        for split in result.secondary:
            gates = {f"gate {m}{kind}": level / 3 for m in record["tasks"] for kind in _KINDS}
            result.secondary[split][-1][record["tasks"][-1]].update(gates)
        (out / result.key).mkdir(parents=True)
        write_result(result, out / result.key)
    return count


def profiled(folder: Path) -> None:
    from reports.page import write_report

    with cProfile.Profile() as profile:
        write_report(folder)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


def processor_seconds() -> float:
    """Return what the commands that have ended took of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(place: Path) -> bool:
    folder = place / "results"
    count = write_all(real_record(place / "real"), folder)
    page = folder / "report.html"
    command = [sys.executable, "-m", "pmn_cl.cli.main", "report", str(folder)]
    quiet = {"check": True, "capture_output": True}
    before = processor_seconds()
    wait = min(seconds(lambda: subprocess.run(command, **quiet)) for _ in range(_TURNS))
    worked = (processor_seconds() - before) / _TURNS
    size = page.stat().st_size / 1e6
    if "--profile" in sys.argv:
        profiled(folder)
    line = f"{count:,} results, {size:.2f} MB, {worked:.1f} s of the processor"
    goal = "under 10 s and 10 MB"
    return report("report of 1,000 results, s", wait, goal, wait < 10 and size < 10, line)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        sys.exit(not main(Path(place)))
