"""Which runs a stream asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StrategySpec


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
            stream=spec.stream,
            strategy=strategy,
            seed=seed,
            matched=matched_spec(spec, strategy),
            splits=list(spec.splits),
            reuse=None if reuse is None else str(reuse),
        )
        for strategy in spec.strategies
        if not strategies or strategy.name in strategies
        for seed in dict.fromkeys(seeds or spec.seeds)
    ]


def matched_spec(spec: BenchmarkSpec, strategy: StrategySpec) -> StrategySpec | None:
    """Return what the stream says of the strategy that another is to be as large as."""
    return None if strategy.matched_to is None else spec.plain(strategy.matched_to)
