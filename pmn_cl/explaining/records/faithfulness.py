"""The record of how faithful a run's explanations are. No torch here.

It stands in ``faithfulness.json``, in the folder of the run; ``read_faithfulness`` reads it, None
where it was not measured. A report takes ``record.splits["test"].values`` and ``.chance`` by the
names that ``records.measures`` explains; ``summarise`` makes rows of several runs.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.measures import MASS
from pmn_cl.files import write_whole
from pmn_cl.results.statistics import Interval, Paired, interval, paired

FAITHFULNESS = "faithfulness.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Measured(_Part):
    """What was measured on the questions of a split."""

    questions: int
    """How many there were, drawn from all."""
    values: dict[str, float]
    """By measure; what cannot be measured of a network is left out."""
    chance: dict[str, float]
    """What no faithfulness at all comes to, where that is known."""
    measured: str
    """When: ISO 8601, UTC."""


class Faithfulness(_Part):
    """How faithful the explanations of one run are."""

    version: Literal[1] = 1
    """Of this format."""
    run: str
    """The key of the run."""
    strategy: str
    """With its variant."""
    seed: int
    weights: str
    """The digest of the weights that were measured."""
    splits: dict[str, Measured]


def now() -> str:
    """Return the moment as records have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def read_faithfulness(folder: Path) -> Faithfulness | None:
    """Return what was measured of the run in this folder; none where nothing was."""
    path = folder / FAITHFULNESS
    if not path.exists():
        return None
    try:
        found = Faithfulness.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise UserError(
            f"{path}: is no record of faithfulness; delete it, and `pmn-bench faithfulness` "
            "measures it again"
        ) from None
    return found


def write_faithfulness(folder: Path, record: Faithfulness) -> None:
    """Put a record in its place; what is known of other splits for the same weights stays."""
    try:
        before = read_faithfulness(folder)
    except UserError:  # broken: this one takes its place
        before = None
    if before is not None and before.weights == record.weights:
        record = record.model_copy(update={"splits": {**before.splits, **record.splits}})
    write_whole(folder / FAITHFULNESS, record.model_dump_json(indent=1))


class MeasureRow(NamedTuple):
    """One measure of several runs: over seeds, by strategy."""

    measure: str
    chance: float | None
    by_strategy: dict[str, Interval]
    difference: Paired | None  # of the first two strategies, on common seeds


def summarise(records: Sequence[Faithfulness], split: str) -> list[MeasureRow]:
    """Return each measure's means over seeds, and how far the first two strategies are apart."""
    strategies = list(dict.fromkeys(record.strategy for record in records))
    measured = [(r.strategy, r.seed, r.splits[split]) for r in records if split in r.splits]
    lines = []
    for measure in dict.fromkeys(name for _, _, some in measured for name in some.values):
        by_seed: dict[str, dict[int, float]] = {name: {} for name in strategies}
        for strategy, seed, some in measured:
            if measure in some.values:
                by_seed[strategy][seed] = some.values[measure]
        by_chance = [some.chance[measure] for _, _, some in measured if measure in some.chance]
        known = {name: interval(list(found.values())) for name, found in by_seed.items() if found}
        lines.append(
            MeasureRow(
                measure,
                sum(by_chance) / len(by_chance) if by_chance else None,
                known,
                _difference(by_seed, strategies),
            )
        )
    return lines


def verdict(lines: Sequence[MeasureRow], strategy: str) -> str:
    """Say in words where a strategy's explanations are better than chance, and where worse.

    By the interval over seeds; of one seed by its value, which is said.
    """
    found: dict[str, list[str]] = {"above chance": [], "as by chance": [], "worse than chance": []}
    alone = False
    for line in lines:
        value = line.by_strategy.get(strategy)
        if value is None or line.chance is None:
            continue
        alone |= value.low is None
        low, high = (value.mean if end is None else end for end in (value.low, value.high))
        times = f" ({value.mean / line.chance:.1f} times)" if line.measure == MASS else ""
        how = "above" if low > line.chance else "worse than" if high < line.chance else "as by"
        found[f"{how} chance"].append(f"{line.measure}{times}")
    said = [f"{how}: {'; '.join(names)}" for how, names in found.items() if names]
    if alone and said:
        said.append("one seed: no interval")
    nothing = "nothing that has a value by chance was measured"
    return "\n  ".join([f"{strategy}:", *(said or [nothing])])


def _difference(
    by_seed: Mapping[str, Mapping[int, float]], strategies: Sequence[str]
) -> Paired | None:
    if len(strategies) < 2:
        return None
    return paired(by_seed[strategies[0]], by_seed[strategies[1]])
