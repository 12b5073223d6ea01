"""The command that makes a page of results."""

from __future__ import annotations

from pathlib import Path

import click

from pmn_cl.cli.options import results_folder
from pmn_cl.console import show_progress, status


@click.command()
@results_folder
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write, .html or .md.  [default: FOLDER/report.html]",
)
def report(folder: Path, out: Path | None) -> None:
    """Write one self-contained HTML page on the results of run, ablate and sweep in FOLDER.

    It opens from disk and loads nothing: score matrices, forgetting and transfer, learning curves,
    question families, the low-data gain and the ablation beside the paper's numbers, cost, novel
    compositions, the paper's claims, gates, the module graph, and a card of data, versions and
    seeds. What has no results yet says which command makes them. Strategies can be hidden, tables
    sorted, filtered and downloaded.

    With a name that ends in .md it is a document instead, with its figures as SVG in a folder
    beside it: the comparison, the claims, ladders, low data and what was the same for all. FOLDER
    may have notes.md, whose parts (## claims) stand at the end of the sections that they name.
    """
    from reports.document import write_document
    from reports.folder import read_folder
    from reports.page import write_page

    with show_progress("reading results") as progress:
        found = read_folder(folder, progress)
    with status("writing the report"):
        if out is not None and out.suffix == ".md":
            write_document(found, out)
            click.echo(f"wrote {out}, with its figures in a folder beside it")
            return
        place = write_page(found, out)
    click.echo(f"wrote {place} ({place.stat().st_size / 1e6:.1f} MB); open it in a browser")
