"""Answers of completed runs, for evaluations elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmn_cl.cli.options import CACHE_HELP, cache_type, results_folder
from pmn_cl.console import console, show_progress


@click.command()
@results_folder
@click.option(
    "--run",
    "runs",
    multiple=True,
    required=True,
    help="A run's key or the beginning of it, or 'pmn 0' for a strategy and a seed (repeatable: "
    "they answer together).",
)
@click.option("--split", default="test", show_default=True, help="test, val, server, …")
@click.option(
    "--task",
    type=click.Choice(["vqa", "cap"]),
    default="vqa",
    show_default=True,
    help="Answers to questions, or captions.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="A JSON file."
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …")
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def answers(
    folder: Path,
    runs: tuple[str, ...],
    split: str,
    task: str,
    out: Path,
    device: str,
    cache: Path | None,
) -> None:
    """Let completed runs in FOLDER answer every question of a split, and write the answers.

    \b
    [{"question_id": 262148000, "answer": "down"}, …]      VQA's evaluation server
    [{"image_id": 391895, "caption": "a man on …"}, …]     COCO's, with --task cap

    Several runs answer together: the answer with the highest mean probability is given, as where
    seeds make an ensemble. Where the split has answers, the score is printed; the split "server"
    holds questions that nobody here knows the answers to.

    \b
    pmn-bench answers runs/paper --run 'pmn 0' --split test --out val2014.json
    pmn-bench answers runs/paper --run 'pmn 0' --run 'pmn 1' --run 'pmn 2' \\
      --split server --out test2015.json
    """
    from pmn_cl.runs.answers import answers_command

    with show_progress("answering") as progress:
        sys.exit(
            answers_command(
                folder,
                runs=runs,
                split=split,
                task=task,
                out=out,
                device=device,
                cache=cache,
                console=console(),
                progress=progress,
            )
        )
