"""Every measure of every strategy, and what each of them is."""

from __future__ import annotations

from pmn_cl.results.measures.table import measure_table
from reports.blocks import Missing, Row, Section, Table, Text
from reports.folder import Gathered

_NONE = (
    "Measures are of shares between floor and ceiling: they take runs of executor and of "
    "hard_sharing_joint beside the others."
)


def measures(found: Gathered) -> Section:
    """Show all measures, one to a line."""
    title = "Measures"
    table = measure_table(found.field, "test")
    if not table.lines:
        return Section("measures", title, [Missing(_NONE, found.commands("run"))])
    columns = ["measure", "what it is", *map(found.label, table.strategies)]
    rows = [Row(cells) for cells in table.rows()]
    note = Text(
        "Mean ± half of the 95% interval over seeds, ↑ where higher is better. All but those named "
        "CLiMB (percent) and time (seconds) count the constant answer as 0 and the ceiling, or "
        "joint training, as 1. A dash: not to be had, or, of times, never reached with some seed."
    )
    return Section("measures", title, [Table("Measures, test", columns, rows, 2), note])
