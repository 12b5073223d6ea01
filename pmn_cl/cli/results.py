"""What reads a folder of results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pmn_cl.cli.options import gathers, results_folder, seed_type
from pmn_cl.console import console, status
from pmn_cl.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from pmn_cl.mlflow_mirror.mirror import Mirrored
    from pmn_cl.results.compare import Comparison
    from pmn_cl.results.folder import ResultFilter
    from pmn_cl.results.formats import Format
    from pmn_cl.results.result import Result


def _result_filter() -> type[ResultFilter]:
    from pmn_cl.results.folder import ResultFilter

    return ResultFilter


def _only_some(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command on results leave some of them out."""
    states = click.Choice(["completed", "failed", "interrupted", "running"])
    this = "Only this one (repeatable)."
    for option in (
        click.option("--status", "statuses", multiple=True, type=states, help=this),
        click.option("--fraction", "fractions", multiple=True, type=float, help=f"Percent. {this}"),
        click.option("--seed", "seeds", multiple=True, type=seed_type, help=this),
        click.option("--strategy", "strategies", multiple=True, help=this),
    ):
        command = option(command)
    return command


def _formatted(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command print for documents or programs instead of people."""
    forms = click.Choice(["table", "md", "csv", "json", "tex"])
    shown = "A table, or text for a document (md, tex), a spreadsheet or a program."
    command = click.option("--format", "form", type=forms, default="table", help=shown)(command)
    return click.option("--json", "as_json", is_flag=True, help="The same as --format json.")(
        command
    )


_WIDE = "--wide shows all"
_FILES: dict[str, Format] = {"csv": "csv", "json": "json", "md": "md", "tex": "tex"}
_wide = click.option("--wide", is_flag=True, help="All columns, however narrow the window is.")


@click.command("results")
@results_folder
@_only_some
@_formatted
@_wide
@gathers(_result_filter, "only")
def list_results(folder: Path, form: Format, as_json: bool, wide: bool, only: ResultFilter) -> None:
    """Say what runs are in FOLDER, how they ended, and what they scored on test.

    As JSON, a list with an object for each run; as CSV, a row for each number of each run.
    """
    from pmn_cl.console import print_table
    from pmn_cl.results.result import chosen, no_collecting, read_results
    from pmn_cl.results.table import LEAST, as_text, closing_table

    with no_collecting():
        found = chosen(read_results(folder), only)
        own = [result for result in found if result.run.study != "orders"]
        if as_json or form != "table":
            some = found if as_json or form in ("json", "csv") else own
            click.echo(as_text(some, "json" if as_json else form), nl=False)
        else:
            print_table(console(), closing_table(own), LEAST, wide=wide, more=_WIDE)
            if len(own) < len(found):
                click.echo(f"{len(found) - len(own)} runs of other orders: `compare` has them")


@click.command()
@results_folder
@_only_some
@click.option("--split", help="test, novel or val.  [default: test, where there is one]")
@click.option("--reference", help="Show differences to this strategy, paired by seed.")
@click.option(
    "--stat",
    type=click.Choice(["mean", "iqm"]),
    default="mean",
    show_default=True,
    help="How normalised scores of tasks and seeds become one: their mean, or that of their middle "
    "half.",
)
@click.option(
    "--by", type=click.Choice(["family"]), help="Also show the last scores by question family."
)
@click.option(
    "--measures",
    is_flag=True,
    help="Also show every measure there is: forgetting and transfer in all definitions, learning "
    "speed, and what happens inside tasks where `evaluate_every` was set.",
)
@_formatted
@_wide
@click.option(
    "--save",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the table to this file: .csv, .json, .md or .tex (repeatable).",
)
@gathers(_result_filter, "only")
def compare(
    folder: Path,
    split: str | None,
    reference: str | None,
    stat: Literal["mean", "iqm"],
    by: str | None,
    measures: bool,
    form: Format,
    as_json: bool,
    wide: bool,
    save: tuple[Path, ...],
    only: ResultFilter,
) -> None:
    """Compare the strategies in FOLDER: means over seeds with their 95% intervals.

    The normalised average counts the constant answer as 0, and as 1 the executor, or joint training
    on a task that it does not do; transfer over scratch is against `independent`; both where those
    runs are there.

    As CSV or JSON, a record for each number, with its direction, n, interval and p.
    """
    from rich.table import Table

    from pmn_cl.console import print_table
    from pmn_cl.results import compare as comparing
    from pmn_cl.results.measures.orders import order_table, said_of_orders
    from pmn_cl.results.result import chosen, leading_split, read_results

    every = chosen(read_results(folder), only)
    results = comparing.of_streams(every) or every
    split = split or leading_split(results)
    splits = sorted({name for result in results for name in result.scores})
    if split not in splits:
        raise UserError(f"--split {split}: the results have {', '.join(splits) or 'none'}")
    for path in save:
        if path.suffix[1:] not in _FILES:
            known = ", ".join(f".{name}" for name in _FILES)
            raise UserError(f"--save {path}: expected a name that ends in {known}")
    found = comparing.compare(results, split=split, reference=reference, stat=stat)
    if as_json or form != "table":
        if by is not None or measures:
            raise UserError(
                "--by and --measures print tables of their own, which have no other form; leave "
                "them out, or take --format table"
            )
        click.echo(comparing.as_text(found, "json" if as_json else form), nl=False)
        _save(found, save)
        return
    table = Table(box=None, header_style="bold")
    for title in comparing.columns(found):
        table.add_column(title)
    for row in comparing.rows(found):
        table.add_row(*row)
    here = console()
    here.width = max(here.width, 260) if not sys.stdout.isatty() else here.width
    print_table(here, table, comparing.LEAST, wide=wide, more=_WIDE)
    here.print(comparing.note(found))
    if measures:
        _print_measures(results, split, here)
    orders = order_table(every, split)
    if orders is not None:
        print_table(here, orders)
        here.print("\n".join(said_of_orders(every)))
    if by is not None:
        _print_families(results, split, here)
    if left_out := len(every) - len(results):
        here.print(f"{left_out} runs of sweep, ablate or other orders are not in this table")
    here.print(f"in MLflow: pmn-bench ui {folder}", soft_wrap=True)
    _save(found, save)


def _save(found: Comparison, files: Sequence[Path]) -> None:
    from pmn_cl.results.compare import as_text

    for path in files:
        path.write_text(as_text(found, _FILES[path.suffix[1:]]), "utf-8")
        click.echo(f"wrote {path}", err=True)


def _print_measures(results: Sequence[Result], split: str, here: Console) -> None:
    """Print every measure of every strategy, and what each is."""
    from rich.table import Table

    from pmn_cl.console import print_table
    from pmn_cl.results.measures.table import measure_table

    found = measure_table(results, split)
    table = Table(box=None, header_style="bold", title=f"measures, {split}")
    for title in ("measure", *found.strategies):
        table.add_column(title)
    for name, _, *cells in found.rows():
        table.add_row(name, *cells)
    print_table(here, table)
    for measure, _ in found.lines:
        here.print(f"  {measure.name}: {measure.says}", style="dim")
    if not found.lines:
        here.print("no measures: they take what counts as 1, of executor and hard_sharing_joint")


def _print_families(results: Sequence[Result], split: str, wide: Console) -> None:
    """Print a table for each task that has question families."""
    from rich.table import Table

    from pmn_cl.console import print_table
    from pmn_cl.results.families.table import family_tables

    tables = family_tables(results, split)
    if not tables:
        wide.print(
            "no scores by question family: the world has none, or the results are older than those"
        )
    for found in tables:
        table = Table(box=None, header_style="bold", title=f"{found.task} by {found.kind}, {split}")
        for title in ("strategy", *found.families):
            table.add_column(title)
        for row in found.rows():
            table.add_row(*row)
        print_table(wide, table)


@click.command()
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
def merge(
    folders: tuple[Path, ...],
    out: Path,
    strict: bool,
    allow_tasks: bool,
    allow_versions: bool,
    allow_revisions: bool,
) -> None:
    """Join FOLDERs of results, from several machines or labs, into a new one.

    Other data, streams, tasks, budgets, packages or code are refused by name, before anything is
    written. A run that is in two folders is taken once where both came to the same. What is broken
    or unfinished is left out.
    """
    from pmn_cl.results.merge import merge_command

    flags = {"tasks": allow_tasks, "versions": allow_versions, "revisions": allow_revisions}
    allowed = {what for what, given in flags.items() if given}
    sys.exit(merge_command(folders, out, console=console(), strict=strict, allowed=allowed))


@click.command()
@results_folder
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 where a claim does not hold, or two are practically the same.",
)
@_formatted
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the tables to this file: .md.",
)
def claims(folder: Path, strict: bool, form: Format, as_json: bool, save: Path | None) -> None:
    """Check every claim of the paper on the results of run, ablate and sweep in FOLDER.

    A claim is a difference, paired by seed, on test and on novel compositions for themselves. It
    holds where the 95% interval (Student's t) lies above 0. Primary claims, which the stream names
    (`primary:`) before any run, come first, and may hold only before Holm's correction over them
    on a split; all others are secondary. An interval that includes 0 says that two are practically
    the same where it stays within 1 point, else that the claim does not hold; nor does it where the
    interval lies below. Fewer than 3 common seeds are not enough data.

    FOLDER may have a file FROZEN, which begins with the commit at which the settings were frozen,
    and judgements.json, the mean grades by judge of a human evaluation.

    Exits with 0 whatever holds.
    """
    from pmn_cl.claims.table import claims_command

    form = "json" if as_json else form
    sys.exit(claims_command(folder, console=console(), strict=strict, form=form, save=save))


@click.command()
@results_folder
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
    from pmn_cl.mlflow_mirror.mirror import default_uri, is_local

    found = _mirror(folder, tracking)
    place = tracking or default_uri(folder)
    click.echo(f"{len(found.written)} of {len(found.runs)} runs were new or had changed")
    click.echo(f"MLflow: {place}, experiment {found.experiment}")
    if is_local(tracking):
        click.echo(f"pmn-bench ui {folder} shows it")


def _mirror(folder: Path, tracking: str | None) -> Mirrored:
    """Mirror a folder; leave with 1 where MLflow cannot be reached."""
    from pmn_cl.mlflow_mirror.mirror import NoMirrorError, check_uri
    from pmn_cl.mlflow_mirror.mirror import sync as mirror
    from pmn_cl.results.result import read_results

    check_uri(tracking)
    read_results(folder)  # refuse what is no folder of results before MLflow is started
    try:
        with status("mirroring (importing MLflow takes some seconds)"):
            return mirror(folder, tracking)
    except NoMirrorError as error:
        click.echo(f"pmn-bench: {error}", err=True)
        sys.exit(1)


@click.command()
@results_folder
@click.option("--port", type=click.IntRange(1, 65535), help="[default: 5000, or any that is free]")
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
def ui(folder: Path, port: int | None, no_browser: bool) -> None:
    """Serve MLflow's own pages on FOLDER, for this machine alone, and open the comparison.

    The mirror is brought up to date first. Ctrl-C ends the server.
    """
    import signal
    import webbrowser

    from pmn_cl.mlflow_mirror.server import server
    from pmn_cl.studies.run import mirror_links

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server must not outlive us
    found = _mirror(folder, None)
    with ExitStack() as until_the_end:
        with status("starting MLflow's server (10 to 20 seconds)"):
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
