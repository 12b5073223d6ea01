"""Spread over orders beside spread over seeds, by hand."""

from __future__ import annotations

from statistics import stdev

import pytest
from made_results import TASKS, result

from pmn_cl.results.measures.orders import order_rows, order_table, said_of_orders
from pmn_cl.results.result import Result

JOINT = [result("hard_sharing_joint", seed, [[1.2, 1.1]]) for seed in (0, 1)]  # floors 0.2, 0.1


def run(seed: int, last: float, second: float, *, other: bool = False) -> Result:
    tasks = TASKS[::-1] if other else TASKS
    constant = {"test": [0.1, 0.2] if other else [0.2, 0.1]}
    study = {"study": "orders"} if other else {}
    matrix: list[list[float | None]] = [[0.8, None], [last, second]]
    key = f"pmn-{seed}-{other}"
    return result("pmn", seed, matrix, tasks=tasks, constant=constant, key=key, **study)


RESULTS = [run(0, 0.8, 0.7), run(1, 0.6, 0.7), run(0, 0.4, 0.5, other=True)]
RESULTS += [run(1, 0.4, 0.7, other=True), *JOINT]


def test_by_hand() -> None:
    average, forgetting = (row for row in order_rows(RESULTS) if row.name == "pmn")
    # Shares: 0.6 and 0.6, 0.4 and 0.6; in the other order b 0.3 and a 0.3, b 0.3 and a 0.5.
    assert average.by_order == {
        "a → b": pytest.approx((0.6 + 0.5) / 2),
        "b → a": pytest.approx((0.3 + 0.4) / 2),
    }
    assert average.over_orders == pytest.approx(stdev([0.55, 0.35]))
    assert average.over_seeds == pytest.approx(stdev([0.6, 0.5]))
    assert forgetting.by_order == {"a → b": pytest.approx(0.1), "b → a": pytest.approx(0.4)}
    assert said_of_orders(RESULTS) == ["own order: a → b", "order 2: b → a"]
    table = order_table(RESULTS)
    assert table is not None
    assert [str(column.header) for column in table.columns] == [
        *("strategy", "measure", "own order", "order 2", "sd over seeds", "sd over orders")
    ]


def test_one_order_says_nothing() -> None:
    assert order_rows(RESULTS[:2]) == [] and order_table(RESULTS[:2]) is None
    assert said_of_orders(RESULTS[:2]) == []


def test_what_is_not_there_in_every_order_has_no_row() -> None:
    assert order_rows([*RESULTS[:3], *JOINT]) == []
