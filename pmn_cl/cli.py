"""The command line. Each command imports what it needs when it runs, so that help is instant.

Exit codes: 0 done; 1 something that was asked for did not succeed; 2 the input is wrong
(a message, no traceback).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmn_cl import __version__
from pmn_cl.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from pmn_cl.tracking import Mirrored
    from pmn_cl.world import Progress

_STREAM_HELP = "STREAM is a YAML file, or the name of one that comes with pmn-bench (stream.yaml)."
_CACHE_HELP = "Folder for prepared worlds.  [default: $PMN_BENCH_CACHE, else ~/.cache/pmn-bench]"
_cache_type = click.Path(path_type=Path, file_okay=False)
_seed_type = click.IntRange(0, 2**32 - 1)


class _Commands(click.Group):
    """A group that prints mistakes of the user's without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"pmn-bench: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pmn-bench")
def main() -> None:
    """Compare ways of learning one visual task after another.

    \b
    First steps:
      pmn-bench doctor             is this machine ready?
      pmn-bench run quick.yaml     learn a small stream, in about a minute
      pmn-bench show stream.yaml   what is there to learn?
      pmn-bench init               a stream.yaml of your own
    """


@main.command(short_help="What is wrong with this machine, and what to do.")
def doctor() -> None:
    """Say what is wrong with this machine or installation, and what to do about it.

    Exits with 1 where something would keep pmn-bench from working.
    """
    from pmn_cl.doctor import examine, print_findings

    with _status("looking around (importing torch and Avalanche takes some seconds)"):
        findings = examine(Path.cwd())
    print_findings(findings, _console())
    sys.exit(any(finding.state == "wrong" for finding in findings))


@main.command(short_help="Write a stream.yaml to start from.")
@click.argument("path", default="stream.yaml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite a file that is there already.")
def init(path: Path, force: bool) -> None:
    """Write a commented stream.yaml to start from, to PATH (default: stream.yaml)."""
    from pmn_cl.spec import shipped_streams

    if path.exists() and not force:
        raise UserError(f"{path}: is there already; --force overwrites it")
    try:
        path.write_text(shipped_streams()["stream.yaml"].read_text("utf-8"), "utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    click.echo(f"wrote {path}; next: pmn-bench show {path}")


@main.command("list", short_help="What can be named in a stream's YAML.")
@click.option("--fairness", is_flag=True, help="How the comparison of the strategies is kept fair.")
def list_names(fairness: bool) -> None:
    """List what can be named in a stream's YAML: strategies, tasks, worlds; and shipped streams."""
    if fairness:
        _print_fairness()
        return
    from pmn_cl import registry
    from pmn_cl.spec import shipped_streams

    known = {
        "strategies": registry.STRATEGIES,
        "tasks": registry.TASKS,
        "worlds": registry.WORLDS,
    }
    described = {
        kind: {
            name: (ref, registry.STRATEGY_SUMMARIES.get(name) or registry.load(ref).summary)
            for name, ref in names.items()
        }
        for kind, names in known.items()
    }
    described["streams"] = {name: ("", str(path)) for name, path in shipped_streams().items()}
    for kind, names in described.items():
        click.secho(kind, bold=True)
        width = 2 + max(map(len, names))
        for name, (reference, summary) in names.items():
            click.echo(f"  {name:<{width}}{summary}")
            if reference:
                click.secho(f"  {'':<{width}}{reference}", dim=True)
    click.echo("\nYour own: package.module:Name, installed or beside the YAML file.")


def _print_fairness() -> None:
    """Print what is the same for all strategies, and a table of what is not."""
    from rich.table import Table

    from pmn_cl.fairness import SAME, fairness

    with _status("importing the strategies"):
        rows = fairness()
    click.secho("the same for all", bold=True)
    for what, how in SAME.items():
        click.echo(f"  {what:<11}{how}")
    table = Table(box=None, header_style="bold")
    for title in ("strategy", "sees", "further supervision", "trials", "chosen"):
        table.add_column(title)
    for row in rows:
        table.add_row(row.strategy, row.sees, row.supervision, str(row.trials or "-"), row.chosen)
    _console().print(table)


@main.group(short_help="Build the data of a world once.")
def prepare() -> None:
    """Build the data of a world once, so that streams on it start at once."""


@prepare.command("digits")
@click.option(
    "--seed", type=_seed_type, default=0, show_default=True, help="The same seed, the same bytes."
)
@click.option("--train", type=click.IntRange(min=1), help="Scenes for training.  [default: 10000]")
@click.option("--val", type=click.IntRange(min=1), help="Scenes for validation.  [default: 1000]")
@click.option("--test", type=click.IntRange(min=1), help="Scenes for test.  [default: 2000]")
@click.option("--novel", type=click.IntRange(min=1), help="Novel test scenes.  [default: 2000]")
@click.option(
    "--noise",
    type=click.FloatRange(min=0),
    help="Added to features; more is harder.  [default: 0.1]",
)
@click.option("--cache", "--out", type=_cache_type, help=_CACHE_HELP)
def prepare_digits(
    seed: int, noise: float | None, cache: Path | None, **scenes: int | None
) -> None:
    """Build the world of handwritten digits: no download needed.

    Streams with the same options find it in the cache. A store that is there already is read
    whole and checked against its digest. A thousand scenes take two to three seconds and 10 MB.
    """
    from pmn_cl import registry

    kind = registry.load(registry.WORLDS["digits"])
    given = {split: count for split, count in scenes.items() if count is not None}
    options: dict[str, Any] = {"seed": seed, "scenes": given}
    if noise is not None:
        if not math.isfinite(noise):  # which click's limits let through
            raise UserError(f"--noise is {noise}, expected a finite number")
        options["noise"] = noise
    world = kind(kind.Options.model_validate(options))
    there_already = world.path(cache).exists()
    with _progress("building the world") as progress:
        store = world.prepare(cache, progress)
    if there_already and not store.verify():  # building ends with the same check
        raise UserError(f"{store.path}: does not match its digest; delete it and prepare again")
    click.echo(f"{store.path}\n{store.path.stat().st_size:,} bytes, digest {store.digest}")


@main.command(epilog=_STREAM_HELP, short_help="What is in a stream; a picture of its world.")
@click.argument("stream")
@click.option(
    "--seed",
    type=_seed_type,
    default=0,
    show_default=True,
    help="Decides which samples a fraction keeps.",
)
@click.option(
    "--preview",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw some scenes, their truth and questions into this PNG file.",
)
@click.option("--cache", type=_cache_type, help=_CACHE_HELP)
def show(stream: str, seed: int, preview: Path | None, cache: Path | None) -> None:
    """Show what is in a stream.

    Prints each task with its level, its call list, its samples and what the best constant answer
    scores, and how common the commonest answers are. The world is built first where it has not
    been yet.
    """
    from pmn_cl import registry
    from pmn_cl.spec import find_stream, load_spec

    path, shipped = find_stream(stream)
    if shipped:
        click.echo(f"{stream}: no such file here, using the stream that comes with pmn-bench")
    spec = load_spec(path)
    if preview is not None:
        spec.make_world().check_preview(preview)  # before any waiting
    with _progress("building the world") as progress:
        opened = registry.load("benchmarks.stream:Stream").open(
            spec, seed, cache=cache, progress=progress
        )
    registry.load("benchmarks.overview:print_overview")(opened, _console())
    if preview is not None:
        with _status("drawing the preview"):
            opened.world.preview(opened.store, preview)
        click.echo(f"wrote {preview}")


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

    def given(
        *, engine: str, ray_address: str | None, ray_timeout: float, gpus: float, **asked: Any
    ) -> None:
        from pmn_cl.engines import make_engine

        made = make_engine(engine, address=ray_address, patience=ray_timeout, gpus=gpus)
        command(engine=made, **asked)

    return update_wrapper(given, command)


def _drives_runs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what all that drive runs take."""
    command = _with_engine(command)
    for option in reversed(
        (
            click.option(
                "--seed", "seeds", multiple=True, type=_seed_type, help="Only this (repeatable)."
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
                "--fresh", is_flag=True, help="Start over; what is there moves to OUT/earlier."
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
            click.option("--cache", type=_cache_type, help=_CACHE_HELP),
        )
    ):
        command = option(command)
    return command


@main.command("run", epilog=_STREAM_HELP, short_help="Learn a stream with every strategy and seed.")
@click.argument("stream")
@click.option("--strategy", "strategies", multiple=True, help="Only this one (repeatable).")
@_drives_runs
def run_stream(stream: str, **asked: Any) -> None:
    """Learn a stream with every strategy and seed that it names, and compare them.

    Each run is a process of its own and leaves OUT/KEY/result.json. The same command again does
    nothing that is done, goes on with what was cut off, and tries again what failed.

    MLflow gets a copy as the runs go; `pmn-bench ui OUT` shows it. A tracking server that does
    not answer costs a warning: `pmn-bench sync OUT` catches up.

    Exits with 1 where a run failed or was interrupted.
    """
    from pmn_cl.running import run_command

    with _progress("building the world") as progress:
        sys.exit(run_command(stream, console=_console(), progress=progress, **asked))


@main.command(epilog=_STREAM_HELP, short_help="List the runs of a stream, or write them for Slurm.")
@click.argument("stream")
@click.option("--strategy", "strategies", multiple=True, help="Only this one (repeatable).")
@click.option("--seed", "seeds", multiple=True, type=_seed_type, help="Only this (repeatable).")
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
@click.option("--cache", type=_cache_type, help=_CACHE_HELP)
def plan(stream: str, **asked: Any) -> None:
    """List the runs of STREAM with their keys; with --slurm, write them as a job array.

    The script and a JSON file beside it are all that sbatch needs. The world is built now, into
    the cache, which the nodes must see, like OUT and this installation. What a run has kept when
    its time is up is taken up by the next attempt: `sbatch FILE` again does what is not done.
    Options of sbatch go before the script: `sbatch --time=2:00:00 --partition=long FILE`.

    When the array is through, `pmn-bench run STREAM --out OUT` shows the table and fills MLflow.
    """
    from pmn_cl.slurm import plan_command

    with _progress("building the world") as progress:
        plan_command(stream, console=_console(), progress=progress, **asked)


@main.command("one-run", hidden=True)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("number", type=int)
def one_run(path: Path, number: int) -> None:
    """Carry out run NUMBER of PLAN, which `pmn-bench plan --slurm` has written.

    Exits with 1 where it failed or was interrupted.
    """
    from pmn_cl.slurm import one_run as carry_out

    result = carry_out(path, number)
    click.echo(f"{result.key}: {result.status}, {result.seconds:.0f} s")
    if result.error is not None:
        click.echo(result.error.message)
    sys.exit(result.status != "completed")


@main.command(epilog=_STREAM_HELP, short_help="Learn one task from less and less data.")
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
def sweep(stream: str, **asked: Any) -> None:
    """Learn one task of STREAM from less and less data: the paper's low-data regime.

    The tasks below keep their data, and their modules are learned once for each seed and shared.
    vqa is learned without cnt below it, as in the paper. A fraction gets its share of the steps,
    but at least a quarter of those of all data, and stops early when validation does not gain.
    Ends with what PMN gains over the others, with intervals, beside the paper's row.
    """
    from pmn_cl.studies import sweep_command

    with _progress("building the world") as progress:
        sys.exit(sweep_command(stream, console=_console(), progress=progress, **asked))


@main.command(epilog=_STREAM_HELP, short_help="The paper's ablations, and further controls.")
@click.argument("stream")
@click.option("--only", multiple=True, help="One of them, such as M_vqa3 (repeatable).")
@_drives_runs
def ablate(stream: str, **asked: Any) -> None:
    """Learn each module with less and with more to call: the paper's Tables 1 to 3.

    Also its additional experiments (parameters, data, equal gates), and controls of ours: random
    and shuffled children, fine-tuning, supervised queries, hard gates, another order. The world,
    the budget, the seeds and PMN's options are those of STREAM; modules are learned once for each
    seed and shared.
    """
    from pmn_cl.studies import ablate_command

    with _progress("building the world") as progress:
        sys.exit(ablate_command(stream, console=_console(), progress=progress, **asked))


_results_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


def _only_some(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command on results leave some of them out."""
    states = click.Choice(["completed", "failed", "interrupted", "running"])
    this = "Only this one (repeatable)."
    for option in (
        click.option("--status", "statuses", multiple=True, type=states, help=this),
        click.option("--fraction", "fractions", multiple=True, type=float, help=f"Percent. {this}"),
        click.option("--seed", "seeds", multiple=True, type=_seed_type, help=this),
        click.option("--strategy", "strategies", multiple=True, help=this),
    ):
        command = option(command)
    return command


@main.command("results", short_help="What is in a folder of results.")
@_results_folder
@_only_some
@click.option("--json", "as_json", is_flag=True, help="A list of objects, for programs.")
def list_results(folder: Path, as_json: bool, **some: Any) -> None:
    """Say what runs are in FOLDER, how they ended, and what they scored on test."""
    import json

    from pmn_cl.results import chosen, read_results
    from pmn_cl.running import listed
    from pmn_cl.watching import closing_table

    found = chosen(read_results(folder), **some)
    if as_json:
        click.echo(json.dumps([listed(result) for result in found], indent=1))
    else:
        _console().print(closing_table(found))


@main.command(short_help="Strategies side by side, with intervals.")
@_results_folder
@_only_some
@click.option("--split", default="test", show_default=True, help="test or novel.")
@click.option("--reference", help="Show differences to this strategy, paired by seed.")
@click.option(
    "--save",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the table to this file: .csv, .md or .tex (repeatable).",
)
def compare(
    folder: Path, split: str, reference: str | None, save: tuple[Path, ...], **some: Any
) -> None:
    """Compare the strategies in FOLDER: means over seeds with their 95% intervals.

    The normalised average counts the constant answer as 0 and joint training as 1; transfer over
    scratch is against `independent`; both where those runs are there.
    """
    from rich.table import Table

    from pmn_cl import comparing
    from pmn_cl.results import chosen, read_results

    results = chosen(read_results(folder), **some)
    splits = sorted({name for result in results for name in result.scores})
    if split not in splits:
        raise UserError(f"--split {split}: the results have {', '.join(splits) or 'none'}")
    for path in save:
        if path.suffix[1:] not in comparing.FORMATS:
            known = ", ".join(f".{form}" for form in comparing.FORMATS)
            raise UserError(f"--save {path}: expected a name that ends in {known}")
    found = comparing.compare(results, split=split, reference=reference)
    table = Table(box=None, header_style="bold")
    for title in comparing.columns(found):
        table.add_column(title)
    for row in comparing.rows(found):
        table.add_row(*row)
    console = _console()
    console.width = max(console.width, 260) if not sys.stdout.isatty() else console.width
    console.print(table)
    console.print(comparing.note(found))
    console.print(f"in MLflow: pmn-bench ui {folder}", soft_wrap=True)
    for path in save:
        path.write_text(comparing.FORMATS[path.suffix[1:]](found), "utf-8")
        click.echo(f"wrote {path}")


@main.command(short_help="Run results again from their records.")
@click.argument(
    "results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path)
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time.  [default: all cores]")
@click.option("--device", help="auto, cpu, cuda, cuda:1, …  [default: the one of the record]")
@click.option("--cache", type=_cache_type, help=_CACHE_HELP)
def verify(results: tuple[Path, ...], **asked: Any) -> None:
    """Run each RESULT again, from its record alone, and say what comes to the same.

    RESULT is a result.json or the folder of its run. Data, scores, metrics, samples seen,
    parameters and weights are compared to the last digit. What differs under other data, packages
    or code than those of the record is said to be beyond comparison.

    Exits with 1 where not all is the same.
    """
    from pmn_cl.verifying import verify_command

    with _progress("building the world") as progress:
        sys.exit(verify_command(results, console=_console(), progress=progress, **asked))


@main.command(short_help="Join folders of results into one.")
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER...",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The new folder.",
)
@click.option("--strict", is_flag=True, help="Refuse what is broken or unfinished, too.")
@click.option("--allow-tasks", is_flag=True, help="Take other tasks: a sweep and an ablation, ….")
@click.option("--allow-versions", is_flag=True, help="Take results of other torch, numpy, ….")
@click.option("--allow-revisions", is_flag=True, help="Take results of other or changed code.")
def merge(folders: tuple[Path, ...], out: Path, strict: bool, **allow: bool) -> None:
    """Join FOLDERs of results, from several machines or labs, into a new one.

    Other data, streams, tasks, budgets, packages or code are refused by name, before anything is
    written. A run that is in two folders is taken once where both came to the same. What is broken
    or unfinished is left out.
    """
    from pmn_cl.merging import merge_command

    allowed = {flag.removeprefix("allow_") for flag, given in allow.items() if given}
    sys.exit(merge_command(folders, out, console=_console(), strict=strict, allowed=allowed))


@main.command(short_help="Which of the paper's claims hold for a folder of results.")
@_results_folder
@click.option("--strict", is_flag=True, help="Exit with 1 where a claim does not hold.")
@click.option("--json", "as_json", is_flag=True, help="An object, for programs.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the tables to this file: .md.",
)
def claims(folder: Path, **asked: Any) -> None:
    """Check every claim of the paper on the results of run, ablate and sweep in FOLDER.

    A claim is a difference, paired by seed, on test and on novel compositions for themselves. It
    holds where the 95% interval (Student's t) lies above 0; it does not hold where the interval
    includes 0 ("within chance") or lies below; fewer than 3 common seeds are not enough data.
    p-values are corrected by Holm's method over all claims of a split.

    FOLDER may have a file FROZEN, which begins with the commit at which the settings were frozen,
    and judgements.json, the mean grades by judge of a human evaluation.

    Exits with 0 whatever holds.
    """
    from pmn_cl.claiming import claims_command

    sys.exit(claims_command(folder, console=_console(), **asked))


@main.command(short_help="Mirror a folder of results in MLflow.")
@_results_folder
@click.option(
    "--tracking",
    envvar="MLFLOW_TRACKING_URI",
    help="MLflow's tracking URI.  [default: $MLFLOW_TRACKING_URI, else FOLDER/mlflow.db]",
)
def sync(folder: Path, tracking: str | None) -> None:
    """Bring MLflow up to what FOLDER holds; what is there already is left alone.

    A run of the stream is the parent, each result a child, with experiences as steps. Exits with
    1 where MLflow does not answer.
    """
    from pmn_cl.tracking import default_uri, is_local

    found = _mirror(folder, tracking)
    place = tracking or default_uri(folder)
    click.echo(f"{len(found.written)} of {len(found.runs)} runs were new or had changed")
    click.echo(f"MLflow: {place}, experiment {found.experiment}")
    if is_local(tracking):
        click.echo(f"pmn-bench ui {folder} shows it")


def _mirror(folder: Path, tracking: str | None) -> Mirrored:
    """Mirror a folder; leave with 1 where MLflow cannot be reached."""
    from pmn_cl.results import read_results
    from pmn_cl.tracking import NoMirrorError, check_uri
    from pmn_cl.tracking import sync as mirror

    check_uri(tracking)
    read_results(folder)  # refuse what is no folder of results before MLflow is started
    try:
        with _status("mirroring (importing MLflow takes some seconds)"):
            return mirror(folder, tracking)
    except NoMirrorError as error:
        click.echo(f"pmn-bench: {error}", err=True)
        sys.exit(1)


@main.command(short_help="MLflow's pages on a folder of results.")
@_results_folder
@click.option("--port", type=click.IntRange(1, 65535), help="[default: 5000, or any that is free]")
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
def ui(folder: Path, port: int | None, no_browser: bool) -> None:
    """Serve MLflow's own pages on FOLDER, for this machine alone, and open the comparison.

    The mirror is brought up to date first. Ctrl-C ends the server.
    """
    import signal
    import webbrowser

    from pmn_cl.running import mirror_links
    from pmn_cl.ui import server

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server must not outlive us
    found = _mirror(folder, None)
    with ExitStack() as until_the_end:
        with _status("starting MLflow's server (10 to 20 seconds)"):
            address, process = until_the_end.enter_context(server(folder, port))
        shown = mirror_links(found, address)
        for title, link in shown:
            click.echo(f"{title:<26}{link}")
        click.echo("Ctrl-C ends the server.")
        if not no_browser and shown:
            webbrowser.open(shown[0][1])
        try:
            code = process.wait()
        except KeyboardInterrupt:
            return
        click.echo(f"pmn-bench: MLflow's server has ended by itself, with {code}", err=True)
        sys.exit(1)


@main.command(epilog=_STREAM_HELP, short_help="Choose settings on validation, a few trials each.")
@click.argument("stream")
@click.option("--strategy", "strategies", multiple=True, help="Only this one (repeatable).")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the trials.  [default: runs/NAME of the stream-tune]",
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at a time.  [default: all cores]")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add what was chosen to this file (benchmarks/tuned.json is the committed one).",
)
@click.option("--cache", type=_cache_type, help=_CACHE_HELP)
def tune(stream: str, cache: Path | None, **asked: Any) -> None:
    """Try at most four settings of each method, with development seed 100, on validation alone.

    The learning rate and one parameter of the method's own are tried, each from the same start.
    Test samples are never looked at. What was tried is resumed like any other run.
    """
    from pmn_cl.running import tune_command

    sys.exit(tune_command(stream, cache=cache, console=_console(), **asked))


@main.group(short_help="The library of learned modules.")
def modules() -> None:
    """List, export and import learned modules.

    A module is one file: weights that can be loaded without running code, and a card that says
    what it is. A stream takes modules up again with `start_from: [FILE or FOLDER]`.
    """


_library = click.option(
    "--library",
    type=_cache_type,
    help="Folder of learned modules.  [default: modules in the folder for prepared worlds]",
)


@modules.command("list")
@_library
def modules_list(library: Path | None) -> None:
    """List the modules of the library with what they call and what they scored."""
    from rich.table import Table

    from pmn_cl.modules.library import default_folder, read_library

    folder = library or default_folder()
    cards = read_library(folder)
    if not cards:
        click.echo(f"no modules in {folder}")
        return
    table = Table(box=None, header_style="bold")
    for title in ("module", "level", "calls", "validation", "regions", "learned from"):
        table.add_column(title)
    for card in cards.values():
        calls = ", ".join(f"{name}-{identity[:10]}" for name, identity in card.calls.items())
        score = "" if card.score is None else f"{card.metric} {card.score:.3f}"
        table.add_row(
            card.name, str(card.level), calls or "-", score, str(card.region), card.data[:12]
        )
    _console().print(table)


@modules.command("export")
@click.argument("name")
@click.argument("folder", type=_cache_type)
@click.option("--alone", is_flag=True, help="Leave out the modules that it calls.")
@_library
def modules_export(name: str, folder: Path, alone: bool, library: Path | None) -> None:
    """Copy the module NAME, and all that it calls, into FOLDER.

    NAME is as `pmn-bench modules list` has it; its beginning will do where one module fits.
    """
    from pmn_cl.modules.library import copy_module, default_folder, find_module

    source = library or default_folder()
    for path in copy_module(find_module(source, name), source, folder, alone=alone):
        click.echo(f"wrote {path}")


@modules.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_library
def modules_import(files: tuple[Path, ...], library: Path | None) -> None:
    """Check FILES (or folders of files) and copy them into the library."""
    from pmn_cl.modules.library import default_folder, import_modules

    for path in import_modules(files, library or default_folder()):
        click.echo(f"wrote {path}")


def _console() -> Console:
    from rich.console import Console

    # Where output is no terminal, a table must not be folded to an imagined width.
    # And "[b, r]" is a name, not a style.
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)


@contextmanager
def _status(doing: str) -> Iterator[None]:
    """Show that something goes on, where there is a terminal to show it on."""
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


@contextmanager
def _progress(doing: str) -> Iterator[Progress]:
    """Offer a progress bar that appears with the first report: a line each 10% elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=console)
    number = bar.add_task(doing, total=None)
    last_tenth = -1
    started = False

    def report(done: int, total: int) -> None:
        nonlocal last_tenth, started
        if console.is_terminal:
            if not started:
                bar.start()
                started = True
            bar.update(number, completed=done, total=total)
            if done >= total:  # what comes next may show a progress of its own
                bar.stop()
        elif done * 10 // total > last_tenth:
            last_tenth = done * 10 // total
            click.echo(f"{doing}: {done:,} of {total:,}", err=True)

    try:
        yield report
    finally:
        if started:
            bar.stop()


if __name__ == "__main__":
    main()
