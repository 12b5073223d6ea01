"""What is shown of runs that go on."""

from __future__ import annotations

import io

import pytest
from made_results import FIELD
from rich.console import Console
from tiny_streams import TINY

from pmn_cl.config.stream import load_spec
from pmn_cl.runs import progress as watching
from pmn_cl.runs.plan import plan_runs
from pmn_cl.runs.progress import ProgressDisplay


def watched(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> tuple[list[str], list[float]]:
    """Runs, one done before, that go half through their second of three tasks in 50 seconds."""
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, markup=False, highlight=False)
    runs = plan_runs(load_spec(TINY), ["pmn"])
    told = {"task": "att", "epoch": 1, "epochs": 2, "loss": 0.5, "score": 0.25}
    with ProgressDisplay(runs, console) as watcher:
        watcher.begin(1)
        clock[0] = 50.0
        running = {runs[1].key: {**told, "step": 5, "steps": 10}}
        watcher.update(running, [])
        watcher.update(running, [])
        clock[0] = 100.0
        watcher.update({}, FIELD[:1])
    return out.getvalue().splitlines(), clock


def test_plain_lines_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, _ = watched(monkeypatch, terminal=False)
    assert lines[0] == "1 of 2 runs are done already"
    # One and a half of three tasks took 50 s, so the other half will.
    assert lines[1].endswith("att epoch 1 of 2, loss 0.500, validation 0.250, about 50 s left")
    assert lines[2].startswith("[2/2] pmn-0: completed, average 0.750, forgetting 0.000")
    assert len(lines) == 3  # nothing is said twice


def noted(terminal: bool) -> str:
    """A run that waits for a module, and then has it."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, markup=False, highlight=False)
    [run] = plan_runs(load_spec(TINY), ["pmn"], [0])
    nothing = {"task": "att", "epoch": 1, "epochs": 1, "loss": 0.0, "score": None, "steps": 1}
    waits = {**nothing, "step": 0, "note": "waits for another run to learn it"}
    there = {**nothing, "step": 1, "note": "learned by another run", "score": 0.5}
    with ProgressDisplay([run], console) as watcher:
        watcher.begin(1)
        for report in (waits, waits, there, there):
            watcher.update({run.key: report}, [])
    return out.getvalue()


def test_a_run_that_does_not_learn_says_what_it_does_instead() -> None:
    waits, there = noted(terminal=False).splitlines()
    assert ": att: waits for another run to learn it" in waits
    assert ": att: learned by another run, validation 0.500" in there
    shown = noted(terminal=True)
    assert "waits for another run to learn it" in shown and "learned by another run" in shown
    assert "0.000" not in shown  # no loss is made up


def test_a_table_where_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, _ = watched(monkeypatch, terminal=True)
    text = "\n".join(lines)
    assert "█████░░░░░ 50%" in text and "1 of 2 runs done, 50 s so far, about 50 s left" in text
