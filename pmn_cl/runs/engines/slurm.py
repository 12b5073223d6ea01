"""The runs of a plan as a Slurm job array: an index, a run. Slurm drives, in place of the driver.

Beside the script stands a file with all that the runs need to know, so that they do not change with
the stream's YAML while they wait in a queue. Each holds its own folder only.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import StreamSpec, find_stream
from pmn_cl.data.world import cache_folder
from pmn_cl.errors import UserError
from pmn_cl.files import storing, write_whole
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.runs.plan import RunSpec
from pmn_cl.runs.worker import Terms, work
from pmn_cl.studies.conduct import StudyPlan, plan

VERSION = 1


def plan_command(
    stream: str,
    *,
    console: Console,
    slurm: Path | None,
    strategies: Sequence[str],
    seeds: Sequence[int],
    out: Path | None,
    workers: int | None,
    gpus: int,
    device: str,
    checkpoint_every: float,
    cache: Path | None,
    progress: ProgressCallback | None,
) -> None:
    """List the runs of a stream, and write them as an array."""
    planned = plan(stream, strategies=strategies, seeds=seeds, out=out)
    table = Table(box=None, header_style="bold")
    for title in ("index", "key", "strategy", "seed", "data"):
        table.add_column(title, justify="left" if title in ("key", "strategy") else "right")
    for number, run in enumerate(planned.runs):
        name = " ".join(filter(None, (run.strategy, run.variant)))
        table.add_row(str(number), run.key, name, str(run.seed), f"{run.stream.fraction:g}%")
    console.print(table)
    if slurm is None:
        return
    folder = cache_folder(cache)
    Stream.open(planned.spec, planned.runs[0].seed, cache=folder, progress=progress)
    modules = find_stream(stream)[0].parent
    terms = Terms(folder, device, checkpoint_every)
    write_array(planned, slurm, terms, modules=modules, limit=workers, gpus=gpus)
    console.print(f"wrote {slurm}; next: sbatch {slurm}", soft_wrap=True)


def write_array(
    planned: StudyPlan, script: Path, terms: Terms, *, modules: Path, limit: int | None, gpus: int
) -> None:
    """Write a script for sbatch, at most ``limit`` runs at a time, and what it needs beside it.

    ``modules`` is where a stream's own worlds, tasks and strategies are.
    """
    out, described = planned.folder.resolve(), script.resolve().with_suffix(".json")
    if described == script.resolve():
        raise UserError(f"--slurm {script}: expected the name of a script, such as runs.sbatch")
    told = {
        "version": VERSION,
        "out": str(out),
        "cache": str(cache_folder(terms.cache).resolve()),
        "device": terms.device,
        "every": terms.every,
        "modules": str(modules.resolve()),
        "runs": [_described(run) for run in planned.runs],
    }
    with storing(out):
        (out / "slurm").mkdir(parents=True, exist_ok=True)  # Slurm makes no folder
    write_whole(described, json.dumps(told, indent=1))
    write_whole(script, _script(planned, out, described, limit, gpus))


def _script(planned: StudyPlan, out: Path, described: Path, limit: int | None, gpus: int) -> str:
    last = len(planned.runs) - 1
    at_most = "" if limit is None else f"%{limit}"
    threads = max(run.stream.threads for run in planned.runs)
    command = [sys.executable, "-m", "pmn_cl.cli.main", "one-run", str(described)]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# {last + 1} runs of {planned.spec.name}. Again after a failure or a time limit:",
            "# what is done stays done, what was cut off goes on.",
            f"#SBATCH --job-name={shlex.quote(f'pmn-{planned.spec.name}')}",
            f"#SBATCH --array=0-{last}{at_most}",
            f"#SBATCH --cpus-per-task={threads}",
            *([f"#SBATCH --gpus={gpus}"] if gpus else []),
            f"#SBATCH --output={shlex.quote(str(out / 'slurm' / '%A_%a.txt'))}",
            "#SBATCH --open-mode=append",
            "#SBATCH --requeue",
            "#SBATCH --signal=B:TERM@60",
            f'exec {shlex.join(command)} "$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )


def one_run(path: Path, number: int, *, patience: float = 60.0) -> Result:
    """Carry out one run of a plan in this process, and return its record.

    One that was put back into Slurm's queue may find that the last attempt has not quite ended.
    """
    told = _read(path)
    registry.search_last(Path(told["modules"]))
    if not 0 <= number < len(told["runs"]):
        raise UserError(f"{path}: no run {number}, it has 0 to {len(told['runs']) - 1}")
    run = _run(path, told["runs"][number])
    folder = Path(told["out"]) / run.key
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    terms = Terms(Path(told["cache"]), told["device"], told["every"])
    work(run, folder, terms, patience=patience)
    return read_result(folder / RESULT)


def _described(run: RunSpec) -> dict[str, Any]:
    given = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    return {**given, "stream": run.stream.model_dump(mode="json"), "key": run.key}


def _run(path: Path, described: dict[str, Any]) -> RunSpec:
    given = {name: value for name, value in described.items() if name != "key"}
    given["stream"] = StreamSpec.model_validate(given["stream"])
    run = RunSpec(**{**given, "judged_on": tuple(given["judged_on"])})
    if run.key != described["key"]:
        raise UserError(f"{path}: has {described['key']}, which is now {run.key}; plan again")
    return run


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        told = None
    if not isinstance(told, dict) or told.get("version") != VERSION:
        raise UserError(f"{path}: is no plan of version {VERSION}; write it with pmn-bench plan")
    return told
