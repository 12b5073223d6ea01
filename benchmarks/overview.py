"""What is in a stream, for people: tasks, sizes, priors, and what a constant answer scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.stream import Stream, StreamTask
from pmn_cl.config.spec import PROBE
from pmn_cl.errors import UserError


@dataclass(frozen=True)
class ConstantScore:
    """What the best constant answer of the training samples scores on a split."""

    task: str
    split: str
    metrics: dict[str, float]
    primary: float


def constant_scores(stream: Stream, experience: StreamTask) -> list[ConstantScore]:
    """Score the best constant answer of a task on every split but training."""
    task, names = experience.task, stream.store.names
    answer = np.asarray(task.constant(experience.splits["train"].columns, names))
    scores = []
    for split, samples in experience.splits.items():
        if split != "train":
            predictions = answer[None].repeat(len(samples), axis=0)
            found = task.score(predictions, samples.columns, names)
            if task.metric not in found:
                raise UserError(
                    f"the task {task.name!r} has the metric {task.metric!r}, but its score "
                    f"returned {', '.join(found) or 'nothing'}"
                )
            scores.append(ConstantScore(task.name, split, found, found[task.metric]))
    return scores


def print_overview(stream: Stream, console: Console) -> None:
    """Print the stream as tables that fit into 80 columns."""
    store, count = stream.store, len(stream.tasks)
    heading = Text.assemble(
        (stream.name, "bold"),
        f": {count} task{'s' if count > 1 else ''} on the world ",
        (stream.world.name, "bold"),
        f"\n{stream.world.summary}\n{store.path}\n"
        f"{store.path.stat().st_size / 1e6:.1f} MB, digest {store.digest[:12]}\n",
    )
    console.print(heading, soft_wrap=True)
    console.print(Text("Tasks in order, samples of each split, score of the best constant answer"))
    console.print(_task_table(stream))
    probes = {t.task.name: len(t.splits[PROBE]) for t in stream.tasks if PROBE in t.splits}
    if probes:
        each = ", ".join(f"{count} of {task}" for task, count in probes.items())
        if len({*probes.values()}) == 1:
            each = f"{next(iter(probes.values()))} of each task"
        console.print(Text(f"Scored inside tasks, too, on samples of no other split: {each}\n"))
    priors = _prior_table(stream)
    if priors.row_count:
        console.print(Text("Most common answers on test"))
        console.print(priors)


def _table(**columns: bool) -> Table:
    """Return a light table; the columns that are True hold numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, number in columns.items():
        table.add_column(heading.replace("_", "\n"), justify="right" if number else "left")
    return table


def _task_table(stream: Stream) -> Table:
    splits = stream.store.splits
    held_out = [split for split in splits if split not in ("train", "val")]
    table = _table(
        task=False,
        level=True,
        calls=False,
        **dict.fromkeys(splits, True),
        metric=False,
        **{f"const._{split}": True for split in held_out},
    )
    for column in table.columns:
        column.no_wrap = column.header != "calls"  # the only one that may be folded
    for experience in stream.tasks:
        task = experience.task
        sizes = [
            f"{len(experience.splits[s]):,}" if s in experience.splits else "-" for s in splits
        ]
        if experience.fraction < 100:
            sizes[0] += f"\n({experience.fraction:g}%)"  # below, to keep the column narrow
        constants = {c.split: f"{c.primary:.3f}" for c in constant_scores(stream, experience)}
        cells = [task.name, str(task.level), ", ".join(experience.calls) or "-"]
        cells += [*sizes, task.metric, *(constants.get(split, "-") for split in held_out)]
        table.add_row(*map(Text, cells))
    return table


def _prior_table(stream: Stream, shown: int = 6) -> Table:
    table = _table(task=False, kind=False, answers=False)
    for experience in stream.tasks:
        task, samples = experience.task, experience.splits["test"]
        for kind, answers in task.prior(samples.columns, stream.store.names).items():
            try:  # without a space, so that no line ends between a name and its number
                listed = [f"{name}={share:.1%}" for name, share in answers[:shown]]
            except (TypeError, ValueError):
                raise UserError(
                    f"the prior of the task {task.name!r} is {answers!r} for {kind!r}, "
                    "expected a list of (answer, share)"
                ) from None
            more = [f"... {len(answers) - shown} more"] if len(answers) > shown else []
            table.add_row(*map(Text, (task.name, kind, "  ".join(listed + more))))
    return table
