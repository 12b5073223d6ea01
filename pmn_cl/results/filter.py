"""Which results of a folder a command is about. Cheap to import, for `--help`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultFilter:
    """Results of some strategies (with or without variant), seeds, fractions; none given: all."""

    strategies: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    fractions: tuple[float, ...] = ()
    statuses: tuple[str, ...] = ()
