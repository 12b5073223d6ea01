"""What the order of the tasks changes: spread over orders beside that over seeds. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rich.table import Table

from pmn_cl.results.measures.catalogue import (
    FORGETTING,
    NORMALISED_AVERAGE,
    Measure,
    Scored,
    in_context,
)
from pmn_cl.results.result import Result, leading_split

MEASURES = (NORMALISED_AVERAGE, FORGETTING)


@dataclass(frozen=True)
class OrderRow:
    """A strategy by order of the tasks."""

    name: str
    measure: Measure
    by_order: dict[str, float]  # means over seeds, the stream's own order first
    over_seeds: float | None  # standard deviation, mean over orders
    over_orders: float | None  # standard deviation of the means


def order_of(result: Result) -> str:
    """Return the order in which a run has learned its tasks."""
    return " → ".join(result.tasks)


def order_rows(results: Sequence[Result], split: str | None = None) -> list[OrderRow]:
    """Return a row for each strategy and measure that all orders and seeds have; none for one."""
    split = split or leading_split(results)
    some = [r for r in results if r.run.study in ("run", "orders") and r.competes]
    some.sort(key=lambda result: result.run.study != "run")  # stable: the stream's own order first
    orders = list(dict.fromkeys(order_of(result) for result in some))
    if len(orders) < 2:
        return []
    context = {run.result.key: run for run in in_context(results, split)}
    rows = []
    for name in dict.fromkeys(result.name for result in some):
        runs = [context[r.key] for r in some if r.name == name and r.key in context]
        rows += [row for measure in MEASURES if (row := _row(name, measure, runs, orders))]
    return rows


def _row(
    name: str, measure: Measure, runs: Sequence[Scored], orders: Sequence[str]
) -> OrderRow | None:
    values: dict[str, list[float]] = {order: [] for order in orders}
    for run in runs:
        value = measure(run)
        if value is not None:
            values[order_of(run.result)].append(value)
    if len({len(found) for found in values.values()}) > 1 or not values[orders[0]]:
        return None
    means = {order: fmean(found) for order, found in values.items()}
    seeds = [stdev(found) for found in values.values() if len(found) > 1]
    return OrderRow(name, measure, means, fmean(seeds) if seeds else None, stdev(means.values()))


def order_table(results: Sequence[Result], split: str | None = None) -> Table | None:
    """Return the rows as a table; None where there is one order alone."""
    rows = order_rows(results, split)
    if not rows:
        return None
    orders = list(rows[0].by_order)
    named = [_named(number) for number in range(len(orders))]
    titles = ["strategy", "measure", *named, "sd over seeds", "sd over orders"]
    table = Table(box=None, header_style="bold", title="orders of the tasks")
    for title in titles:
        table.add_column(title, justify="left" if title in ("strategy", "measure") else "right")
    for row in rows:
        means = (f"{row.by_order[order]:.3f}" for order in orders)
        spreads = ("-" if s is None else f"{s:.3f}" for s in (row.over_seeds, row.over_orders))
        table.add_row(row.name, row.measure.name, *means, *spreads)
    return table


def said_of_orders(results: Sequence[Result]) -> list[str]:
    """Return what each order is."""
    rows = order_rows(results)
    orders = list(rows[0].by_order) if rows else []
    return [f"{_named(number)}: {order}" for number, order in enumerate(orders)]


def _named(number: int) -> str:
    return f"order {number + 1}" if number else "own order"
