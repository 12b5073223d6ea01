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
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmn_cl.config.spec import RunSpec
from pmn_cl.errors import UserError
from pmn_cl.explaining.records.faithfulness import Faithfulness, read_faithfulness
from pmn_cl.files import held, write_whole
from pmn_cl.human_eval.numbers import judged_points
from pmn_cl.mlflow_mirror.exit import do_not_wait_for
from pmn_cl.mlflow_mirror.points import (
    as_name,
    draw_matrix,
    faithfulness_of,
    interval_of,
    over_seeds,
    params_of,
    points_of,
    rows_of,
    tags_of,
)
from pmn_cl.mlflow_mirror.views import saved_views
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.runs.journal import Event, read_journal
from pmn_cl.runs.record import result_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

RUN_KEY, MIRRORED, PARENT = "pmn.run_key", "pmn.mirrored", "mlflow.parentRunId"
STARTED = "pmn.started"  # distinguishes a run that was started over from one that went on
_DATABASE, _ARTIFACTS, _FOLDER_ID = "mlflow.db", "mlartifacts", ".mirror"
_PATIENCE = {  # of one request
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "1",
    "GIT_PYTHON_REFRESH": "quiet",
}
_LOOK_EVERY = 5.0  # seconds between two looks at the journals of running runs
_LAST_WAIT = 15.0  # seconds that a mirror may take when all runs have ended
_HURRIED_WAIT = 0.5  # where the user has interrupted them
_LONGEST_PARAM = 500


class NoMirrorError(Exception):
    """MLflow does not answer, or cannot be written."""


@dataclass(frozen=True)
class Mirrored:
    """Where a folder's runs are in MLflow, and what a sync had to write."""

    experiment: str  # its id
    parent: str
    runs: dict[str, str]  # MLflow's ids, by key
    views: dict[str, str]  # ids of saved views, by title
    written: list[str] = field(default_factory=list)  # keys of runs that were not there, or whole


def default_uri(out: Path) -> str:
    """Return the place of the mirror beside the results."""
    return f"sqlite:///{(out / _DATABASE).resolve()}"


def check_uri(uri: str | None) -> None:
    """Refuse what is no place for a mirror, before anything waits for it."""
    if uri is not None and "://" not in uri and uri != "databricks":
        raise UserError(
            f"--tracking {uri}: expected a tracking URI such as http://host:5000 or "
            "sqlite:////folder/mlflow.db, or off"
        )


def is_local(uri: str | None) -> bool:
    """Whether a mirror is a file that this process writes itself."""
    return uri is None or uri.startswith("sqlite:")


def connect(out: Path, uri: str | None = None) -> MlflowClient:
    """Return a client of the mirror; a database is made first where there is none.

    Several processes that open a database which is not there yet destroy it (MLflow 3.17), so
    only who holds the mirror comes here.
    """
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    import logging

    for talkative in ("alembic", "mlflow.store.db.utils"):  # what matters is raised
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
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
    events = [read_journal(folder / JOURNAL) for folder in folders]
    with _holding(out), _reaching(uri or default_uri(out)):
        mirror = Mirror(out, results[0].stream, uri)
        for result, happened in zip(results, events, strict=True):
            mirror.put(result, happened)
        return mirror.conclude(results)


@contextmanager
def _holding(out: Path) -> Iterator[None]:
    (out / _ARTIFACTS).mkdir(parents=True, exist_ok=True)
    with held(out / _ARTIFACTS, "the mirror in MLflow", patience=60.0):
        yield


@contextmanager
def _reaching(place: str) -> Iterator[None]:
    """Turn whatever MLflow, its database or the network raise into one short sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        text = str(error).split("(Caused by")[0].strip().splitlines()
        why = f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
        raise NoMirrorError(f"MLflow at {place} cannot be written: {why}") from error


class LiveMirror:
    """Mirrors runs while they go on, in a thread of its own: training never waits for it.

    The first thing that goes wrong ends it with one warning.
    """

    def __init__(
        self, out: Path, runs: Sequence[RunSpec], uri: str | None, warn: Callable[[str], None]
    ) -> None:
        self._out, self._runs, self._uri, self._warn = out, list(runs), uri, warn
        self._over = threading.Event()
        self._seen: dict[str, tuple[bool, int]] = {}
        self._results: dict[str, Result] = {}
        self._mirrored: Mirrored | None = None
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def close(self, patience: float = _LAST_WAIT, *, in_a_hurry: bool = False) -> Mirrored | None:
        """Mirror what is left, but do not wait long for it; return where it is.

        Who is in a hurry is not told what is left: it is mirrored when they go on.
        """
        self._over.set()
        self._warned |= in_a_hurry
        patience = min(patience, _HURRIED_WAIT) if in_a_hurry else patience
        self._thread.join(patience)
        if self._thread.is_alive():
            do_not_wait_for(self._thread)
            self._give_up(f"MLflow at {self._place} was not done within {patience:g} s")
        return self._mirrored

    @property
    def _place(self) -> str:
        return self._uri or default_uri(self._out)

    def _give_up(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(
                f"warning: {why}. Nothing is lost: the results are in {self._out}, and "
                f"`pmn-bench sync {self._out}` mirrors them later."
            )

    def _work(self) -> None:
        try:
            mirror = None
            while True:
                over = self._over.wait(_LOOK_EVERY if mirror else 0)
                with _holding(self._out), _reaching(self._place):
                    mirror = mirror or Mirror(self._out, self._runs[0].stream.name, self._uri)
                    for run in self._runs:
                        self._look(mirror, run)
                    if over:
                        self._mirrored = mirror.conclude(list(self._results.values()))
                        return
        except (NoMirrorError, UserError) as error:  # the runs are worth more
            self._give_up(str(error))

    def _look(self, mirror: Mirror, run: RunSpec) -> None:
        """Mirror what is new of a run."""
        folder = self._out / run.key
        if not (folder / JOURNAL).exists():
            return
        now = (folder / RESULT).exists(), (folder / JOURNAL).stat().st_size
        if self._seen.get(run.key) != now:
            self._seen[run.key] = now
            events = read_journal(folder / JOURNAL)
            if events:
                ended, _ = now
                result = read_result(folder / RESULT) if ended else result_of(run, events)
                mirror.put(result, events)
                self._results[run.key] = result


class Mirror:
    """The runs of one folder in MLflow: a parent, and a child for each of them."""

    def __init__(self, out: Path, stream: str, uri: str | None = None) -> None:
        self._out, self._uri = out, uri
        self.client = connect(out, uri)
        self.experiment = self._find_experiment(f"pmn-bench {stream}")
        folder = _folder_id(out)
        found = self._find(f"tags.`{RUN_KEY}` = '{folder}'")
        self.parent: str = (
            found[0].info.run_id
            if found
            else self._create({RUN_KEY: folder, "stream": stream, "mlflow.runName": stream})
        )
        self._ids: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._sent: dict[str, int] = {}  # events of a run, by its id
        self._written: list[str] = []
        for run in self._find(f"tags.`{PARENT}` = '{self.parent}'"):
            self._ids[run.data.tags[RUN_KEY]] = run.info.run_id
            self._states[run.info.run_id] = run.data.tags.get(MIRRORED, "")

    def put(self, result: Result, events: Sequence[Event]) -> None:
        """Mirror one run, as far as it has come, unless it is there already."""
        measured = read_faithfulness(self._out / result.key)
        state = _state(result, events, measured)
        run = self._child(result)
        if self._states.get(run) == state:
            return
        self._log_points(run, result, events, measured)
        self.client.set_tag(run, MIRRORED, state)
        self._states[run] = state
        if result.key not in self._written:
            self._written.append(result.key)

    def conclude(self, results: Sequence[Result]) -> Mirrored:
        """Say on the parent what all runs came to, and save the views that compare them."""
        views = saved_views(results, self.parent, self._title())
        parts = [self._states[self._ids[r.key]] for r in results] + [
            v.state for v in views.values()
        ]
        parts += map(str, judged_points(self._out))
        state = hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
        tags = self.client.get_run(self.parent).data.tags
        if tags.get(MIRRORED) != state and results:
            self._log_means(results)
            for view in views.values():
                self.client.set_experiment_tag(self.experiment, view.tag, view.value)
            self.client.set_tag(self.parent, MIRRORED, state)
        known = {result.key: self._ids[result.key] for result in results}
        ids = {title: view.id for title, view in views.items()}
        return Mirrored(self.experiment, self.parent, known, ids, self._written)

    def _title(self) -> str:
        """Return what distinguishes this folder from others on a server that many use."""
        return "" if is_local(self._uri) else f" ({self._out.resolve().name})"

    def _find_experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        place = (self._out / _ARTIFACTS).resolve().as_uri() if is_local(self._uri) else None
        kind = {"mlflow.experimentKind": "custom_model_development"}
        made = self.client.create_experiment(name, artifact_location=place, tags=kind)
        return str(made)

    def _find(self, query: str) -> list[Any]:
        found: list[Any] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment], query, max_results=1000, page_token=token
            )
            found += page
            token = page.token
            if not token:
                return found

    def _create(self, tags: dict[str, str], started: int | None = None) -> str:
        made = self.client.create_run(self.experiment, start_time=started, tags=tags)
        return str(made.info.run_id)

    def _child(self, result: Result) -> str:
        """Return the run of a result; one that was started over replaces the old one."""
        known = self._ids.get(result.key)
        if known is not None:
            if self.client.get_run(known).data.tags.get(STARTED) == result.started:
                return known
            self.client.delete_run(known)
        tags = {RUN_KEY: result.key, PARENT: self.parent, STARTED: result.started}
        tags["mlflow.runName"] = f"{result.name} {result.seed}"
        moment = int(1000 * datetime.fromisoformat(result.started).timestamp())
        self._ids[result.key] = self._create({**tags, **tags_of(result)}, moment)
        return self._ids[result.key]

    def _log_points(
        self,
        run: str,
        result: Result,
        events: Sequence[Event],
        measured: Faithfulness | None,
    ) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

        params = [Param(name, value[:_LONGEST_PARAM]) for name, value in params_of(result)]
        points = [Metric(*p) for p in points_of(result, events, self._sent.get(run, 0))]
        points += [Metric(*p) for p in faithfulness_of(result, measured)]
        tags = [RunTag(name, value) for name, value in tags_of(result).items()]
        first, *others = [points[n : n + 1000] for n in range(0, len(points), 1000)] or [[]]
        self.client.log_batch(run, metrics=first, params=params[:100], tags=tags)
        for more in others:
            self.client.log_batch(run, metrics=more)
        if result.data and run not in self._sent:
            facts = json.dumps({"digest": result.data})
            data = Dataset(result.stream, result.data[:36], "local", facts)
            context = [InputTag("mlflow.data.context", "training")]
            self.client.log_inputs(run, [DatasetInput(data, context)])
        self._sent[run] = len(events)
        if result.status == "running":
            self.client.update_run(run, status="RUNNING")  # also one that was interrupted
            return
        for split in result.scores:
            table: dict[str, Any] = {"after": rows_of(result, split)}
            for column, task in enumerate(result.tasks):
                table[task] = [row[column] for row in result.scores[split]]
            if len(set(map(len, table.values()))) == 1:
                self.client.log_dict(run, table, f"score_matrix_{split}.json")
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "score_matrix.png"
            draw_matrix(result, picture)
            self.client.log_artifact(run, str(picture))
        status = {"completed": "FINISHED", "failed": "FAILED"}.get(result.status, "KILLED")
        self.client.set_terminated(run, status=status, end_time=int(1000 * events[-1]["time"]))

    def _log_means(self, results: Sequence[Result]) -> None:
        """Log the mean over seeds of every strategy with its 95% interval, by fraction of data.

        And what people thought of explanations, where they were asked.
        """
        from mlflow.entities import Metric

        at = int(1000 * max(_ended(result) for result in results))
        points = [
            Metric(f"{as_name(name)}/{measure}.{part}", value, at, fraction)
            for name, measure, fraction, values in over_seeds(results)
            for part, value in interval_of(values)
        ]
        points += [Metric(*point, 0) for point in judged_points(self._out)]
        for first in range(0, len(points), 1000):
            self.client.log_batch(self.parent, metrics=points[first : first + 1000])
        ended = all(result.status == "completed" for result in results)
        status = "FINISHED" if ended else "FAILED"
        self.client.set_terminated(self.parent, status=status, end_time=at)


def _folder_id(out: Path) -> str:
    """Return what a folder is known by on any server, wherever it is moved."""
    path = out / _FOLDER_ID
    if not path.exists():
        write_whole(path, uuid.uuid4().hex)
    return path.read_text("utf-8").strip()


def _state(result: Result, events: Sequence[Event], measured: Faithfulness | None) -> str:
    """Return what changes whenever there is more to mirror."""
    whole = result.model_dump_json(exclude={"seconds"}) + str(len(events))
    if measured is not None:
        whole += measured.model_dump_json()
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _ended(result: Result) -> float:
    return datetime.fromisoformat(result.started).timestamp() + result.seconds
