"""Where commands print, and how they show that something goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from pmn_cl.progress import ProgressCallback


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
