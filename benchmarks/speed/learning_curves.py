"""CPU-seconds until each strategy is half-way between floor and ceiling, on cnt and vqa.

Read from the results of `pmn-bench run development.yaml`: strategies, executor and three seeds,
scored on validation. That takes 45 minutes on two cores, so `make speed` leaves it out.

    python benchmarks/speed/learning_curves.py runs/development

The seconds are those of learning the task itself up to the first epoch that came so far; where all
tasks are learned at once, of all of them together. A strategy that never comes there has "never".
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from pmn_cl.results.measures.emergence import cpu_seconds_at, first_step, points
from pmn_cl.results.result import Result, finals, read_results

_TASKS = ("cnt", "vqa")


def seconds_to(result: Result, task: str, goal: float) -> float | None:
    """Return the CPU-seconds of learning a task until its validation score was the goal."""
    step = first_step(points(result.curves[task]), goal)
    return None if step is None else cpu_seconds_at(result, task, step)


def main(results: Sequence[Result]) -> None:
    done = [result for result in results if result.status == "completed"]
    ceilings = [result for result in done if result.bound == "ceiling"]
    if not ceilings:
        sys.exit("no completed run of `executor`: half-way to the ceiling is not known")
    for name in dict.fromkeys(result.name for result in done if result.competes):
        some = sorted((r for r in done if r.name == name), key=lambda result: result.seed)
        for task in _TASKS:
            learned = [result for result in some if result.curves.get(task)]
            if not learned:  # taken over from other runs
                continue
            floor = learned[0].constant["val"][learned[0].tasks.index(task)]
            assert floor is not None
            half_way = (floor + mean(finals(ceilings, "val", task).values())) / 2
            taken = [seconds_to(result, task, half_way) for result in learned]
            shown = ", ".join("never" if s is None else f"{s:.0f}" for s in taken)
            best = mean(max(epoch.score for epoch in result.curves[task]) for result in learned)
            print(
                f"{name}, {task}: CPU-seconds to {half_way:.3f}, by seed: {shown}; "
                f"best score {best:.3f}"
            )


if __name__ == "__main__":
    main(read_results(Path(sys.argv[1])))
