"""What is in a stream, for people: tasks, sizes, priors, and what a constant answer scores."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.stream import Experience, Stream


@dataclass(frozen=True)
class ConstantScore:
    """What the best constant answer of the training samples scores on a split."""

    task: str
    split: str
    metrics: dict[str, float]
    primary: float


def constant_scores(stream: Stream, experience: Experience) -> list[ConstantScore]:
    """Score the best constant answer of a task on every split but training."""
    task, names = experience.task, stream.store.names
    answer = task.constant(experience.splits["train"].columns, names)
    scores = []
    for split, samples in experience.splits.items():
        if split != "train":
            predictions = answer[None].repeat(len(samples), axis=0)
            found = task.score(predictions, samples.columns, names)
            scores.append(ConstantScore(task.name, split, found, found[task.metric]))
    return scores


def print_overview(stream: Stream, console: Console) -> None:
    """Print the stream as tables."""
    store = stream.store
    heading = Text.assemble(
        (stream.name, "bold"),
        f": {len(stream.experiences)} tasks on the world ",
        (stream.world.name, "bold"),
        f" ({stream.world.summary})\n"
        f"store {store.path} ({store.path.stat().st_size / 1e6:.0f} MB, "
        f"digest {store.digest[:12]})",
    )
    console.print(heading, soft_wrap=True)
    console.print(_task_table(stream))
    console.print(_prior_table(stream))


def _task_table(stream: Stream) -> Table:
    table = Table(
        title="Tasks in order, samples of each split, and the best constant answer's score",
        title_justify="left",
    )
    for heading in ("task", "level", "calls"):
        table.add_column(heading)
    splits = stream.store.splits
    for heading in splits:
        table.add_column(heading, justify="right")
    table.add_column("metric")
    held_out = [split for split in splits if split not in ("train", "val")]
    for split in held_out:
        table.add_column(f"constant\non {split}", justify="right")
    for experience in stream.experiences:
        task = experience.task
        sizes = [
            f"{len(experience.splits[s]):,}" if s in experience.splits else "–" for s in splits
        ]
        if experience.fraction < 100:
            sizes[0] += f" ({experience.fraction:g}%)"
        constants = {c.split: f"{c.primary:.3f}" for c in constant_scores(stream, experience)}
        calls = ", ".join(experience.calls) or "–"
        cells = [task.name, str(task.level), calls, *sizes, task.metric]
        cells += [constants.get(split, "–") for split in held_out]
        table.add_row(*map(Text, cells))
    return table


def _prior_table(stream: Stream, shown: int = 6) -> Table:
    table = Table(title="Most common answers on test", title_justify="left")
    for heading in ("task", "kind", "answers"):
        table.add_column(heading)
    for experience in stream.experiences:
        samples = experience.splits["test"]
        priors = experience.task.prior(samples.columns, stream.store.names)
        for kind, answers in priors.items():
            listed = "  ".join(f"{name} {share:.1%}" for name, share in answers[:shown])
            more = f"  … {len(answers) - shown} more" if len(answers) > shown else ""
            table.add_row(*map(Text, (experience.task.name, kind, listed + more)))
    return table
