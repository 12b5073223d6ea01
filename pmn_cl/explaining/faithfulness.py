"""What ``pmn-bench faithfulness`` does: measures runs, and prints what they come to."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pmn_cl.console import print_table, show_progress
from pmn_cl.errors import UserError
from pmn_cl.explaining.opener import open_explainer
from pmn_cl.explaining.records.faithfulness import (
    Faithfulness,
    MeasureRow,
    read_faithfulness,
    summarise,
    verdict,
    write_faithfulness,
)
from pmn_cl.explaining.records.measures import MEASURES
from pmn_cl.results.result import Result
from pmn_cl.results.selection import BASELINE, PMN, completed_runs, kept
from pmn_cl.results.statistics import as_bracketed


def faithfulness_command(
    folder: Path,
    *,
    console: Console,
    split: str,
    seeds: Collection[int],
    variants: bool,
    questions: int,
    fresh: bool,
    as_json: bool,
    cache: Path | None,
) -> int:
    """Measure what is not measured yet, print the table, and return the exit code."""
    runs = sorted(
        (
            result
            for result in completed_runs(folder)
            if result.strategy in (PMN, BASELINE) and (variants or not result.variant)
            if not seeds or result.seed in seeds
        ),
        key=lambda result: (result.strategy != PMN, result.name, result.seed),
    )
    lost = [result.key for result in runs if not kept(folder, result)]
    if lost:
        click.echo(f"left out, they kept nothing of what they learned: {', '.join(lost)}", err=True)
    runs = [result for result in runs if result.key not in lost]
    if not runs:
        click.echo(f"{folder}: no completed run of {PMN} or {BASELINE} to measure", err=True)
        return 1
    if len({(result.data, result.fraction, result.budget) for result in runs}) > 1:
        raise UserError(
            f"{folder}: the runs differ in data, fraction or budget, and cannot be compared; "
            "give each a folder of its own"
        )
    records = [_measured(folder, result, split, questions, fresh, cache) for result in runs]
    lines = summarise(records, split)
    if as_json:
        click.echo(json.dumps([_plain(line) for line in lines], indent=1))
    else:
        _print(console, records, lines, split)
    return 0


def _measured(
    folder: Path, result: Result, split: str, questions: int, fresh: bool, cache: Path | None
) -> Faithfulness:
    """Return a run's record, from its file where it is there, of these weights and as large."""
    place = folder / result.key
    known = None if fresh else read_faithfulness(place)
    if known is not None and known.weights == result.weights[-1] and split in known.splits:
        most = result.samples.get(split, [questions])[-1]
        if known.splits[split].questions == min(questions, most):
            return known
    explainer = open_explainer(folder, result.key, cache)
    from pmn_cl.explaining.measurement import measure_run

    with show_progress(result.key) as progress:
        found = measure_run(explainer, split, questions=questions, progress=progress)
    write_faithfulness(place, found)
    return found


def _print(
    console: Console, records: Sequence[Faithfulness], lines: Sequence[MeasureRow], split: str
) -> None:
    names = list(dict.fromkeys(record.strategy for record in records))
    table = Table(box=None, header_style="bold")
    for title in ("measure", "chance", *names):
        table.add_column(title, justify="left" if title == "measure" else "right")
    if len(names) > 1:
        table.add_column(f"{names[0]} - {names[1]}", justify="right")
    for line in lines:
        cells = [line.measure, "" if line.chance is None else f"{line.chance:.3f}"]
        known = [line.by_strategy.get(name) for name in names]
        cells += ["-" if found is None else as_bracketed(found) for found in known]
        if len(names) > 1:
            apart = line.difference
            cells.append("" if apart is None else as_bracketed(apart.difference, "+.3f"))
        table.add_row(*cells)
    print_table(console, table)
    seeds = sorted({record.seed for record in records})
    asked = max(record.splits[split].questions for record in records)
    console.print(
        f"{split}: {asked:,} questions, seeds {', '.join(map(str, seeds))}; mean and 95% interval."
    )
    for name, meaning in MEASURES.items():
        console.print(f"  {name}: {meaning}", style="dim")
    for name in names:
        console.print(verdict(lines, name))


def _plain(line: MeasureRow) -> dict[str, object]:
    apart = line.difference
    return {
        "measure": line.measure,
        "chance": line.chance,
        "strategies": {name: found._asdict() for name, found in line.by_strategy.items()},
        "difference": None
        if apart is None
        else {**apart.difference._asdict(), "seeds": apart.seeds, "p": apart.p},
    }
