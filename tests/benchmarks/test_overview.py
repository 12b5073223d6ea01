"""The overview of a stream: it loses nothing in a narrow terminal."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from commands import STREAM
from rich.console import Console

from benchmarks import overview
from benchmarks.stream import Stream
from pmn_cl.config.stream import load_spec

BIG = {"train": 100_000, "test": 20_000}  # samples, as many as the default stream has


def test_tables_lose_no_number_in_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(STREAM)
    stream = Stream.open(load_spec(path), 0, cache=tmp_path)
    # Scoring a hundred thousand captions takes seconds and says nothing about tables.
    scores = {e.task.name: overview.constant_scores(stream, e) for e in stream.tasks}
    monkeypatch.setattr(overview, "constant_scores", lambda _, e: scores[e.task.name])
    for experience in stream.tasks:
        for split, count in BIG.items():
            samples = experience.splits[split]
            experience.splits[split] = dataclasses.replace(
                samples, rows=np.resize(samples.rows, count)
            )
    for columns in (80, 200):
        console = Console(width=columns, file=io.StringIO(), force_terminal=False)
        overview.print_overview(stream, console)
        printed = console.file.getvalue()  # type: ignore[attr-defined]
        assert "…" not in printed
        assert printed.count("100,000") == printed.count("20,000") == 5
        assert max(map(len, printed.splitlines()[3:])) <= columns
