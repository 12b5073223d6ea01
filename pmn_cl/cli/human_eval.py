"""People grade explanations: pages for them, and their grades."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmn_cl.cli.options import CACHE_HELP, cache_type, results_folder, seed_type
from pmn_cl.console import console, show_progress, status

if TYPE_CHECKING:
    from pmn_cl.human_eval.preparation import RoundPlan
    from pmn_cl.human_eval.rounds import Round


@click.group()
def judge() -> None:
    """Repeat the paper's human evaluation (its Table 5).

    \b
    pmn-bench judge make runs/claims --out round      pages for three judges
    (send judge-N.html to judge N; each sends a file back)
    pmn-bench judge collect round judgement-*.json    the table, with intervals and agreement
    """


@judge.command(short_help="Make a page for each judge.")
@results_folder
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="A new folder, for the pages and the key to them.",
)
@click.option("--run", "pmn", help="Key of PMN's run.  [default: the plain one, lowest seed]")
@click.option("--baseline", help="Key of the other run.  [default: independent, same seed]")
@click.option("--split", default="test", show_default=True, help="test or novel.")
@click.option("--questions", default=1600, show_default=True, type=click.IntRange(min=1))
@click.option("--judges", default=3, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--per-question",
    default=3,
    show_default=True,
    type=click.IntRange(min=1),
    help="Judges of each question; all of them where there are fewer.",
)
@click.option(
    "--stratify",
    is_flag=True,
    help="As many questions where both, one or none was right; reweighted afterwards.",
)
@click.option("--seed", default=0, show_default=True, type=seed_type, help="Of all that is drawn.")
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def make(
    folder: Path,
    out: Path,
    pmn: str | None,
    baseline: str | None,
    split: str,
    questions: int,
    judges: int,
    per_question: int,
    stratify: bool,
    seed: int,
    cache: Path | None,
) -> None:
    """Draw questions, and make a page for each judge from the runs in FOLDER.

    A page shows PMN's explanation and the baseline's, as A and B in an order that is balanced and
    known to OUT/round.json alone: keep that file from judges. Pages are one file each, need no
    network, keep grades in the browser and save a file for `pmn-bench judge collect`.

    Judges grade from 0 (very bad) to 4 (very good). With more judges than --per-question, each gets
    an equal part of the questions.
    """
    from pmn_cl.explaining.opener import open_explainer
    from pmn_cl.human_eval.preparation import (
        RoundPlan,
        make_round,
        refuse_what_is_there,
        runs_to_judge,
        who_is_right,
        write_folder,
    )

    refuse_what_is_there(out)
    ours, theirs = runs_to_judge(folder, pmn, baseline)
    plan = RoundPlan(
        *(folder, ours.key, theirs.key),
        split=split,
        questions=questions,
        judges=judges,
        per_question=per_question,
        stratify=stratify,
        seed=seed,
    )
    first, second = (open_explainer(folder, run.key, cache) for run in (ours, theirs))
    with status("answering all questions"):
        groups = who_is_right(first, second, plan.split)
    with show_progress("explaining") as progress:
        key = make_round(plan, groups, first, second, progress)
    with show_progress("drawing scenes") as progress:
        pages = write_folder(key, out, first, progress)
    _say_what_to_do(plan, key, pages)


def _say_what_to_do(plan: RoundPlan, key: Round, pages: Sequence[Path]) -> None:
    """Say what a round is made of, and what is next."""
    from pmn_cl.human_eval.preparation import size_of

    drawn, total = len(key.questions), sum(key.population.values())
    each = min(plan.per_question, plan.judges)
    click.echo(f"{drawn:,} of {total:,} questions on {plan.split}; {each} judges each")
    click.echo(f"PMN       {plan.pmn}")
    click.echo(f"baseline  {plan.baseline}")
    for page, sheet in zip(pages, key.sheets, strict=True):
        click.echo(f"{page}: {len(sheet.questions):,} questions")
    out = pages[0].parent
    click.echo(f"Pages have up to {size_of(pages):.1f} MB. Give each to one person, and keep")
    click.echo(f"{out / 'round.json'} to yourself: it says which explanation is PMN's. Then:")
    click.echo(f"pmn-bench judge collect {out} FILES")


@judge.command(short_help="Join what judges saved: the paper's table.")
@click.argument("round_folder", metavar="ROUND", type=click.Path(path_type=Path, file_okay=False))
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that gets the grades.  [default: the one that the round was made from]",
)
@click.option("--allow-incomplete", is_flag=True, help="Take what is there of unfinished files.")
@click.option("--json", "as_json", is_flag=True, help="An object, for programs.")
@click.option(
    "--tracking",
    envvar="MLFLOW_TRACKING_URI",
    help="MLflow's tracking URI, or off.  "
    "[default: $MLFLOW_TRACKING_URI, else mlflow.db in the results]",
)
def collect(
    round_folder: Path,
    files: tuple[Path, ...],
    results: Path | None,
    allow_incomplete: bool,
    as_json: bool,
    tracking: str | None,
) -> None:
    """Check the FILEs that judges of ROUND saved, and print the paper's table beside its numbers.

    Files that are incomplete, edited, of another round or not to be read, and judges who come from
    two browsers, are named and left out; no file is changed. What a judge saved last replaces what
    the same browser saved before.

    The grades go into judgements.json in the results, where `pmn-bench claims` finds them, and into
    MLflow, on the run of the whole stream.

    Exits with 1 where a file was left out.
    """
    from pmn_cl.human_eval.collection import collect_command
    from pmn_cl.mlflow_mirror.mirror import check_uri
    from pmn_cl.studies.request import OFF

    if tracking != OFF:
        check_uri(tracking)
    code, place = collect_command(
        round_folder,
        files,
        results=results,
        allow_incomplete=allow_incomplete,
        as_json=as_json,
        console=console(),
    )
    if tracking != OFF:
        _track(place, tracking)
    sys.exit(code)


def _track(results: Path, tracking: str | None) -> None:
    """Mirror the numbers, with the results that they are about; warn where that fails."""
    from pmn_cl.mlflow_mirror.mirror import NoMirrorError, sync
    from pmn_cl.results.folder import RESULT

    if not any(results.glob(f"*/{RESULT}")):
        click.echo(f"{results} has no results: nothing to track in MLflow", err=True)
        return
    try:
        with status("mirroring (importing MLflow takes some seconds)"):
            sync(results, tracking)
    except NoMirrorError as error:
        click.echo(
            f"warning: {error}. Nothing is lost: `pmn-bench sync {results}` mirrors it later.",
            err=True,
        )
