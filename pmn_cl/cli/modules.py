"""The library of learned modules."""

from __future__ import annotations

from pathlib import Path

import click

from pmn_cl.cli.options import cache_type
from pmn_cl.console import console


@click.group()
def modules() -> None:
    """List, export and import learned modules.

    A module is one file: weights that can be loaded without running code, and a card that says
    what it is. A stream takes modules up again with `start_from: [FILE or FOLDER]`.
    """


_library = click.option(
    "--library",
    type=cache_type,
    help="Folder of learned modules.  [default: modules in the folder for prepared worlds]",
)


@modules.command("list")
@_library
def modules_list(library: Path | None) -> None:
    """List the modules of the library with what they call and what they scored."""
    from rich.table import Table

    from pmn_cl.modules.library.cards import default_folder, read_library

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
    console().print(table)


@modules.command("export")
@click.argument("name")
@click.argument("folder", type=cache_type)
@click.option("--alone", is_flag=True, help="Leave out the modules that it calls.")
@_library
def modules_export(name: str, folder: Path, alone: bool, library: Path | None) -> None:
    """Copy the module NAME, and all that it calls, into FOLDER.

    NAME is as `pmn-bench modules list` has it; its beginning will do where one module fits.
    """
    from pmn_cl.modules.library.cards import copy_module, default_folder, find_module

    source = library or default_folder()
    for path in copy_module(find_module(source, name), source, folder, alone=alone):
        click.echo(f"wrote {path}")


@modules.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_library
def modules_import(files: tuple[Path, ...], library: Path | None) -> None:
    """Check FILES (or folders of files) and copy them into the library."""
    from pmn_cl.modules.library.cards import default_folder, import_modules

    for path in import_modules(files, library or default_folder()):
        click.echo(f"wrote {path}")
