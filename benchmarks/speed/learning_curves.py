"""CPU-seconds until each strategy is half-way between floor and ceiling, on cnt and vqa.

The whole default stream with development seeds, scored on validation: ten minutes to half an hour
a seed on one core, so `make speed` leaves it out. A strategy that never comes so far has "never",
and its best score. Where all tasks are learned at once, the seconds are of all of them together.
Arguments: seeds, by default 100 101 102.
"""

from __future__ import annotations

import sys
import time
from statistics import mean
from typing import Any

import torch

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.strategy.base import Experience

_STRATEGIES = ("pmn", "independent", "hard_sharing", "hard_sharing_joint", "pnn", "multinet")
_TASKS = ("cnt", "vqa")
# Of the executor on validation (docs/ceiling.md).
_CEILING = {"cnt": 0.954, "vqa": 0.930}


class Curve:
    """When a task's validation score first was half-way, in CPU-seconds of learning that task."""

    def __init__(self, half_way: dict[str, float]) -> None:
        self.half_way = half_way
        self.reached: dict[str, float] = {}
        self.best: dict[str, float] = {}
        self.start = time.process_time()

    def watch(self, strategy: Any) -> None:
        """See every score on validation, also of tasks that are learned at once."""
        score_of = strategy.validation_score

        def seen(validation: Experience) -> float:
            score: float = score_of(validation)
            self.see(validation.task.name, score)
            return score

        strategy.validation_score = seen

    def see(self, task: str, score: float) -> None:
        if task not in self.half_way:
            return
        self.best[task] = max(score, self.best.get(task, 0.0))
        if score >= self.half_way[task]:
            self.reached.setdefault(task, time.process_time() - self.start)


def floor_of(validation: Experience) -> float:
    task, samples = validation.task, validation.samples
    names = samples.store.names
    constant = task.constant(samples.columns, names)
    predicted = constant[None].repeat(len(samples), axis=0)
    return task.score(predicted, samples.columns, names)[task.metric]


def learn(name: str, seed: int) -> Curve:
    spec = load_spec(find_stream("stream.yaml")[0])
    stream = Stream.open(spec, seed=seed).as_avalanche()
    training, validation = list(stream.train_stream), list(stream.streams["val"])
    half_way = {
        v.task.name: (floor_of(v) + _CEILING[v.task.name]) / 2
        for v in validation
        if v.task.name in _TASKS
    }
    curve = Curve(half_way)
    kind = registry.load(registry.STRATEGIES[name])
    strategy = kind(options=kind.Options(), seed=seed)
    curve.watch(strategy)
    if strategy.at_once:
        strategy.learn_all(training, validation)
        return curve
    for experience, samples in zip(training, validation, strict=True):
        curve.start = time.process_time()
        strategy.learn(experience, samples)
    return curve


def main(seeds: list[int]) -> None:
    torch.set_num_threads(1)
    for name in _STRATEGIES:
        curves = [learn(name, seed) for seed in seeds]
        for task in _TASKS:
            taken = [f"{c.reached[task]:.0f}" if task in c.reached else "never" for c in curves]
            best = mean(curve.best[task] for curve in curves)
            half = curves[0].half_way[task]
            print(
                f"{name}, {task}: CPU-seconds to {half:.3f}, by seed: {', '.join(taken)}; "
                f"best score {best:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [100, 101, 102])
