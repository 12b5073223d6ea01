"""Valid orders of a stream, against all permutations."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import pytest

from pmn_cl.config.orders import orders_of, valid_orders
from pmn_cl.config.spec import BenchmarkSpec
from pmn_cl.config.stream import parse_stream
from pmn_cl.runs.plan import plan_runs

LEVEL = {"obj": 0, "att": 0, "rel": 1, "cap": 1, "cnt": 2, "vqa": 3}
CALLS: dict[str, list[str]] = {
    **{"obj": [], "att": [], "rel": ["obj", "att"], "cap": ["obj", "att"]},
    **{"cnt": ["obj", "att", "rel"], "vqa": ["rel", "obj", "att", "cnt", "cap"]},
}


def spec(**more: Any) -> BenchmarkSpec:
    tasks = [{"task": task, "calls": calls} for task, calls in CALLS.items()]
    data = {"name": "s", "world": "digits", "tasks": tasks, "strategies": ["pmn"], "seeds": [0, 1]}
    return parse_stream({**data, **more})


def is_valid(order: tuple[str, ...]) -> bool:
    rises = all(LEVEL[a] <= LEVEL[b] for a, b in pairwise(order))
    return rises and all(order.index(c) < order.index(t) for t in order for c in CALLS[t])


def test_they_are_the_permutations_that_keep_levels_and_call_lists() -> None:
    expected = {order for order in permutations(CALLS) if is_valid(order)}
    found = [tuple(item.task for item in order) for order in valid_orders(spec())]
    assert len(found) == len(expected) == 4 and {*found} == expected


def test_the_streams_own_order_is_the_first() -> None:
    assert [len(orders_of(spec(orders=n))) for n in (1, 2, 9, "all")] == [1, 2, 4, 4]
    assert all(orders_of(spec(orders=n))[0] == spec().tasks for n in (1, 2, "all"))


def test_other_orders_are_runs_of_their_own() -> None:
    runs = plan_runs(spec(orders=2))
    assert [(run.study, run.seed) for run in runs] == [
        *(("run", 0), ("run", 1), ("orders", 0), ("orders", 1))
    ]
    assert len({run.key for run in runs}) == 4
    assert [run.key for run in plan_runs(spec())] == [run.key for run in runs[:2]]


@pytest.mark.parametrize("orders", [0, -1, "some"])
def test_what_is_no_number_of_orders_is_refused(orders: Any) -> None:
    with pytest.raises(ValueError, match="orders"):
        spec(orders=orders)
