"""Why a network answers as it does, and whether that is true."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmn_cl.cli.options import CACHE_HELP, cache_type, results_folder, seed_type
from pmn_cl.console import console, show_progress, status
from pmn_cl.errors import UserError

if TYPE_CHECKING:
    from pmn_cl.explaining.explainer import Explainer
    from pmn_cl.explaining.records.explanation import Explanation
    from reports.explanation import ExplanationView

_FORMATS = (".png", ".svg", ".json", ".html")


@click.command()
@results_folder
@click.option(
    "--run",
    help="A run's key or the beginning of it, or 'pmn 0' for a strategy and a seed.  "
    "[default: the first pmn]",
)
@click.option(
    "--baseline",
    help="The run beside it, named likewise, or none.  [default: independent of the same seed]",
)
@click.option("--split", default="test", show_default=True, help="test, novel or val.")
@click.option(
    "--question-id", "ids", multiple=True, type=click.IntRange(min=0), help="A row (repeatable)."
)
@click.option("--question", help="A question of yours, in words; needs --scene.")
@click.option("--scene", type=click.IntRange(min=0), help="The scene that --question is about.")
@click.option("--sample", type=click.IntRange(1, 1000), help="Draw so many questions.")
@click.option("--type", "kind", help="Draw plain, relational, counting, caption, yes/no, … ones.")
@click.option("--seed", type=seed_type, default=0, show_default=True, help="Of what is drawn.")
@click.option(
    "--out",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead: .png, .svg, .json or .html (repeatable).",
)
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def explain(
    folder: Path,
    run: str | None,
    baseline: str | None,
    split: str,
    ids: tuple[int, ...],
    question: str | None,
    scene: int | None,
    sample: int | None,
    kind: str | None,
    seed: int,
    out: tuple[Path, ...],
    cache: Path | None,
) -> None:
    """Show how questions were answered by a run in FOLDER: the paper's Figure 2.

    Every call in its order with its gate, the boxes that were looked at and given to M_rel, the
    scratch pad, the caption with the words that were listened to, the answer and its runners-up,
    and a sentence that names only what mattered. The attention baseline answers beside it.

    \b
      pmn-bench explain runs/digits                              one question, any
      pmn-bench explain runs/digits --type relational --out a.png
      pmn-bench explain runs/digits --question-id 1234 --out a.svg --out a.json
      pmn-bench explain runs/digits --question "what is left of the red seven?" --scene 5
      pmn-bench explain runs/digits --sample 20 --type counting --out page.html

    Several questions go into one .json or .html, and into a picture each, with the question's
    number in its name. The text is printed where no --out is given.
    """
    _check(ids, question, scene, sample, kind, out)
    from pmn_cl.explaining.opener import open_explainer
    from pmn_cl.results.selection import baseline_of, find_run, usual_run

    ours = find_run(folder, run) if run else usual_run(folder)
    beside = baseline_of(folder, ours) if baseline is None else None
    if baseline not in (None, "none"):
        beside = find_run(folder, str(baseline))
    explainer = open_explainer(folder, ours.key, cache)
    if question is not None and scene is not None:
        found = [explainer.ask(question, scene, split)]
    else:
        rows = list(ids) or explainer.sample(sample or 1, kind, seed=seed, split=split)
        with status("asking"):
            found = explainer.explain(rows, split)
    others: list[Explanation | None] = [None] * len(found)
    if beside is not None:
        other = open_explainer(folder, beside.key, cache)
        with status("asking the baseline"):
            if question is not None and scene is not None:
                others = [other.ask(question, scene, split)]
            else:
                others = list(other.explain([int(e.question_id or 0) for e in found], split))
    _show(explainer, found, others, out)


def _check(
    ids: Sequence[int],
    question: str | None,
    scene: int | None,
    sample: int | None,
    kind: str | None,
    out: Sequence[Path],
) -> None:
    """Refuse what does not go together before anything is opened."""
    if (question is None) != (scene is None):
        raise UserError("--question and --scene go together: a question is about a scene")
    ways = {
        "--question-id": bool(ids),
        "--question": question is not None,
        "--sample and --type": sample is not None or kind is not None,
    }
    given = [way for way, there in ways.items() if there]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)}: expected one way to say which questions")
    for path in out:
        if path.suffix.lower() not in _FORMATS:
            raise UserError(f"--out {path}: expected a name that ends in {', '.join(_FORMATS)}")
        if not path.parent.is_dir():
            raise UserError(f"--out {path}: there is no folder {path.parent} to write it to")


def _show(
    explainer: Explainer,
    found: Sequence[Explanation],
    others: Sequence[Explanation | None],
    out: Sequence[Path],
) -> None:
    """Print explanations, or write them to files."""
    from reports.explanation import ExplanationView, as_text

    pairs = list(zip(found, others, strict=True))
    if not out:
        for number, pair in enumerate(pairs):
            # Not the console: it would fold a line, and has no need to know what is in it.
            click.echo(("\n\n" if number else "") + as_text(*pair))
        return
    shown: list[ExplanationView] = []
    if any(path.suffix.lower() != ".json" for path in out):
        shown = [ExplanationView(a, b, explainer.picture(a.split, a.scene)) for a, b in pairs]
    for path in out:
        for written in _write(path, pairs, shown):
            click.echo(f"wrote {written}")


def _write(
    path: Path,
    pairs: Sequence[tuple[Explanation, Explanation | None]],
    shown: Sequence[ExplanationView],
) -> list[Path]:
    """Write one file, or a picture for each question; return which."""
    import json

    from pmn_cl.files import write_whole
    from reports.explanation import as_page
    from reports.explanation_picture import draw

    form = path.suffix.lower()
    if form == ".json":
        plain = [e.model_dump(mode="json") for pair in pairs for e in pair if e is not None]
        write_whole(path, json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
        return [path]
    if form == ".html":
        write_whole(path, as_page(shown))
        return [path]
    if len(shown) == 1:
        draw(shown[0], path)
        return [path]
    paths = [path.with_stem(f"{path.stem}-{one.explanation.question_id}") for one in shown]
    with show_progress("drawing") as progress:
        for done, (one, place) in enumerate(zip(shown, paths, strict=True), start=1):
            draw(one, place)
            progress(done, len(paths))
    return paths


@click.command()
@results_folder
@click.option("--split", default="test", show_default=True, help="test, novel or val.")
@click.option("--seed", "seeds", multiple=True, type=seed_type, help="Only this (repeatable).")
@click.option("--variants", is_flag=True, help="Measure variants of pmn and independent, too.")
@click.option(
    "--questions",
    type=click.IntRange(min=10),
    default=4000,
    show_default=True,
    help="So many, the same for all runs.",
)
@click.option("--fresh", is_flag=True, help="Measure again what is measured already.")
@click.option("--json", "as_json", is_flag=True, help="A list of measures, for programs.")
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def faithfulness(
    folder: Path,
    split: str,
    seeds: tuple[int, ...],
    variants: bool,
    questions: int,
    fresh: bool,
    as_json: bool,
    cache: Path | None,
) -> None:
    """Measure how faithful the explanations of pmn and of its baseline are.

    The world knows which regions and which relation a question is about. So: does attention land
    there, is M_rel asked the right box and relation, do gates open for the questions that a module
    is for, and does the answer change more without the module that the explanation names than
    without another? The baseline, `independent`, has attention alone: its regions are masked, and
    PMN's likewise.

    Means over seeds with 95% intervals, and PMN less baseline, paired by seed. Each run's numbers
    go to FOLDER/KEY/faithfulness.json, and to MLflow with `pmn-bench sync`.

    Exits with 1 where no run kept what it learned.
    """
    from pmn_cl.explaining.faithfulness import faithfulness_command

    sys.exit(
        faithfulness_command(
            folder,
            console=console(),
            split=split,
            seeds=seeds,
            variants=variants,
            questions=questions,
            fresh=fresh,
            as_json=as_json,
            cache=cache,
        )
    )
