"""Folders of 1,000 and 4,000 results: listed, filtered, compared, checked.

Four times as many must not take more than about four times as long, and who asks about 1,000 waits
less than 3 seconds.

The results are one real record of a run through all six tasks, under many names and seeds and with
other scores. Ratios are of the work inside the command, seconds of the whole from the shell.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from timing import compare, report, seconds

from pmn_cl.config.stream import parse_stream

_FIELD = ("pmn", "hard_sharing", "pnn", "multinet", "parameter_matched", "independent")
_STRATEGIES = (*_FIELD, "hard_sharing_joint", *(f"method{n}" for n in range(7, 20)))
_WORLD = {"name": "digits", "scenes": {"train": 60, "val": 20, "test": 20, "novel": 20}}
_COMMANDS = {
    "listed": ["results"],
    "listed for programs": ["results", "--json"],
    "filtered": ["results", "--strategy", "method7", "--seed", "3", "--status", "completed"],
    "compared": ["compare", "--reference", "pmn"],
    "checked": ["claims"],
}


def real_record(place: Path) -> dict[str, Any]:
    """Carry a run out, as short as can be, and return its record."""
    from pmn_cl.runs.plan import plan_runs
    from pmn_cl.runs.worker import finish

    tasks = ["obj", "att", "rel", "cap", "cnt", "vqa"]
    given = {"name": "many", "world": _WORLD, "tasks": tasks, "budget": 1}
    spec = parse_stream({**given, "strategies": ["hard_sharing"], "seeds": [0]})
    [run] = plan_runs(spec)
    (place / run.key).mkdir(parents=True)
    result = finish(run, place / run.key, place / "cache", "cpu", 60.0, lambda: False)
    assert result.status == "completed", result.error
    return result.model_dump()


def write_many(record: dict[str, Any], count: int, out: Path) -> Path:
    """Write so many results, each with scores of its own."""
    from pmn_cl.results.result import Result, write_result

    rng = random.Random(0)
    for number in range(count):
        seed, place = divmod(number, len(_STRATEGIES))
        strategy = _STRATEGIES[place]
        run = {**record["run"], "seed": seed}
        run["strategy"] = {**run["strategy"], "name": strategy}
        result = Result.model_validate({**record, "run": run})
        scores = {
            split: [[v and v * rng.uniform(0.9, 1.0) for v in row] for row in rows]
            for split, rows in result.scores.items()
        }
        key = f"{strategy}-seed{seed}-{rng.getrandbits(32):08x}"
        (out / key).mkdir(parents=True)
        write_result(result.model_copy(update={"key": key, "scores": scores}), out / key)
    return out


def inside(name: str, folder: Path) -> None:
    """Do what a command does, in this process."""
    from click.testing import CliRunner

    from pmn_cl.cli.main import main

    command, *options = _COMMANDS[name]
    done = CliRunner().invoke(main, [command, str(folder), *options])
    assert done.exit_code == 0, done.output


def from_shell(name: str, folder: Path) -> None:
    command, *options = _COMMANDS[name]
    given = [sys.executable, "-m", "pmn_cl.cli.main", command, str(folder), *options]
    subprocess.run(given, check=True, stdout=subprocess.DEVNULL)


def main(place: Path) -> bool:
    # In a process of its own: millions of torch's objects would slow every collection of garbage.
    with ProcessPoolExecutor(1, get_context("spawn")) as aside:
        record = aside.submit(real_record, place / "real").result()
    many, few = (write_many(record, count, place / str(count)) for count in (4000, 1000))
    good = []
    for name in _COMMANDS:
        found = compare(lambda n=name: inside(n, many), lambda n=name: inside(n, few), turns=5)
        wait = statistics.median(seconds(lambda n=name: from_shell(n, few)) for _ in range(3))
        good.append(
            report(
                f"4,000 / 1,000 results {name}",
                found.ratio,
                "at most 4.4, and 1,000 in under 3 s",
                found.ratio <= 4.4 and wait < 3,
                f"{found.ours:.2f} and {found.plain:.2f} s; 1,000 from the shell {wait:.2f} s",
            )
        )
    return all(good)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        sys.exit(not main(Path(place)))
