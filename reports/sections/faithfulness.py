"""How faithful explanations are: PMN's beside its baseline's, and chance."""

from __future__ import annotations

from collections.abc import Sequence

from pmn_cl.explaining.records.faithfulness import Faithfulness, MeasureRow, summarise
from pmn_cl.explaining.records.measures import MEASURES
from pmn_cl.results.statistics import as_plus_minus
from reports.blocks import (
    Block,
    Commands,
    Facts,
    Missing,
    Row,
    Section,
    Table,
    Text,
    number,
)
from reports.folder import BASELINE, PMN, Gathered, comparable, largest, told_apart


def faithfulness(found: Gathered) -> Section:
    """Show every measure on every split that was measured."""
    title = "Faithfulness of explanations"
    records = _records(found)
    command = f"pmn-bench faithfulness {found.shown_folder}"
    if not records:
        missing = Missing(_NONE, [command, *found.commands()])
        return Section("faithfulness", title, [missing])
    blocks: list[Block] = [Text(_HOW)]
    made = []
    for split in dict.fromkeys(split for record in records for split in record.splits):
        blocks += _tables(found, records, split)
        made.append((f"{command} --split {split}", f"measures explanations on {split}"))
    blocks += [Text("What the measures are:"), Facts(list(MEASURES.items())), Commands(made)]
    return Section("faithfulness", title, blocks)


_NONE = (
    f"No explanations were measured yet. It takes completed runs of `{PMN}`, better with "
    f"`{BASELINE}` beside it, that kept what they learned."
)
_HOW = (
    "The world knows which regions and which relation a question is about. Means over seeds with "
    "95% intervals; the difference is paired by seed. Of what is removed or masked, `changed` is "
    "the share of questions whose answer is another then, `drop` what the right answer loses of "
    f"its probability. `{BASELINE}` has attention alone: it calls no modules to be removed."
)


def _records(found: Gathered) -> list[Faithfulness]:
    """Return what was measured of runs that can be compared, PMN first and its baseline second."""
    measured = [result for result in found.done if result.key in found.faithfulness]
    measured.sort(key=lambda r: (r.name != PMN, r.name != BASELINE, r.strategy != PMN, r.name))
    return [
        found.faithfulness[result.key].model_copy(update={"strategy": result.name})
        for result in told_apart(largest(measured, comparable))
    ]


def _tables(found: Gathered, records: Sequence[Faithfulness], split: str) -> list[Table]:
    """Return the measures of all questions, and those by kind of question or by module."""
    names = list(dict.fromkeys(record.strategy for record in records))
    columns = ["measure", "chance", *map(found.label, names)]
    if len(names) > 1:
        columns += [f"{found.label(names[0])} − {found.label(names[1])}", "seeds", "p"]
    main: list[Row] = []
    parts: list[Row] = []
    for line in summarise(records, split):
        whole = line.measure.partition(":")[0] in MEASURES
        (main if whole else parts).append(Row(_cells(line, names)))
    asked = max(record.splits[split].questions for record in records if split in record.splits)
    tables = [(f"On {asked:,} questions of {split}", main)]
    tables += [(f"By kind of question and by module, {split}", parts)]
    return [Table(caption, columns, rows) for caption, rows in tables if rows]


def _cells(line: MeasureRow, names: Sequence[str]) -> list[str]:
    cells = [line.measure, number(line.chance)]
    cells += [as_plus_minus(line.by_strategy.get(name)) for name in names]
    if len(names) > 1:
        apart = line.difference
        cells += [as_plus_minus(apart.difference, "+.3f") if apart else ""]
        cells += [str(apart.seeds), number(apart.p)] if apart else ["", ""]
    return cells
