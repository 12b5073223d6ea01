"""What carries out runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmn_cl.cli.options import CACHE_HELP, STREAM_HELP, cache_type, gathers, seed_type
from pmn_cl.console import console, show_progress

if TYPE_CHECKING:
    from types import ModuleType

    from pmn_cl.config.spec import BenchmarkSpec
    from pmn_cl.studies.request import (
        AblationRequest,
        ArrayRequest,
        RunRequest,
        SweepRequest,
        TuningRequest,
    )


def _requests() -> ModuleType:
    """Return the file of requests: dataclasses take time that help does not have."""
    from pmn_cl.studies import request

    return request


_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Who carries the runs out: this machine, or a Ray cluster.",
    ),
    click.option(
        "--ray-address",
        envvar="RAY_ADDRESS",
        help="HOST:PORT of a Ray cluster.  [default: $RAY_ADDRESS, else one for this command]",
    ),
    click.option(
        "--ray-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=120.0,
        show_default=True,
        help="Seconds to wait while Ray has no room for a single run.",
    ),
    click.option(
        "--gpus",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="GPUs that a run asks Ray for; may be a part of one.",
    ),
)


def _with_engine(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an engine in place of the options that describe it."""

    def with_engine(
        *, engine: str, ray_address: str | None, ray_timeout: float, gpus: float, **others: Any
    ) -> None:
        from pmn_cl.runs.engines.factory import make_engine

        made = make_engine(engine, address=ray_address, patience=ray_timeout, gpus=gpus)
        command(engine=made, **others)

    return update_wrapper(with_engine, command)


def _drives_runs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what all that drive runs take."""
    command = _with_engine(command)
    for option in reversed(
        (
            click.option(
                "--seed", "seeds", multiple=True, type=seed_type, help="Only this (repeatable)."
            ),
            click.option(
                "--out",
                type=click.Path(path_type=Path, file_okay=False),
                help="Folder for results.  [default: in runs/, by the stream's name]",
            ),
            click.option(
                "--workers",
                type=click.IntRange(min=1),
                help="Runs at a time.  [default: all cores]",
            ),
            *_ENGINE_OPTIONS,
            click.option(
                "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …"
            ),
            click.option("--dry-run", is_flag=True, help="Only say which runs there would be."),
            click.option(
                "--fresh",
                is_flag=True,
                help="Start over; what is there, shared modules too, moves to OUT/earlier.",
            ),
            click.option(
                "--checkpoint-every",
                type=click.FloatRange(min=0),
                default=60.0,
                show_default=True,
                help="Seconds between two states kept to go on from; also at every epoch.",
            ),
            click.option(
                "--tracking",
                envvar="MLFLOW_TRACKING_URI",
                help="MLflow's tracking URI, or off.  "
                "[default: $MLFLOW_TRACKING_URI, else OUT/mlflow.db]",
            ),
            click.option("--cache", type=cache_type, help=CACHE_HELP),
        )
    ):
        command = option(command)
    return command


def _check_primary(stream: str | Path | BenchmarkSpec) -> None:
    """Refuse a stream that names claims which are none, before anything is learned."""
    from pmn_cl.studies.conduct import read_stream

    primary = read_stream(stream).primary
    if primary:
        from pmn_cl.claims.claims import CLAIMS
        from pmn_cl.claims.rule import check_names

        check_names(primary, [claim.name for claim in CLAIMS])


@click.command("run", epilog=STREAM_HELP)
@click.argument("stream")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Only this one (repeatable); one that STREAM does not name has its usual options.",
)
@_drives_runs
@gathers(lambda: _requests().RunRequest)
def run_stream(request: RunRequest) -> None:
    """Learn a stream with every strategy and seed that it names, and compare them.

    Each run is a process of its own and leaves OUT/KEY/result.json. The same command again does
    nothing that is done, goes on with what was cut off, and tries again what failed.

    Strategies that learn the same module in the same way share it, in OUT/modules: one learns it,
    and every run that has it counts what that took.

    MLflow gets a copy as the runs go; `pmn-bench ui OUT` shows it. A tracking server that does
    not answer costs a warning: `pmn-bench sync OUT` catches up.

    --dry-run lists the runs; for those with `size: paper` it also prints parameters, memory and
    hours, measured on this device with a few steps of each task.

    Exits with 1 where a run failed, and with 130 where Ctrl-C interrupted them.
    """
    from pmn_cl.studies.run import run_command

    _check_primary(request.stream)

    with show_progress("building the world") as progress:
        sys.exit(run_command(request, console(), progress))


@click.command(epilog=STREAM_HELP)
@click.argument("stream")
@click.option("--strategy", "strategies", multiple=True, help="Only this one (repeatable).")
@click.option("--seed", "seeds", multiple=True, type=seed_type, help="Only this (repeatable).")
@click.option(
    "--slurm",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a script for sbatch to this file: an array with an index for each run.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for results.  [default: in runs/, by the stream's name]",
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time.  [default: no limit]")
@click.option("--gpus", type=click.IntRange(min=0), default=0, help="GPUs of each.  [default: 0]")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …")
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds between two states kept to go on from; also at every epoch.",
)
@click.option("--cache", type=cache_type, help=CACHE_HELP)
@gathers(lambda: _requests().ArrayRequest)
def plan(request: ArrayRequest) -> None:
    """List the runs of STREAM with their keys; with --slurm, write them as a job array.

    The script and a JSON file beside it are all that sbatch needs. The world is built now, into
    the cache, which the nodes must see, like OUT and this installation. What a run has kept when
    its time is up is taken up by the next attempt: `sbatch FILE` again does what is not done.
    Options of sbatch go before the script: `sbatch --time=2:00:00 --partition=long FILE`.

    When the array is through, `pmn-bench run STREAM --out OUT` shows the table and fills MLflow.
    """
    from pmn_cl.studies.array import plan_command

    with show_progress("building the world") as progress:
        plan_command(request, console(), progress)


@click.command("one-run", hidden=True)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("number", type=int)
def one_run(path: Path, number: int) -> None:
    """Carry out run NUMBER of PLAN, which `pmn-bench plan --slurm` has written.

    Exits with 1 where it failed or was interrupted.
    """
    from pmn_cl.runs.engines.slurm import one_run as carry_out

    result = carry_out(path, number)
    click.echo(f"{result.key}: {result.status}, {result.seconds:.0f} s")
    if result.error is not None:
        click.echo(result.error.message)
    sys.exit(result.status != "completed")


@click.command(epilog=STREAM_HELP)
@click.argument("stream")
@click.option("--task", default="vqa", show_default=True, help="The task that gets less.")
@click.option(
    "--fraction",
    "fractions",
    multiple=True,
    type=click.FloatRange(1, 100),
    help="Percent of its training data (repeatable).  [default: the paper's 1 5 10 25 50 100]",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="One of those compared (repeatable).  [default: pmn, and independent, its base]",
)
@_drives_runs
@gathers(lambda: _requests().SweepRequest)
def sweep(request: SweepRequest) -> None:
    """Learn one task of STREAM from less and less data: the paper's low-data regime.

    The tasks below keep their data, and their modules are learned once for each seed and shared.
    vqa is learned without cnt below it, as in the paper. Every fraction gets the steps
    of all data, but stops early when validation does not gain. Ends with what PMN gains over the
    others, with intervals, beside the paper's row.
    """
    from pmn_cl.studies.sweep import sweep_command

    _check_primary(request.stream)

    with show_progress("building the world") as progress:
        sys.exit(sweep_command(request, console(), progress))


@click.command(epilog=STREAM_HELP)
@click.argument("stream")
@click.option("--only", multiple=True, help="One of them, such as M_vqa3 (repeatable).")
@_drives_runs
@gathers(lambda: _requests().AblationRequest)
def ablate(request: AblationRequest) -> None:
    """Learn each module with less and with more to call: the paper's Tables 1 to 3.

    Also its additional experiments (parameters, data, equal gates), and controls of ours: random
    and shuffled children, fine-tuning, supervised queries, hard gates, another order. The world,
    the budget, the seeds and PMN's options are those of STREAM; modules are learned once for each
    seed and shared.
    """
    from pmn_cl.studies.ablation import ablate_command

    _check_primary(request.stream)

    with show_progress("building the world") as progress:
        sys.exit(ablate_command(request, console(), progress))


@click.command()
@click.argument(
    "results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path)
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time.  [default: all cores]")
@click.option("--device", help="auto, cpu, cuda, cuda:1, …  [default: the one of the record]")
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def verify(
    results: tuple[Path, ...], workers: int | None, device: str | None, cache: Path | None
) -> None:
    """Run each RESULT again, from its record alone, and say what comes to the same.

    RESULT is a result.json or the folder of its run. Data, scores (also those inside tasks),
    metrics, learning curves, samples seen, parameters, bytes and weights are compared to the last
    digit. What differs under other data, packages or code than those of the record is said to be
    beyond comparison.

    Exits with 1 where not all is the same.
    """
    from pmn_cl.runs.verify import verify_command

    with show_progress("building the world") as progress:
        sys.exit(
            verify_command(
                results,
                console=console(),
                device=device,
                workers=workers,
                cache=cache,
                progress=progress,
            )
        )


@click.command(epilog=STREAM_HELP)
@click.argument("stream")
@click.option("--strategy", "strategies", multiple=True, help="Only this one (repeatable).")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the trials.  [default: runs/NAME-tune]",
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time.  [default: all cores]")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the trials in this file, and run none that it has; a stream reads it by `tuned:`.",
)
@click.option(
    "--protocol",
    type=click.Choice(["another-world", "first-task", "end-of-stream"]),
    default="another-world",
    show_default=True,
    help="What trials learn: the stream on a world for development (seed 1000), the stream's first "
    "task alone, or the stream as it is.",
)
@click.option("--cache", type=cache_type, help=CACHE_HELP)
@gathers(lambda: _requests().TuningRequest)
def tune(request: TuningRequest) -> None:
    """Try eight settings of each method, with development seed 100, on validation alone.

    Learning rates are tried with two values of one parameter of the method's own; where it has
    none, more of them. As soon as one method chooses the lowest or the highest rate, all try a
    lower and a higher one. The best has the highest mean over tasks at the end of the stream, on
    a scale from the constant answer to the best of all trials.

    Test samples are never looked at. What was tried is resumed like any other run.
    """
    from pmn_cl.studies.tuning import tune_command

    sys.exit(tune_command(request, console()))
