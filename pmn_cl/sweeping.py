"""The low-data regime: one task learned from less and less, all others from what they always had.

Which runs that takes, and what they gain over the base. Lower modules are learned once for each
seed and shared by all fractions. Every fraction gets as many steps as all data would: with fewer,
small ones stay on the plateau where learning starts, and nothing is compared. It stops when
validation has not gained three times in a row: 1% is not learned by heart without end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.results import Result
from pmn_cl.runs import RunSpec
from pmn_cl.spec import StreamSpec, call_lists, strategy_options
from pmn_cl.statistics import Paired, holm, paired
from pmn_cl.training import NetworkOptions

FRACTIONS = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0)  # percent; the paper's
PAPER = (-0.0049, 0.0221, 0.0401, 0.0266, 0.0179, 0.0204)  # its gains at those
VARIANT, BASE = "low-data", "independent"
_PATIENCE = 3


def sweep_runs(
    spec: StreamSpec,
    *,
    task: str = "vqa",
    fractions: Sequence[float] = FRACTIONS,
    strategies: Sequence[str] = ("pmn", BASE),
    seeds: Sequence[int] = (),
    samples: int,
    reuse: Path,
) -> list[RunSpec]:
    """Return a run for each strategy, seed and fraction.

    A strategy has the options that the stream gives it; ``samples`` is how many all data are.
    """
    tasks = swept_tasks(spec, task)
    given = {str(some["name"]): some for some in spec.strategies if not some.get("variant")}
    runs = []
    for fraction in fractions:
        for seed in dict.fromkeys(seeds or spec.seeds):
            changed = {"tasks": tasks, "fraction": fraction}
            stream = StreamSpec.model_validate({**spec.model_dump(), **changed})
            for name in strategies:
                said = {k: v for k, v in given.get(name, {}).items() if k != "name"}
                options = _enough_steps(name, said, task, samples, spec.budget)
                runs.append(
                    RunSpec(
                        *(stream, name, VARIANT, options, seed),
                        judged_at_end=True,
                        reuse=str(reuse),
                    )
                )
    return runs


def swept_tasks(spec: StreamSpec, task: str) -> list[dict[str, Any]]:
    """Return the task with all that it calls; these keep the fraction that they have.

    M_cnt, whose questions are among those of vqa, is left out below it, as in the paper.
    """
    calls = call_lists(spec)
    given = dict(zip(calls, spec.tasks, strict=True))
    if task not in calls:
        near = did_you_mean(task, calls)
        raise UserError(f"--task {task}: the stream has {', '.join(calls)}{near}")
    if task == "vqa":
        calls["vqa"] = [name for name in calls["vqa"] if name != "cnt"]
    needed = {task}
    for name in reversed(calls):  # callees come before their callers
        needed |= set(calls[name]) if name in needed else set()
    return [
        {
            "task": item.task,
            "calls": calls[name],
            "fraction": None if name == task else item.fraction or spec.fraction,
        }
        for name, item in given.items()
        if name in needed
    ]


def _enough_steps(
    strategy: str, options: Mapping[str, Any], task: str, samples: int, budget: float
) -> dict[str, Any]:
    """Return options in which fractions get the steps of all data, where a strategy takes any."""
    known = strategy_options(strategy).model_validate(dict(options))
    if not isinstance(known, NetworkOptions) or task not in known.settings():
        return dict(options)
    settings = known.settings()[task]
    whole = settings.steps(math.ceil(samples / settings.batch_size), budget)
    least = {"least_steps": whole, "patience": _PATIENCE}
    training = dict(options.get("training", {}))
    training[task] = {**least, **training.get(task, {})}
    return {**options, "training": training}


@dataclass(frozen=True)
class Gain:
    """What a strategy gains over another on the swept task, at one fraction."""

    strategy: str
    over: str
    fraction: float
    pair: Paired
    p: float | None  # corrected over the table
    paper: float | None  # what the paper has there


def gains(results: Sequence[Result], split: str = "test", ours: str = "pmn") -> list[Gain]:
    """Return what one strategy gains over each of the others, at each fraction, paired by seed."""
    swept = [r for r in results if r.variant == VARIANT and r.status == "completed"]
    finals: dict[tuple[str, float], dict[int, float]] = {}
    for result in swept:
        last = result.matrix(split)[-1][-1]
        if last is not None:
            finals.setdefault((result.strategy, result.fraction), {})[result.seed] = last
    others = list(dict.fromkeys(r.strategy for r in swept if r.strategy != ours))
    fractions = sorted({fraction for _, fraction in finals})
    pairs = [
        (other, fraction, pair)
        for other in others
        for fraction in fractions
        if (pair := paired(finals.get((ours, fraction), {}), finals.get((other, fraction), {})))
    ]
    corrected = holm([pair.p for *_, pair in pairs])
    published = dict(zip(FRACTIONS, PAPER, strict=True))
    return [
        Gain(ours, other, fraction, pair, p, published.get(fraction) if other == BASE else None)
        for (other, fraction, pair), p in zip(pairs, corrected, strict=True)
    ]
