"""What came out, in a sentence and a table."""

from __future__ import annotations

from collections import Counter

from pmn_cl.results.bounds import NORMALISED_MEANS
from pmn_cl.results.compare import columns, named_rows, note
from pmn_cl.results.summary import meaning
from reports.blocks import Block, Missing, Row, Section, Table, Text
from reports.folder import Gathered


def summary(found: Gathered) -> Section:
    """Show what the results mean, what there is of them, and what is missing."""
    said = [found.shortened(sentence) for sentence in meaning(found.field)]
    blocks: list[Block] = [Text(said[0], lead=True)] if said else []
    blocks += [Text(sentence) for sentence in said[1:]]
    blocks.append(Text(_inventory(found)))
    comparison = found.comparison("test")
    if comparison is None:
        blocks.append(Missing("No plain run is completed yet.", found.commands("run")))
    else:
        lines = [
            Row([found.label(cells[0]), *cells[1:]], found.number(name) if name else None)
            for name, cells in named_rows(comparison)
        ]
        titles = [found.label(title) for title in columns(comparison)]
        blocks.append(Table("Strategies after the whole stream, test", titles, lines))
        blocks.append(Text(f"{_capital(found.shortened(note(comparison)))}. {_UNITS}"))
    return Section("summary", "Summary", blocks)


_UNITS = (
    "Scores are of each task's primary metric, higher is better. Their average would mix units; "
    f"the normalised average does not: {NORMALISED_MEANS}. "
    "Forgetting is max − last (lower is better); transfer over scratch is against `independent`."
)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _inventory(found: Gathered) -> str:
    """Return what is in the folder, and what of it could not be used."""
    ended = Counter(result.status for result in found.results)
    states = ", ".join(f"{count} {status}" for status, count in sorted(ended.items()))
    seeds = sorted({result.seed for result in found.results})
    of_seeds = ", ".join(map(str, seeds[:8]))
    of_seeds += f", … ({len(seeds)} in all)" if len(seeds) > 8 else ""
    said = f"{len(found.results)} results ({states}); seeds {of_seeds}."
    said += f" {found.under_way} more under way." if found.under_way else ""
    if found.left_out:
        said += (
            f" {found.left_out} completed runs have other tasks, data, fraction or budget than the "
            "most, and are not compared with them; they are in the table of runs."
        )
    unusable = ended["completed"] - len(found.done)
    if unusable:
        said += f" {unusable} completed results lack test scores or parameters, and are not used."
    if found.problems:
        said += f" {len(found.problems)} files could not be read: see the runs."
    return said
