"""What ``pmn-bench plan`` does: lists the runs of a stream, or writes them as a Slurm job array."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from pmn_cl.config.stream import find_stream
from pmn_cl.data.world import cache_folder
from pmn_cl.progress import ProgressCallback
from pmn_cl.runs.engines.slurm import Array, write_array
from pmn_cl.runs.worker import Terms
from pmn_cl.studies.conduct import open_world
from pmn_cl.studies.request import ArrayRequest, RunRequest
from pmn_cl.studies.run import plan_comparison, said_of_added


def plan_command(
    request: ArrayRequest, console: Console, progress: ProgressCallback | None = None
) -> None:
    """List the runs of a stream, and write them as an array."""
    asked = RunRequest(
        stream=request.stream,
        strategies=request.strategies,
        seeds=request.seeds,
        out=request.out,
    )
    plan = plan_comparison(asked)
    for sentence in said_of_added(asked):
        console.print(sentence)
    table = Table(box=None, header_style="bold")
    for title in ("index", "key", "strategy", "seed", "data"):
        table.add_column(title, justify="left" if title in ("key", "strategy") else "right")
    for number, run in enumerate(plan.runs):
        name = " ".join(filter(None, (run.strategy.name, run.strategy.variant)))
        table.add_row(str(number), run.key, name, str(run.seed), f"{run.stream.fraction:g}%")
    console.print(table)
    if request.slurm is None:
        return
    folder = cache_folder(request.cache)
    open_world(plan.spec, folder, progress)
    write_array(
        Array(plan.spec.name, plan.runs, plan.folder),
        request.slurm,
        Terms(folder, request.device, request.checkpoint_every),
        modules=find_stream(request.stream)[0].parent,
        limit=request.workers,
        gpus=request.gpus,
    )
    console.print(f"wrote {request.slurm}; next: sbatch {request.slurm}", soft_wrap=True)
