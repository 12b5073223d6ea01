"""The mirror of a results folder in MLflow. The folder is the truth; the mirror can be made again.

Only who drives the runs writes here, never a run itself: a tracking server that is down costs a
warning, and ``sync`` catches up later. Points keep the time at which they were measured, and a
second sync adds nothing. Importing this file is cheap: MLflow comes with the first mirror.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmn_cl.errors import UserError
from pmn_cl.journal import JOURNAL, Event, read_journal
from pmn_cl.results import RESULT, Result, read_result
from pmn_cl.statistics import interval

if TYPE_CHECKING:
    from mlflow import MlflowClient

RUN_KEY, MIRRORED, PARENT = "pmn.run_key", "pmn.mirrored", "mlflow.parentRunId"
_DATABASE = "mlflow.db"
_PATIENCE = {  # training never waits long for a server
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "1",
}
_LONGEST_PARAM = 500


@dataclass(frozen=True)
class Mirrored:
    """What a sync found and did."""

    experiment: str  # its id
    parent: str
    runs: dict[str, str]  # MLflow's ids, by key
    written: list[str]  # keys of runs that were not there, or not whole


def default_uri(out: Path) -> str:
    """Return the place of the mirror beside the results."""
    return f"sqlite:///{(out / _DATABASE).resolve()}"


def connect(out: Path, uri: str | None = None) -> MlflowClient:
    """Return a client of the mirror; a database is made first where there is none.

    Several processes that open a database which is not there yet destroy it (MLflow 3.17), so
    this is done before any other may look.
    """
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    import logging

    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow import MlflowClient

    place = uri or default_uri(out)
    client = MlflowClient(tracking_uri=place)
    if place.startswith("sqlite:///"):
        client.search_experiments(max_results=1)
        with sqlite3.connect(place.removeprefix("sqlite:///")) as database:
            database.execute("PRAGMA journal_mode=WAL")
    return client


def sync(out: Path, uri: str | None = None) -> Mirrored:
    """Bring the mirror up to what the folder holds, and say what was missing."""
    folders = sorted(path.parent for path in out.glob(f"*/{RESULT}"))
    results = [read_result(folder / RESULT) for folder in folders]
    if not results:
        raise UserError(f"{out}: no results to mirror")
    client = connect(out, uri)
    stream = results[0].stream
    experiment = _experiment(client, f"pmn-bench {stream}", out, uri)
    parent = _run(
        client, experiment, f"stream {stream}", {"stream": stream, "mlflow.runName": stream}
    )
    ids, written = {}, []
    for folder, result in zip(folders, results, strict=True):
        tags = {**_tags(result), PARENT: parent, "mlflow.runName": f"{result.name} {result.seed}"}
        run = _run(client, experiment, result.key, tags, _milliseconds(result.started))
        ids[result.key] = run
        state = _state(folder)
        if client.get_run(run).data.tags.get(MIRRORED) != state:
            _mirror(client, run, result, read_journal(folder / JOURNAL))
            client.set_tag(run, MIRRORED, state)
            written.append(result.key)
    whole = hashlib.sha256(" ".join(map(_state, folders)).encode()).hexdigest()[:16]
    if client.get_run(parent).data.tags.get(MIRRORED) != whole:
        _mirror_parent(client, parent, results)
        client.set_tag(parent, MIRRORED, whole)
    return Mirrored(experiment, parent, ids, written)


def _experiment(client: MlflowClient, name: str, out: Path, uri: str | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    local = uri is None or uri.startswith("sqlite:")
    place = (out / "mlartifacts").resolve().as_uri() if local else None
    return str(client.create_experiment(name, artifact_location=place))


def _milliseconds(moment: str) -> int | None:
    return int(1000 * datetime.fromisoformat(moment).timestamp()) if moment else None


def _run(
    client: MlflowClient,
    experiment: str,
    key: str,
    tags: dict[str, str],
    started: int | None = None,
) -> str:
    """Return the run with our key, made where there is none."""
    found = client.search_runs([experiment], f"tags.`{RUN_KEY}` = '{key}'", max_results=1)
    if found:
        return str(found[0].info.run_id)
    made = client.create_run(experiment, start_time=started, tags={RUN_KEY: key, **tags})
    return str(made.info.run_id)


def _tags(result: Result) -> dict[str, str]:
    shown = ("strategy", "variant", "stream", "status")
    tags = {name: str(getattr(result, name)) for name in shown}
    return {**tags, "seed": str(result.seed), "fraction": f"{result.fraction:g}"}


def _state(folder: Path) -> str:
    """Return what changes whenever there is more to mirror."""
    whole = (folder / RESULT).read_bytes() + (folder / JOURNAL).read_bytes()
    return hashlib.sha256(whole).hexdigest()[:16]


def _mirror(client: MlflowClient, run: str, result: Result, events: Sequence[Event]) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

    params = [Param(name, value[:_LONGEST_PARAM]) for name, value in _params(result)]
    points = [Metric(*point) for point in _points(result, events)]
    tags = [RunTag(name, value) for name, value in _tags(result).items()]
    client.log_batch(run, params=params[:100], tags=tags)
    for first in range(0, len(points), 1000):
        client.log_batch(run, metrics=points[first : first + 1000])
    if result.data:
        data = Dataset(
            result.stream, result.data[:36], "local", json.dumps({"digest": result.data})
        )
        client.log_inputs(run, [DatasetInput(data, [InputTag("mlflow.data.context", "training")])])
    for split in result.scores:
        table: dict[str, Any] = {"after": _rows(result, split)}
        for column, task in enumerate(result.tasks):
            table[task] = [row[column] for row in result.scores[split]]
        if len(set(map(len, table.values()))) == 1:
            client.log_dict(run, table, f"score_matrix_{split}.json")
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "score_matrix.png"
        draw_matrix(result, picture)
        client.log_artifact(run, str(picture))
    status = {"completed": "FINISHED", "failed": "FAILED"}.get(result.status, "KILLED")
    ended = int(1000 * events[-1]["time"]) if events else int(1000 * time.time())
    client.set_terminated(run, status=status, end_time=ended)


def _rows(result: Result, split: str) -> list[str]:
    """Return after which task each row of a matrix was measured."""
    rows = result.scores.get(split, [])
    joint = len(rows) == 1 and None not in rows[0] and len(result.tasks) > 1
    return ["all"] if joint else result.tasks[: len(rows)]


def _params(result: Result) -> Iterator[tuple[str, str]]:
    # Params never change in MLflow: nothing here that a run that goes on would say otherwise.
    yield from ((name, value) for name, value in _tags(result).items() if name != "status")
    yield from (("budget", f"{result.budget:g}"), ("threads", str(result.threads)))
    yield "key", result.key
    for name, value in result.options.items() if result.tasks else ():
        yield f"option.{name}", json.dumps(value)


def _points(result: Result, events: Sequence[Event]) -> Iterator[tuple[str, float, int, int]]:
    """Yield every number of a run: name, value, time in milliseconds, experience as step."""
    done = [event for event in events if event["event"] == "experience"]
    offset = len(result.tasks) - 1 if len(done) == 1 and len(result.tasks) > 1 else 0
    for place, event in enumerate(done):
        step = place + offset if result.status == "completed" else place
        at = int(1000 * event["time"])
        for split, tasks in event["scores"].items():
            for task, metrics in tasks.items():
                primary = dict(zip(result.tasks, result.metrics, strict=True))[task]
                yield f"{split}/{task}", metrics[primary], at, step
                for name, value in metrics.items():
                    yield f"{split}/{task}/{_clean(name)}", value, at, step
        for name, value in {**event["cost"], **event["details"]}.items():
            yield f"cost/{_clean(name)}", float(value), at, step
        for name, value in event["parameters"].items():
            yield f"parameters/{name}", float(value), at, step
    if result.status == "completed" and done:
        at, last = int(1000 * done[-1]["time"]), len(result.tasks) - 1
        for split in result.scores:
            for name, found in result.summary(split).items():
                if found is not None:
                    yield f"{split}/{name}", found, at, last


def _clean(name: str) -> str:
    """Return a name as MLflow takes it."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name).replace("/", " or ")


def _mirror_parent(client: MlflowClient, parent: str, results: Sequence[Result]) -> None:
    """Log the mean over seeds of every strategy with its 95% interval."""
    from mlflow.entities import Metric

    now = int(1000 * time.time())
    by_name: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "completed":
            by_name.setdefault(result.name, []).append(result)
    points = []
    for name, some in by_name.items():
        for measure in ("average", "forgetting"):
            values = [value for r in some if (value := r.summary()[measure]) is not None]
            if values:
                mean, low, high = interval(values)
                found = {"mean": mean, "low": low, "high": high}
                points += [
                    Metric(f"{_clean(name)}/{measure}.{part}", value, now, len(values))
                    for part, value in found.items()
                    if value is not None
                ]
    client.log_batch(parent, metrics=points[:1000])
    ended = all(result.status == "completed" for result in results)
    client.set_terminated(parent, status="FINISHED" if ended else "FAILED")


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
    axes.set_yticks(range(len(rows)), [f"after {task}" for task in _rows(result, "test")])
    axes.set_title(f"{result.name}, seed {result.seed}: test")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value == value:
                ink = "black" if shares[i][j] > 0.6 else "white"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink)
    figure.savefig(path, dpi=100)
