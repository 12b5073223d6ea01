"""Shows how runs go: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pmn_cl.config.spec import RunSpec
from pmn_cl.results.result import Result, leading_split

if TYPE_CHECKING:
    from typing_extensions import Self

_Report = dict[str, Any]  # what a run said last: the fields of TrainingProgress


class ProgressDisplay:
    """Shows the user what the driver reports."""

    def __init__(self, runs: Sequence[RunSpec], console: Console) -> None:
        self._console, self._count = console, len(runs)
        self._tasks = {run.key: [task.task for task in run.stream.tasks] for run in runs}
        self._ended = 0
        self._waiting = 0  # runs that were not done already
        self._began = time.monotonic()
        self._said: dict[str, str] = {}
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *how: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def begin(self, waiting: int) -> None:
        """Take how many runs are to be done."""
        self._began, self._waiting, self._ended = time.monotonic(), waiting, self._count - waiting
        if self._ended:
            self._console.print(f"{self._ended} of {self._count} runs are done already")

    def update(self, running: dict[str, _Report], ended: Sequence[Result]) -> None:
        """Show what runs are at, and what those that ended came to."""
        for result in ended:
            self._ended += 1
            left = self._time_left(running)
            said = filter(None, (result.status, _short(result), f"{result.seconds:.0f} s{left}"))
            self._console.print(
                f"[{self._ended}/{self._count}] {result.key}: {', '.join(said)}", soft_wrap=True
            )
        if self._console.is_terminal:
            self._live.update(self._table(running), refresh=True)
            return
        for key, report in running.items():
            line = _line(report)
            about = f"{report['task']} {report.get('note')} {report['epoch']}" if line else ""
            if line and self._said.get(key) != about:  # the loss alone is no news
                self._said[key] = about
                self._console.print(f"{key}: {line}{self._time_left(running)}", soft_wrap=True)

    def _time_left(self, running: dict[str, _Report]) -> str:
        """Say how long the rest will take, if it goes on as it went; tasks count alike."""
        done = self._ended - (self._count - self._waiting)
        share = done + sum(self._share(key, report) for key, report in running.items())
        share /= max(1, self._waiting)
        seconds = time.monotonic() - self._began
        if share < 0.02 or share >= 1:  # a guess, or none needed
            return ""
        left = seconds * (1 - share) / share
        return f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left"

    def _share(self, key: str, report: _Report) -> float:
        tasks = self._tasks[key]
        if not report or report["task"] not in tasks:
            return 0.0
        return float(tasks.index(report["task"]) + report["step"] / report["steps"]) / len(tasks)

    def _table(self, running: dict[str, _Report]) -> Table:
        table = Table(box=None, header_style="bold")
        for title in ("run", "task", "epoch", "loss", "validation", "task done", "run done"):
            table.add_column(title)
        for key, report in running.items():
            if not report:
                table.add_row(key, "starting")
                continue
            score = "" if report["score"] is None else f"{report['score']:.3f}"
            epoch, loss = f"{report['epoch']}/{report['epochs']}", f"{report['loss']:.3f}"
            if report.get("note"):
                epoch, loss = report["note"], ""
            bars = _bar(report["step"] / report["steps"]), _bar(self._share(key, report))
            table.add_row(key, report["task"], epoch, loss, score, *bars)
        done = f"{self._ended} of {self._count} runs done"
        seconds = time.monotonic() - self._began
        table.caption = Text(f"{done}, {seconds:.0f} s so far{self._time_left(running)}")
        return table


def _line(report: _Report) -> str:
    """Return what a run has to say: after an epoch, or where it does not learn."""
    if not report or (report["score"] is None and not report.get("note")):
        return ""
    score = "" if report["score"] is None else f", validation {report['score']:.3f}"
    if report.get("note"):
        return f"{report['task']}: {report['note']}{score}"
    epoch = f"epoch {report['epoch']} of {report['epochs']}"
    return f"{report['task']} {epoch}, loss {report['loss']:.3f}{score}"


def _bar(share: float) -> str:
    full = round(10 * share)
    return "█" * full + "░" * (10 - full) + f" {100 * share:.0f}%"


def _short(result: Result) -> str:
    split = leading_split([result])
    found = {name: value for name, value in result.summary(split).items() if value is not None}
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items() if name != "fwt")
