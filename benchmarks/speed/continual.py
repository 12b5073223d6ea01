"""What evaluation inside tasks costs beside learning, at the default interval.

On the digit world with all its scenes, a tenth of the usual training: PMN and hard sharing, whose
heads answer all tasks. The first evaluations of a task come close together, so that a longer
training pays a smaller share; what it is at the bench's budget follows from the two prices.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from timing import report

from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.runs.continual import is_early
from pmn_cl.runs.cost import Clock
from pmn_cl.runs.execute import carry_out
from pmn_cl.runs.plan import plan_runs

_BUDGET, _BENCH = 10.0, 42.0


class Meter:
    """Adds up the CPU-seconds of evaluations inside tasks."""

    def __init__(self) -> None:
        self.seconds, self.times = 0.0, 0
        self._usual = Clock.aside

    def install(self) -> None:
        meter = self

        @contextmanager
        def aside(clock: Clock) -> Iterator[None]:
            began = process_time()
            with meter._usual(clock):
                yield
            meter.seconds += process_time() - began
            meter.times += 1

        Clock.aside = aside  # type: ignore[method-assign]


def main(folder: Path, cache: Path | None) -> bool:
    spec = load_spec(find_stream("stream.yaml")[0])
    data: dict[str, Any] = {"budget": _BUDGET, "evaluate_every": {}}
    spec = type(spec).model_validate({**spec.model_dump(), **data})
    assert spec.evaluate_every is not None
    reached = []
    for name in ("hard_sharing", "pmn"):
        [run] = plan_runs(spec, [name], [0])
        meter = Meter()
        meter.install()
        (folder / run.key).mkdir()
        result = carry_out(run, folder / run.key, cache=cache)
        Clock.aside = meter._usual  # type: ignore[method-assign]
        steps = {task: curve[-1].step for task, curve in result.curves.items()}
        learning = sum(
            c.cpu_seconds * c.learn_seconds / (c.learn_seconds + c.evaluate_seconds)
            for c in result.costs
        )
        each, of_step = meter.seconds / meter.times, learning / sum(steps.values())
        interval = spec.evaluate_every.interval or 1
        longer = [round(count * _BENCH / _BUDGET) for count in steps.values()]
        times = sum(n // interval + sum(is_early(s, interval) for s in range(1, n)) for n in longer)
        share = times * each / (times * each + sum(longer) * of_step)
        reached.append(
            report(
                f"{name}: evaluation inside tasks, of all the time of a run at {_BENCH:g}%",
                share,
                "at most 0.05",
                share <= 0.05,
                f"{1e3 * each:.0f} ms an evaluation, {1e3 * of_step:.1f} ms a step, {times} times; "
                f"at {_BUDGET:g}% {meter.seconds / (meter.seconds + learning):.2f}",
            )
        )
    return all(reached)


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None  # a cache that has the world already
    with TemporaryDirectory() as folder:
        sys.exit(not main(Path(folder), where))
