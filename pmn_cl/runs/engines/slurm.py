"""The runs of a plan as a Slurm job array: an index, a run. Slurm drives, in place of the driver.

Beside the script stands a file with all that the runs need to know, so that they do not change with
the stream's YAML while they wait in a queue. Each holds its own folder only.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmn_cl import registry
from pmn_cl.config.spec import RunSpec
from pmn_cl.data.world import cache_folder
from pmn_cl.errors import UserError
from pmn_cl.files import storing, write_whole
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.runs.worker import Terms, work

VERSION = 2


@dataclass(frozen=True)
class Array:
    """The runs of a job array, and where their results go."""

    name: str
    runs: Sequence[RunSpec]
    folder: Path


def write_array(
    array: Array, script: Path, terms: Terms, *, modules: Path, limit: int | None, gpus: int
) -> None:
    """Write a script for sbatch, at most ``limit`` runs at a time, and what it needs beside it.

    ``modules`` is where a stream's own worlds, tasks and strategies are.
    """
    out, described = array.folder.resolve(), script.resolve().with_suffix(".json")
    if described == script.resolve():
        raise UserError(f"--slurm {script}: expected the name of a script, such as runs.sbatch")
    described_runs = {
        "version": VERSION,
        "out": str(out),
        "cache": str(cache_folder(terms.cache).resolve()),
        "device": terms.device,
        "every": terms.every,
        "modules": str(modules.resolve()),
        "runs": [_described(run) for run in array.runs],
    }
    with storing(out):
        (out / "slurm").mkdir(parents=True, exist_ok=True)  # Slurm makes no folder
    write_whole(described, json.dumps(described_runs, indent=1))
    write_whole(script, _script(array, out, described, limit, gpus))


def _script(array: Array, out: Path, described: Path, limit: int | None, gpus: int) -> str:
    last = len(array.runs) - 1
    at_most = "" if limit is None else f"%{limit}"
    threads = max(run.stream.threads for run in array.runs)
    command = [sys.executable, "-m", "pmn_cl.cli.main", "one-run", str(described)]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# {last + 1} runs of {array.name}. Again after a failure or a time limit:",
            "# what is done stays done, what was cut off goes on.",
            f"#SBATCH --job-name={shlex.quote(f'pmn-{array.name}')}",
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
    plan = _read(path)
    registry.search_last(Path(plan["modules"]))
    if not 0 <= number < len(plan["runs"]):
        raise UserError(f"{path}: no run {number}, it has 0 to {len(plan['runs']) - 1}")
    run = _run(path, plan["runs"][number])
    folder = Path(plan["out"]) / run.key
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    terms = Terms(Path(plan["cache"]), plan["device"], plan["every"])
    work(run, folder, terms, patience=patience)
    return read_result(folder / RESULT)


def _described(run: RunSpec) -> dict[str, Any]:
    return {"run": run.model_dump(mode="json"), "reuse": run.reuse, "key": run.key}


def _run(path: Path, described: dict[str, Any]) -> RunSpec:
    run = RunSpec.model_validate({**described["run"], "reuse": described["reuse"]})
    if run.key != described["key"]:
        raise UserError(f"{path}: has {described['key']}, which is now {run.key}; plan again")
    return run


def _read(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        plan = None
    if not isinstance(plan, dict) or plan.get("version") != VERSION:
        raise UserError(f"{path}: is no plan of version {VERSION}; write it with pmn-bench plan")
    return plan
