"""Which runs a stream asks for, and which of them comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pmn_cl.config.orders import orders_of
from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StrategySpec

_OF_MODULES = ("pmn", "independent", "parameter_matched")  # strategies that have some in common


def plan_runs(
    spec: BenchmarkSpec,
    strategies: Sequence[str] = (),
    seeds: Sequence[int] = (),
    reuse: Path | None = None,
) -> list[RunSpec]:
    """Return the runs of a stream, or those of some strategies and seeds.

    ``reuse`` is where they share what they learn in the same way.
    """
    return [
        RunSpec(
            stream=spec.stream.model_copy(update={"tasks": tasks}),
            strategy=strategy,
            seed=seed,
            study="orders" if number else "run",
            matched=matched_spec(spec, strategy),
            splits=list(spec.splits),
            reuse=None if reuse is None else str(reuse),
        )
        for number, tasks in enumerate(orders_of(spec))
        for strategy in spec.strategies
        if not strategies or strategy.name in strategies
        for seed in dict.fromkeys(seeds or spec.seeds)
    ]


def matched_spec(spec: BenchmarkSpec, strategy: StrategySpec) -> StrategySpec | None:
    """Return what the stream says of the strategy that another is to be as large as."""
    return None if strategy.matched_to is None else spec.plain(strategy.matched_to)


def next_run(waiting: Sequence[RunSpec], running: Iterable[RunSpec]) -> RunSpec:
    """Return the run to start next: the first, unless it would wait for modules that one learns.

    Those that others will take modules from come before the rest, so that these find them.
    """
    learning = {_sharers(run) for run in running} - {None}
    wanted = Counter(_sharers(run) for run in waiting)

    def rank(run: RunSpec) -> tuple[bool, bool]:
        sharers = _sharers(run)
        helps = sharers is not None and wanted[sharers] > 1
        return sharers in learning, not helps

    return min(waiting, key=rank)


def _sharers(run: RunSpec) -> tuple[str, int] | None:
    """Return what is the same for runs that are likely to have modules in common."""
    if run.reuse is None or run.strategy.name not in _OF_MODULES:
        return None
    return run.reuse, run.seed
