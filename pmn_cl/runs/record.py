"""From training to the journal of a run, and from there to its record."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pmn_cl.config.spec import RunSpec
from pmn_cl.results.result import Epoch, Result, Row
from pmn_cl.runs.continual import INSIDE
from pmn_cl.runs.journal import Event, Journal
from pmn_cl.strategy.base import TrainingProgress


def curve_point(progress: TrainingProgress) -> dict[str, Any]:
    """Return what a validation has shown."""
    shown = {} if progress.seen is None else asdict(progress.seen)
    shown = {name: values for name, values in shown.items() if values}
    return {"step": progress.step, "loss": progress.loss, "score": progress.score, **shown}


def write_epoch(journal: Journal, task: str, point: Mapping[str, Any]) -> None:
    """Write down how a task goes, once: an epoch that was cut off comes to the same again."""
    seen = {"task": task, "step": point["step"]}
    if not any(seen.items() <= event.items() for event in journal.events):
        journal.write("epoch", task=task, **point)


def curve_of(task: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return how a task went."""
    return [
        {name: event[name] for name in Epoch.model_fields if name in event}
        for event in events
        if event["event"] == "epoch" and event["task"] == task
    ]


def result_of(run: RunSpec, events: Sequence[Event]) -> Result:
    """Return the record of a run, from what its journal says."""
    facts = next((event for event in reversed(events) if event["event"] == "started"), {})
    done = [event for event in events if event["event"] == "experience"]
    first, last = (events[0], events[-1]) if events else ({"time": 0.0}, {"time": 0.0})
    # Time in which a run that was cut off lay idle does not count.
    worked = sum(
        after["time"] - before["time"]
        for before, after in itertools.pairwise(events)
        if after["event"] != "started"
    )
    ended = last.get("event") in ("completed", "failed", "interrupted")
    tasks, metrics = facts.get("tasks", []), facts.get("metrics", [])
    splits = list(facts.get("constant", {}))

    def row(event: Event, split: str) -> Row:
        found = event["scores"][split]
        return [found[t][m] if t in found else None for t, m in zip(tasks, metrics, strict=True)]

    return Result.model_validate(
        {
            "key": run.key,
            "status": last["event"] if ended else "running",
            "run": run,
            "options": facts.get("options", run.strategy.options),
            "device": facts.get("device"),
            "tasks": tasks,
            "metrics": metrics,
            "scores": {split: [row(event, split) for event in done] for split in splits},
            "secondary": {split: [event["scores"][split] for event in done] for split in splits},
            "constant": facts.get("constant", {}),
            "floors": facts.get("floors", {}),
            "samples": facts.get("samples", {}),
            "validation": done[-1]["validation"] if done else {},
            "curves": {task: curve_of(task, events) for task in tasks},
            "inside": _inside(events, tasks),
            "work": {**_work(done), "matched": facts.get("matched")},
            "parameters": {
                what: [event["parameters"][what] for event in done]
                for what in ("total", "trainable")
            },
            "costs": [event["cost"] for event in done],
            "details": done[-1]["details"] if done else {},
            "weights": [event["weights"] for event in done],
            "data": facts.get("data", ""),
            "versions": facts.get("versions", {}),
            "revision": facts.get("revision"),
            "started": _moment(first["time"]),
            "seconds": round(worked, 3),
            "error": last.get("error"),
        }
    )


def _inside(events: Sequence[Event], tasks: Sequence[str]) -> dict[str, Any]:
    """Return what the probe came to inside tasks, in the order of training."""
    found = sorted(
        (event for event in events if event["event"] == INSIDE),
        key=lambda event: (event["phase"], event["step"]),
    )
    columns = {name: [event[name] for event in found] for name in ("phase", "step", "cpu_seconds")}
    return {**columns, "scores": [[e["scores"].get(task) for task in tasks] for e in found]}


def _work(done: Sequence[Event]) -> dict[str, Any]:
    """Return operations and bytes of the experiences that are done."""
    counted = [event["operations"] for event in done if "operations" in event]
    kept = [event["bytes"] for event in done if event.get("bytes")]
    uncounted = Counter[str]()
    for one in counted:
        uncounted.update(one["uncounted"])
    return {
        "learned": [one["learned"] for one in counted],
        "answer": counted[-1]["answer"] if counted else {},
        "uncounted": dict(uncounted),
        "bytes": {name: [one[name] for one in kept] for name in (kept[0] if kept else {})},
    }


def _moment(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="seconds")
