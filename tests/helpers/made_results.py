"""Results made up for tests: two tasks, a and b, with scores that can be followed by hand."""

from __future__ import annotations

from typing import Any

from pmn_cl.results.result import Result

TASKS = ["a", "b"]


def result(strategy: str, seed: int, matrix: list[list[float | None]], **changes: Any) -> Result:
    count = len(matrix)
    given: dict[str, Any] = {
        **{"key": f"{strategy}-{seed}", "status": "completed", "stream": "s", "strategy": strategy},
        **{"variant": "", "seed": seed, "fraction": 100, "budget": 100, "threads": 1, "spec": {}},
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
    return Result.model_validate({**given, **changes})


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
