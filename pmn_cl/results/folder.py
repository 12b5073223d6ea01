"""What is in the folder of a run, by name, and which runs of a folder a command is about.

Cheap to import, for `--help`.
"""

from __future__ import annotations

from dataclasses import dataclass

RESULT = "result.json"  # the record
JOURNAL = "journal.jsonl"  # what happened, line by line
OUTPUT = "output.txt"  # what the process printed
TRACEBACK = "traceback.txt"
PROGRESS = "progress.json"  # how far it is
LEARNED = "learned"  # the folder that `Strategy.save` writes


@dataclass(frozen=True)
class ResultFilter:
    """Results of some strategies (with or without variant), seeds, fractions; none given: all."""

    strategies: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    fractions: tuple[float, ...] = ()
    statuses: tuple[str, ...] = ()
