"""The low-data regime: what is gained at each fraction, from results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmn_cl.results import paper
from pmn_cl.results.result import Result, finals
from pmn_cl.results.statistics import Paired, holm, paired

BASE = "independent"  # what gains are over in the paper


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
    swept = [r for r in results if r.run.study == "sweep" and r.status == "completed"]
    groups: dict[tuple[str, float], list[Result]] = {}
    for result in swept:
        groups.setdefault((result.strategy, result.fraction), []).append(result)
    by_seed = {group: found for group, some in groups.items() if (found := finals(some, split))}
    others = list(dict.fromkeys(r.strategy for r in swept if r.strategy != ours))
    fractions = sorted({fraction for _, fraction in by_seed})
    pairs = [
        (other, fraction, pair)
        for other in others
        for fraction in fractions
        if (pair := paired(by_seed.get((ours, fraction), {}), by_seed.get((other, fraction), {})))
    ]
    corrected = holm([pair.p for *_, pair in pairs])
    published = dict(zip(paper.FRACTIONS, paper.GAINS, strict=True))
    return [
        Gain(ours, other, fraction, pair, p, published.get(fraction) if other == BASE else None)
        for (other, fraction, pair), p in zip(pairs, corrected, strict=True)
    ]
