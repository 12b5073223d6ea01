"""Results made up for tests: two tasks, a and b, with scores that can be followed by hand."""

from __future__ import annotations

from typing import Any

from pmn_cl.config.spec import RunSpec
from pmn_cl.results.result import Result

TASKS = ["a", "b"]
_STREAM = ("fraction", "budget", "threads")
_RUN = ("seed", "study", "rung", "splits", "evaluate_at_end", "matched")


def run_spec(strategy: str = "pmn", **given: Any) -> RunSpec:
    """Return a run of two tasks, with what is given of it, of its stream or its strategy."""
    tasks = given.get("calls", {task: [] for task in given.get("tasks", TASKS)})
    stream = {
        "name": given.get("stream", "s"),
        "world": given.get("world", {"name": "digits"}),
        "tasks": [{"task": task, "calls": calls} for task, calls in tasks.items()]
        or [{"task": "a", "calls": []}],
        **{name: given[name] for name in _STREAM if name in given},
    }
    own = {"name": strategy, "variant": given.get("variant", "")}
    own["options"] = given.get("as_given", given.get("options", {}))
    run = {name: given[name] for name in _RUN if name in given}
    return RunSpec.model_validate({"stream": stream, "strategy": own, "seed": 0, **run})


def result(strategy: str, seed: int, matrix: list[list[float | None]], **changes: Any) -> Result:
    """Return a result; changes are of the record, of its run, its stream or its strategy."""
    count = len(matrix)
    given: dict[str, Any] = {
        **{"key": f"{strategy}-{seed}", "status": "completed"},
        **{"options": {}, "tasks": TASKS, "metrics": ["m", "m"], "scores": {"test": matrix}},
        **{"secondary": {}, "constant": {"test": [0.2, 0.1]}, "samples": {}, "validation": {}},
        **{"parameters": {"total": [7] * count, "trainable": [7] * count}, "weights": []},
        **{
            "data": "d",
            "versions": {},
            "revision": None,
            "started": "2026-01-02T03:04:05+00:00",
            "seconds": 1,
        },
        "costs": [
            {
                **{"learn_seconds": 1, "evaluate_seconds": 1, "cpu_seconds": 2},
                **{"learn_peak_bytes": 1, "evaluate_peak_bytes": 1, "samples_seen": 1},
            }
        ]
        * count,
    }
    record = {name: value for name, value in changes.items() if name in Result.model_fields}
    run = run_spec(**{"seed": seed, **changes, "strategy": changes.get("strategy", strategy)})
    return Result.model_validate({**given, "run": run, **record})


def changed(one: Result, **changes: Any) -> Result:
    """Return a result with other values, of the record, its run, its stream or its strategy."""
    stream = {name: changes[name] for name in _STREAM if name in changes}
    if "stream" in changes:
        stream["name"] = changes["stream"]
    run: dict[str, Any] = {name: changes[name] for name in _RUN if name in changes}
    run["stream"] = one.run.stream.model_copy(update=stream)
    own = {"name": "strategy", "variant": "variant", "options": "as_given"}
    strategy = {name: changes[given] for name, given in own.items() if given in changes}
    run["strategy"] = one.run.strategy.model_copy(update=strategy)
    record = {name: value for name, value in changes.items() if name in Result.model_fields}
    return one.model_copy(update={"run": one.run.model_copy(update=run), **record})


def learned(strategy: str, seed: int, first: float, last: float, second: float) -> Result:
    return result(strategy, seed, [[first, None], [last, second]])


FIELD = [
    learned("pmn", 0, 0.8, 0.8, 0.7),
    learned("pmn", 1, 0.9, 0.9, 0.6),
    learned("hard_sharing", 0, 0.8, 0.4, 0.5),
    learned("hard_sharing", 1, 0.8, 0.2, 0.5),
    learned("independent", 0, 0.7, 0.7, 0.5),
    learned("independent", 1, 0.7, 0.7, 0.5),
    result("hard_sharing_joint", 0, [[1.0, 0.6]]),
    result("hard_sharing_joint", 1, [[1.0, 0.6]]),
]
