"""Which runs there are to be, and all that decides what one of them comes to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pmn_cl.config.stream import StreamSpec
from pmn_cl.strategy.matching import VARIANT

SPLITS = ("test", "novel")  # that results are about


@dataclass(frozen=True)
class RunSpec:
    """What is to be run."""

    stream: StreamSpec
    strategy: str
    variant: str
    options: dict[str, Any]  # as given
    seed: int
    judged_on: tuple[str, ...] = SPLITS  # the splits that it is scored on
    judged_at_end: bool = False  # not after every experience
    # A folder of modules that other runs have learned or will: it changes costs, but no score.
    reuse: str | None = None

    @property
    def key(self) -> str:
        """Return a name for the run that says what it is, and changes with all that matters."""
        name = "-".join(filter(None, (self.strategy, self.variant)))
        readable = re.sub(r"[^\w.]+", "-", name).strip("-")
        return f"{readable}-seed{self.seed}-{self.digest[:8]}"

    @property
    def digest(self) -> str:
        """Return a digest of all that decides the result, but for the code."""
        text = json.dumps(self._identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _identity(self) -> dict[str, Any]:
        # Without defaults, so that a field added later does not make old runs unknown.
        matters = {"world", "tasks", "fraction", "budget", "threads"}
        stream = self.stream.model_dump(include=matters, exclude_defaults=True)
        given = {"strategy": self.strategy, "variant": self.variant, "options": self.options}
        judged: dict[str, Any] = {}
        if self.judged_on != SPLITS:
            judged["judged_on"] = self.judged_on
        if self.judged_at_end:
            judged["judged_at_end"] = True
        model = {"matched": self.matched} if self.matched else {}
        return {**stream, **given, "seed": self.seed, **judged, **model}

    @property
    def matched(self) -> list[dict[str, Any]]:
        """Return what the stream says of the strategy that the variant is to be as large as."""
        other = self.variant.removeprefix(VARIANT)
        return [s for s in self.stream.strategies if s["name"] == other != self.variant]


def plan_runs(
    spec: StreamSpec, strategies: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[RunSpec]:
    """Return the runs of a stream, or those of some strategies and seeds."""
    runs = []
    for given in spec.strategies:
        options = {k: v for k, v in given.items() if k not in ("name", "variant")}
        if not strategies or given["name"] in strategies:
            runs += [
                RunSpec(spec, given["name"], given.get("variant", ""), options, seed)
                for seed in dict.fromkeys(seeds or spec.seeds)
            ]
    return runs
