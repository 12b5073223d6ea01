"""What MLflow gets to see of a result: its tags, params and points. Not here: how it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np

from pmn_cl.config.spec import PROBE
from pmn_cl.errors import UserError
from pmn_cl.explaining.records.faithfulness import Faithfulness
from pmn_cl.results.bounds import normalised_scores, tops
from pmn_cl.results.compare import of_streams
from pmn_cl.results.measures.catalogue import in_context, known_measures, steps_of
from pmn_cl.results.measures.table import over_seeds as measured_over_seeds
from pmn_cl.results.result import Result, finals
from pmn_cl.results.statistics import interquartile_mean, interval
from pmn_cl.runs.continual import INSIDE
from pmn_cl.runs.journal import Event


def tags_of(result: Result) -> dict[str, str]:
    """Return what runs can be searched by."""
    shown = ("strategy", "variant", "stream", "status")
    tags = {name: str(getattr(result, name)) for name in shown}
    tags |= {"study": result.run.study, "rung": result.run.rung or ""}
    return {**tags, "seed": str(result.seed), "fraction": f"{result.fraction:g}"}


def rows_of(result: Result, split: str) -> list[str]:
    """Return after which task each row of a matrix was measured."""
    rows = result.scores.get(split, [])
    joint = len(rows) == 1 and None not in rows[0] and len(result.tasks) > 1
    return ["all"] if joint else result.tasks[: len(rows)]


def params_of(result: Result) -> Iterator[tuple[str, str]]:
    """Yield a run's settings; none that a run which goes on would say otherwise.

    Params never change in MLflow.
    """
    yield from ((name, value) for name, value in tags_of(result).items() if name != "status")
    yield from (("budget", f"{result.budget:g}"), ("threads", str(result.run.stream.threads)))
    yield "key", result.key
    for name, value in result.options.items() if result.tasks else ():
        yield f"option.{name}", json.dumps(value)


def points_of(
    result: Result, events: Sequence[Event], after: int = 0
) -> Iterator[tuple[str, float, int, int]]:
    """Yield every number of a run: name, value, time in milliseconds, step, usually experience.

    What the first events say is left out, where that was sent before.
    """
    done = [event for event in events if event["event"] == "experience"]
    primary = dict(zip(result.tasks, result.metrics, strict=True))
    for event in (event for event in events[after:] if event["event"] == "epoch"):
        at, step = int(1000 * event["time"]), event["step"]  # whose steps are the training's
        for name, value in _learning(event):
            yield f"learning/{event['task']}/{as_name(name)}", value, at, step
    for event in (event for event in events[after:] if event["event"] == "experience"):
        at, step = int(1000 * event["time"]), result.tasks.index(event["tasks"][-1])
        for split, tasks in event["scores"].items():
            for task, metrics in tasks.items():
                yield f"{split}/{task}", metrics[primary[task]], at, step
                for name, value in metrics.items():
                    yield f"{split}/{task}/{as_name(name)}", value, at, step
        for name, value in {**event["cost"], **event["details"]}.items():
            yield f"cost/{as_name(name)}", float(value), at, step
        for name, value in event["parameters"].items():
            yield f"parameters/{name}", float(value), at, step
    yield from _inside(result, events, after)
    if result.status == "completed" and done:
        at, last = int(1000 * done[-1]["time"]), len(result.tasks) - 1
        yield "cost/whole run cpu_seconds", sum(e["cost"]["cpu_seconds"] for e in done), at, last
        for split in result.scores:
            for name, found in result.summary(split).items():
                if found is not None:
                    yield f"{split}/{name}", found, at, last


def _inside(
    result: Result, events: Sequence[Event], after: int
) -> Iterator[tuple[str, float, int, int]]:
    """Yield the scores on the probe inside tasks, by the steps of the whole run."""
    begins, before = {}, 0
    for phase in range(len(result.scores.get(PROBE, [])) + 1):
        begins[phase] = before
        before += steps_of(result, phase)
    for event in (event for event in events[after:] if event["event"] == INSIDE):
        at = int(1000 * event["time"])
        for task, score in event["scores"].items():
            yield f"inside/{task}", score, at, begins.get(event["phase"], 0) + event["step"]


def _learning(event: Event) -> Iterator[tuple[str, float]]:
    """Yield what a validation showed."""
    yield from ((name, event[name]) for name in ("loss", "score"))
    for begin, of in (("family", "families"), ("attention", "mass"), ("gate", "gates")):
        yield from ((f"{begin} {name}", value) for name, value in event.get(of, {}).items())


def faithfulness_of(
    result: Result, measured: Faithfulness | None
) -> Iterator[tuple[str, float, int, int]]:
    """Yield how faithful a run's explanations are, where that was measured."""
    for split, some in measured.splits.items() if measured is not None else ():
        at = int(1000 * datetime.fromisoformat(some.measured).timestamp())
        for name, value in some.values.items():
            yield f"{split}/faithfulness/{as_name(name)}", value, at, len(result.tasks) - 1


def as_name(name: str) -> str:
    """Return a name as MLflow takes it."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name).replace("/", " or ")


def over_seeds(results: Sequence[Result]) -> Iterator[tuple[str, str, int, list[float]]]:
    """Yield what a strategy came to with each seed: name, measure, percent of data, values."""
    groups: dict[tuple[str, int], list[Result]] = {}
    top = tops(of_streams(results), "test")
    for result in results:
        if result.status == "completed" and result.run.study != "orders":  # they are no seeds
            groups.setdefault((result.name, round(result.fraction)), []).append(result)
    measures = known_measures(results)
    scored = {run.result.key: run for run in in_context(of_streams(results), "test")}
    for (name, fraction), some in groups.items():
        for measure in ("average", "forgetting"):
            values = [value for r in some if (value := r.summary()[measure]) is not None]
            yield name, measure, fraction, values
        runs = [scored[result.key] for result in some if result.key in scored]
        for one in measures if len(runs) == len(some) else ():
            # The raw one above is called forgetting, too.
            with suppress(UserError):  # of a measure of a user's own; `compare --measures` says it
                values = [] if one.name == "forgetting" else measured_over_seeds(one, runs)
                if values:
                    yield name, as_name(one.name), fraction, values
        shares = [own for r in some if (own := normalised_scores(r, "test", top)) is not None]
        if len(shares) == len(some):
            iqm = [float(interquartile_mean(np.array(own))) for own in shares]
            yield name, "normalised IQM over tasks", fraction, iqm
        for task in some[0].tasks:
            yield name, task, fraction, list(finals(some, task=task).values())


def interval_of(values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Yield the mean and the ends of its interval, where there are any."""
    if values:
        for part, value in zip(("mean", "low", "high"), interval(values), strict=True):
            if value is not None:
                yield part, value


def draw_matrix(result: Result, path: Path) -> None:
    """Draw the score matrix on test as a heat map; each task by its own best."""
    from matplotlib.figure import Figure

    rows = result.scores.get("test", [])
    values = [[float("nan") if v is None else v for v in row] for row in rows] or [[float("nan")]]
    figure = Figure(figsize=(1 + len(result.tasks), 1 + 0.6 * len(values)), layout="constrained")
    axes = figure.subplots()
    best = [max([v for v in column if v == v] or [1.0]) for column in zip(*values, strict=True)]
    shares = [[v / b if b else 0.0 for v, b in zip(row, best, strict=True)] for row in values]
    axes.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(result.tasks)), result.tasks)
    axes.set_yticks(range(len(rows)), [f"after {task}" for task in rows_of(result, "test")])
    axes.set_title(f"{result.name}, seed {result.seed}: test")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value == value:
                ink = "black" if shares[i][j] > 0.6 else "white"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink)
    figure.savefig(path, dpi=100)
