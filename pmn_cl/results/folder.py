"""The names of what is in the folder of a run."""

from __future__ import annotations

RESULT = "result.json"  # the record
JOURNAL = "journal.jsonl"  # what happened, line by line
OUTPUT = "output.txt"  # what the process printed
TRACEBACK = "traceback.txt"
PROGRESS = "progress.json"  # how far it is
LEARNED = "learned"  # the folder that `Strategy.save` writes
