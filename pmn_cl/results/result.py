"""The record of a run: what was run, how it scored, what it cost. No torch here.

A ``result.json`` is written once, when a run ends, and never changed. What it says about scores
is the matrix `R[i][j]` (task j after experience i); everything else about scores follows from it.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmn_cl.config.spec import PROBE as PROBE
from pmn_cl.config.spec import RunSpec
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.files import write_whole
from pmn_cl.results import scores
from pmn_cl.results.folder import RESULT, ResultFilter
from pmn_cl.results.version1 import upgraded

VERSION: Literal[2] = 2
SCHEMA = Path(__file__).with_name("result.schema.json")
_VERSION_1 = b'"version": 1,'
_MAKE_AGAIN = "move it away, and `pmn-bench run` makes it again"

Row = list[float | None]
Bound = Literal["floor", "ceiling"]
FLOOR, CEILING = "constant", "executor"  # strategies that show what lies between
BASES = ("independent", "parameter_matched")  # which put no query to M_rel
# Among the details: how many modules other runs had learned, and what of `cpu_seconds` was theirs.
REUSED, REUSED_CPU = "modules_reused", "cpu_seconds_reused"


class _Record(BaseModel):
    """A part of the record. What stands below its fields becomes the schema's descriptions."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="null",
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class Failure(_Record):
    """What ended a run that was not completed."""

    kind: str
    """Of exception; `ProcessEnded` where the whole process did."""
    message: str
    """What went wrong, and what to do about it."""
    traceback: str | None = None
    """The file that holds it, beside the result."""


class Cost(_Record):
    """What one experience took; where another run had learned it, what learning took there."""

    learn_seconds: float
    """Spent on learning."""
    evaluate_seconds: float
    """Spent on scoring all that was learned so far."""
    cpu_seconds: float
    """Of both, on all cores."""
    learn_peak_bytes: int
    """The most memory that the process had while it learned."""
    evaluate_peak_bytes: int
    """The most memory that the process had while it was evaluated."""
    samples_seen: int
    """So far in the run; a sample that is seen twice counts twice."""


class Work(_Record):
    """What a run took in floating-point operations (two for each product that is added up), and
    what it keeps in bytes.
    """

    learned: list[float | None] = Field(default_factory=list)
    """Operations of learning each experience; null: not counted."""
    answer: dict[str, float] = Field(default_factory=dict)
    """By task: operations of answering one sample whose scene is new."""
    uncounted: dict[str, int] = Field(default_factory=dict)
    """By name: elements that other operations made in all learning, which are not counted."""
    matched: float | None = None
    """To how much of the strategy that it is matched to, before learning; null: to none."""
    bytes: dict[str, list[int]] = Field(default_factory=dict)
    """After each experience: of `weights`, `buffers`, and what the `method` keeps beside them."""


class Epoch(_Record):
    """What was known of a task's training at the end of an epoch."""

    step: int
    """How many batches it had learned from."""
    loss: float
    """Of the last batch."""
    score: float
    """On validation."""
    families: dict[str, float] = Field(default_factory=dict)
    """By question family: the same score of its questions alone."""
    mass: dict[str, float] = Field(default_factory=dict)
    """By question family: how much attention was on the regions that its questions are about."""
    gates: dict[str, float] = Field(default_factory=dict)
    """By callee: how much it counted, on average over questions."""


INSIDE_DIGITS = 5  # of scores inside tasks: on a few hundred samples


class Inside(_Record):
    """What the probe of all tasks seen so far came to while a task was learned, evaluation by
    evaluation. That after a phase is no part of it: `scores` has it as the split `probe`.
    """

    phase: list[int] = Field(default_factory=list)
    """In which phase, from 0: an experience, or all of them where they are learned at once."""
    step: list[int] = Field(default_factory=list)
    """After how many steps of the phase."""
    cpu_seconds: list[float] = Field(default_factory=list)
    """That learning had taken by then in the phase."""
    scores: list[Row] = Field(default_factory=list)
    """The primary metric of each task of the stream; null: not scored."""


class Floor(_Record):
    """What the question families of a task come to where nothing was learned."""

    scores: dict[str, dict[str, float]]
    """By split and family: of the answer that serves the family's samples of this split best."""
    mass: dict[str, float]
    """By family: on validation, of an attention on all regions alike; see `Epoch`."""


class Result(_Record):
    """One (stream, strategy, seed, variant) of a continual-learning benchmark, carried through
    or not. Scores are the matrix `R[i][j]`: task j after experience i.
    """

    model_config = ConfigDict(title="Result of a pmn-bench run")

    version: Literal[2] = VERSION
    """Of this format."""
    key: str
    """The name of the run and of its folder: it changes with all that decides the result."""
    status: Literal["completed", "failed", "interrupted", "running"]
    """How it ended; an interrupted run goes on when it is run again, a failed one starts over."""
    run: RunSpec
    """All that was asked for: enough to run it again. Call lists are resolved."""
    incomplete: str | None = None
    """What an older record lacks of that; null where nothing is missing."""
    upgraded_from: Literal[1] | None = None
    """The older version that it was read from, whose keys were made otherwise; null: none."""
    device: str | None = None
    """That it was computed on; null in records from before it was kept."""
    options: dict[str, Any]
    """Of the strategy, all of them."""
    tasks: list[str]
    """In the order in which they are learned."""
    metrics: list[str]
    """The primary one of each task; higher is better."""
    scores: dict[str, list[Row]]
    """By split: R, with a row for each experience and a column for each task; null: not scored."""
    secondary: dict[str, list[dict[str, dict[str, float]]]]
    """By split: for each experience all metrics of each task learned so far."""
    constant: dict[str, Row]
    """By split: what the best constant answer scores on each task."""
    floors: dict[str, Floor] = Field(default_factory=dict)
    """By task, where it has question families: what these come to where nothing was learned."""
    samples: dict[str, list[int]]
    """By split: the number of samples of each task."""
    validation: dict[str, float]
    """By task: the validation score of the epoch that was chosen."""
    curves: dict[str, list[Epoch]] = Field(default_factory=dict)
    """By task: how it was learned, here or by the run that it was taken from."""
    inside: Inside = Field(default_factory=Inside)
    """What became of all tasks while one was learned, where the stream asks for it."""
    work: Work = Field(default_factory=Work)
    """Operations and bytes, where they were counted."""
    parameters: dict[Literal["total", "trainable"], list[int]]
    """How many there are after each experience."""
    costs: list[Cost]
    """Of each experience."""
    details: dict[str, float] = Field(default_factory=dict)
    """What a strategy reports of itself."""
    weights: list[str]
    """Digests of all weights after each experience."""
    data: str
    """The digest of the world's store."""
    versions: dict[str, str]
    """Of what numbers may depend on: Python, torch, …"""
    revision: str | None
    """Of the code, where it is known; a `+` at its end says that files were changed."""
    started: str
    """When it began: ISO 8601, UTC."""
    seconds: float
    """While it worked, or waited for another run to learn; not while it was cut off."""
    error: Failure | None = None
    """Why it is not completed, where that is known."""

    @property
    def name(self) -> str:
        """Return the strategy with its variant."""
        return self.run.strategy.label

    @property
    def strategy(self) -> str:
        """Return the name of the strategy."""
        return self.run.strategy.name

    @property
    def competes(self) -> bool:
        """Return whether it is a way to learn the stream, and not there to compare with."""
        return self.strategy not in (FLOOR, CEILING)

    @property
    def bound(self) -> Bound | None:
        """Return which end of what can be reached it shows: programs on modules show none."""
        if self.strategy == FLOOR:
            return "floor"
        wide = self.options.get("probe", "wide") == "wide"
        return "ceiling" if self.strategy == CEILING and wide else None

    @property
    def told(self) -> bool | None:
        """Return whether it was told [b, r] of cnt's questions; None: of others', too."""
        return None if {*self.told_of} - {"cnt"} else bool(self.told_of)

    @property
    def told_of(self) -> list[str]:
        """Return the tasks of whose questions it was told [b, r]; base modules ask nobody."""
        tasks: list[str] = self.options.get("supervise") or []
        return [] if self.strategy in BASES else tasks

    @property
    def variant(self) -> str:
        """Return the label of its settings."""
        return self.run.strategy.variant

    @property
    def seed(self) -> int:
        """Return the seed of all randomness in the run."""
        return self.run.seed

    @property
    def stream(self) -> str:
        """Return the name of the stream."""
        return self.run.stream.name

    @property
    def fraction(self) -> float:
        """Return how many percent of the training samples there were."""
        return self.run.stream.fraction

    @property
    def budget(self) -> float:
        """Return how many percent of the usual training there were."""
        return self.run.stream.budget

    @property
    def settings(self) -> str:
        """Return all that decides the result but seed, label and code: equal for equal settings."""
        # Of the run without its options, as given: `options` has them all.
        options = {name: value for name, value in self.options.items() if name != "start_from"}
        return json.dumps([self.run.settings(), options], sort_keys=True)

    def labelled(self, variant: str) -> Result:
        """Return the same record under another label."""
        strategy = self.run.strategy.model_copy(update={"variant": variant})
        run = self.run.model_copy(update={"strategy": strategy})
        return self.model_copy(update={"run": run})

    def matrix(self, split: str = "test") -> list[Row]:
        """Return R with a row for every experience, empty where none was measured."""
        rows = self.scores.get(split, [])
        empty: Row = [None] * len(self.tasks)
        if len(rows) == len(self.tasks):
            return rows
        joint = len(rows) == 1 and self.status == "completed"
        missing = [empty] * (len(self.tasks) - len(rows))
        return [*missing, *rows] if joint else [*rows, *missing]

    def final(
        self, split: str = "test", task: str | None = None, metric: str | None = None
    ) -> float | None:
        """Return the last score on a task: the last one's primary metric, or another's."""
        rows = self.scores.get(split)
        task = task or (self.tasks[-1] if self.tasks else None)
        if not rows or task not in self.tasks:
            return None
        if metric is None:
            return rows[-1][self.tasks.index(task)]
        known = self.secondary.get(split) or [{}]
        return known[-1].get(task, {}).get(metric)

    def summary(self, split: str = "test") -> dict[str, float | None]:
        """Return the raw measures of a run."""
        if not self.tasks:  # it ended before it knew what there is to learn
            return dict.fromkeys(("average", "forgetting", "bwt", "fwt"))
        matrix = self.matrix(split)
        constant = self.constant.get(split, [None] * len(self.tasks))
        return {
            "average": scores.final_average(matrix),
            "forgetting": scores.forgetting(matrix),
            "bwt": scores.backward_transfer(matrix),
            "fwt": scores.forward_transfer(matrix, constant),
        }


def leading_split(results: Iterable[Result]) -> str:
    """Return the split that tables lead with: test, unless no result has it."""
    found = dict.fromkeys(split for result in results for split in result.scores)
    return "test" if "test" in found else next(iter(found), "test")


def finals(
    results: Iterable[Result],
    split: str = "test",
    task: str | None = None,
    metric: str | None = None,
) -> dict[int, float]:
    """Return the last score on a task by seed, of those that have one."""
    found = {result.seed: result.final(split, task, metric) for result in results}
    return {seed: value for seed, value in found.items() if value is not None}


def write_result(result: Result, folder: Path) -> Path:
    """Put a result in its place, whole or not at all."""
    write_whole(folder / RESULT, result.model_dump_json(indent=1))
    return folder / RESULT


def read_result(path: Path) -> Result:
    """Read a result; what is cut short, another run's, of another version or none is refused."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    result = _parsed(path, text)
    if "version" not in result.model_fields_set:
        raise _other_version(path, None)
    if result.key != (folder := path.absolute().parent.name):
        raise UserError(
            f"{path}: is the result of {result.key}, expected that of {folder}, like its folder; "
            f"{_MAKE_AGAIN}"
        )
    return result


def _parsed(path: Path, text: bytes) -> Result:
    """Return the result that a text holds, also one of version 1."""
    try:
        if _VERSION_1 in text[:40]:
            text = json.dumps(upgraded(json.loads(text))).encode()
        return Result.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _no_result(path, text, error) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # no version 1 either
        raise UserError(f"{path}: is no whole result: {error!r}; {_MAKE_AGAIN}") from None


def _no_result(path: Path, text: bytes, error: ValidationError) -> UserError:
    """Return what is wrong with a file that is no result of this version."""
    try:
        found = json.loads(text)
    except ValueError:
        return UserError(
            f"{path}: is no whole result: it ends too early or is no JSON; {_MAKE_AGAIN}"
        )
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        return _other_version(path, version)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return UserError(f"{path}: is no result: {where}: {first['msg']}; {_MAKE_AGAIN}")


def _other_version(path: Path, version: object) -> UserError:
    return UserError(
        f"{path}: is a result of version {version}, expected {VERSION}; "
        f"read it with the pmn-bench that wrote it, or {_MAKE_AGAIN}"
    )


def older_runs(folder: Path) -> list[str]:
    """Return the keys that runs of a folder with records of version 1 would have now."""
    found = []
    for path in folder.glob(f"*/{RESULT}"):
        with path.open("rb") as file:
            older = _VERSION_1 in file.read(40)
        if older:
            found.append(read_result(path).run.key)
    return found


def read_results(folder: Path) -> list[Result]:
    """Return the results of all runs in a folder, in the order of their keys."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of results")
    with no_collecting():
        return [read_result(path) for path in sorted(folder.glob(f"*/{RESULT}"))]


@contextmanager
def no_collecting() -> Iterator[None]:
    """Spare Python looking for garbage among thousands of records again and again: all are kept."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def chosen(results: Sequence[Result], only: ResultFilter) -> list[Result]:
    """Return the results of some strategies (with or without variant), seeds, …; or of all."""
    known = dict.fromkeys(name for result in results for name in (result.strategy, result.name))
    for name in only.strategies:
        if name not in known:
            there = ", ".join(known) or "none"
            raise UserError(f"no results of {name!r}, only of {there}{did_you_mean(name, known)}")
    return [
        result
        for result in results
        if (not only.strategies or {result.strategy, result.name} & {*only.strategies})
        and (not only.seeds or result.seed in only.seeds)
        and (not only.fractions or result.fraction in only.fractions)
        and (not only.statuses or result.status in only.statuses)
    ]


def result_schema() -> dict[str, Any]:
    """Return the JSON schema of a ``result.json`` as it is written: with every field there is.

    ``python -c "from pmn_cl.results.result import write_schema as w; w()"`` puts it in its file.
    """
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | Result.model_json_schema(mode="serialization")


def write_schema(path: Path = SCHEMA) -> None:
    """Write the JSON schema into the file that comes with pmn-bench."""
    write_whole(path, json.dumps(result_schema(), indent=1, ensure_ascii=False) + "\n")
