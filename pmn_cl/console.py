"""Where commands print, how they show that something goes on, and tables that fit.

No number is cut, and no two names look alike: a table that is too wide loses the columns that
matter least first, then becomes a list of its rows.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pmn_cl.progress import ProgressCallback

_UNBROKEN = "\u00a0"  # a space at which no line ends


INTERRUPTED = 130  # the exit code that shells know Ctrl-C by


def same_command(*, without: Sequence[str] = ()) -> str:
    """Return the command as it was given, to go on with what it has begun."""
    return shlex.join(["pmn-bench", *(word for word in sys.argv[1:] if word not in without)])


def console() -> Console:
    """Return where tables and sentences are printed."""
    from rich.console import Console

    # Where output is no terminal, a table must not be folded to an imagined width.
    # And "[b, r]" is a name, not a style.
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)


@contextmanager
def status(doing: str) -> Iterator[None]:
    """Show that something goes on, where there is a terminal to show it on."""
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


@contextmanager
def show_progress(doing: str) -> Iterator[ProgressCallback]:
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


def print_table(
    console: Console, table: Table, least: Sequence[str] = (), *, wide: bool = False, more: str = ""
) -> None:
    """Print a table whole; ``least`` are columns that may be left out, the first of them first.

    ``wide`` leaves none out, and ``more`` says what shows those that were.
    """
    left_out: list[str] = []
    found = table
    candidates = [] if wide else [name for name in least if name in _headers(table)]
    while not fits(console, found) and candidates:
        left_out.append(candidates.pop(0))
        found = without(table, left_out)
    if not fits(console, found):
        found, left_out = table, []
        print_rows(console, table)
    else:
        if found.title:  # by itself: the table may be narrower
            console.print(found.title, style="italic")
        plain = without(found, [])
        plain.title = None
        console.print(plain)
    if left_out:
        said = f"; {more}" if more else ""
        console.print(f"without {', '.join(left_out)}, for want of width{said}", style="dim")


def fits(console: Console, table: Table) -> bool:
    """Whether no cell has to be folded or cut."""
    from rich.cells import cell_len

    width = 0
    for column in table.columns:
        cells = [str(column.header), *(str(cell) for cell in column.cells)]
        width += max(cell_len(line) for cell in cells for line in cell.split("\n"))
    return width + 2 * len(table.columns) <= console.width


def without(table: Table, names: Sequence[str]) -> Table:
    """Return a table without some of its columns."""
    from rich.table import Table

    kept = [column for column in table.columns if str(column.header) not in names]
    found = Table(box=None, header_style="bold", title=table.title)
    for column in kept:
        found.add_column(str(column.header), justify=column.justify, no_wrap=True)
    for row in zip(*(list(column.cells) for column in kept), strict=True):
        found.add_row(*row)
    return found


def print_rows(console: Console, table: Table) -> None:
    """Print each row as its first cell, and below it what stands under each title."""
    if table.title:
        console.print(table.title, style="italic", soft_wrap=True)
    headers = _headers(table)
    for first, *cells in zip(*(list(column.cells) for column in table.columns), strict=True):
        console.print(str(first), style="bold", soft_wrap=True)
        # A number stays beside its name: between them is no place to end a line.
        pairs = [
            f"{name} {cell}".replace(" ", _UNBROKEN)
            for name, cell in zip(headers[1:], cells, strict=True)
            if str(cell)
        ]
        for line in wrap("   ".join(pairs), max(1, console.width - 2), break_long_words=False):
            console.print(f"  {line.replace(_UNBROKEN, ' ')}", soft_wrap=True)


def _headers(table: Table) -> list[str]:
    return [str(column.header) for column in table.columns]
