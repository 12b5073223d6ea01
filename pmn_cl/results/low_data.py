"""The low-data regime: what is gained at each fraction, from results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmn_cl.results import paper
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import Paired, holm, paired

VARIANT, BASE = "low-data", "independent"


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
    published = dict(zip(paper.FRACTIONS, paper.GAINS, strict=True))
    return [
        Gain(ours, other, fraction, pair, p, published.get(fraction) if other == BASE else None)
        for (other, fraction, pair), p in zip(pairs, corrected, strict=True)
    ]
