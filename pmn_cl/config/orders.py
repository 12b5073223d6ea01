"""The orders in which a stream can be learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pmn_cl.config.names import call_lists, task_class
from pmn_cl.config.spec import BenchmarkSpec, TaskSpec


def orders_of(spec: BenchmarkSpec) -> list[list[TaskSpec]]:
    """Return the orders that a stream asks for, its own first, the others as they are found.

    In a valid order levels never fall, and what a module calls comes before it.
    """
    most = None if spec.orders == "all" else spec.orders - 1  # others are many: no more are made
    others = (order for order in valid_orders(spec) if order != spec.tasks)
    return [spec.tasks, *islice(others, most)]


def valid_orders(spec: BenchmarkSpec) -> Iterator[list[TaskSpec]]:
    """Yield every valid order."""
    names = list(call_lists(spec))
    level = {item.task: task_class(item.task).level for item in spec.tasks}
    name_of = dict(zip((item.task for item in spec.tasks), names, strict=True))
    calls = {item.task: call_lists(spec)[name_of[item.task]] for item in spec.tasks}

    def begin(done: Sequence[TaskSpec], left: Sequence[TaskSpec]) -> Iterator[list[TaskSpec]]:
        if not left:
            yield list(done)
        known = {name_of[item.task] for item in done}
        lowest = min((level[item.task] for item in left), default=0)
        for item in left:
            if level[item.task] == lowest and known.issuperset(calls[item.task]):
                yield from begin([*done, item], [other for other in left if other is not item])

    yield from begin([], spec.tasks)
