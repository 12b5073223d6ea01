"""The record of a run: what was run, how it scored, what it cost. No torch here.

A ``result.json`` is written once, when a run ends, and never changed. What it says about scores
is the matrix R[i][j] (task j after experience i); everything else about scores follows from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmn_cl import scores
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole

VERSION = 1
RESULT = "result.json"

Row = list[float | None]


class Failure(BaseModel):
    """What ended a run that failed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str  # of exception
    message: str
    traceback: str | None = None  # the file that holds it, beside the result


class Cost(BaseModel):
    """What one experience took."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    learn_seconds: float
    evaluate_seconds: float
    cpu_seconds: float  # of both
    peak_bytes: int  # of memory, so far in the run
    samples_seen: int  # so far in the run


class Result(BaseModel):
    """One (stream, strategy, seed, variant), carried through or not."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")

    version: int = VERSION
    key: str
    status: Literal["completed", "failed", "interrupted", "running"]
    stream: str
    strategy: str
    variant: str
    seed: int
    fraction: float  # percent
    budget: float  # percent
    threads: int
    options: dict[str, Any]  # of the strategy, all of them
    spec: dict[str, Any]  # world and tasks
    tasks: list[str]
    metrics: list[str]  # the primary one of each task
    scores: dict[str, list[Row]]  # by split: R[i][j], null where there is none
    secondary: dict[str, list[dict[str, dict[str, float]]]]  # by split and row: task, metric
    constant: dict[str, Row]  # by split: what the best constant answer scores
    samples: dict[str, list[int]]  # by split, of each task
    validation: dict[str, float]  # of the epochs chosen, by task
    parameters: dict[Literal["total", "trainable"], list[int]]  # after each experience
    costs: list[Cost]
    details: dict[str, float] = Field(default_factory=dict)  # what a strategy tells of itself
    weights: list[str]  # digests after each experience
    data: str  # the store's digest
    versions: dict[str, str]
    revision: str | None  # of the code, where it is known
    started: str
    seconds: float
    error: Failure | None = None

    @property
    def name(self) -> str:
        """Return the strategy with its variant."""
        return f"{self.strategy} ({self.variant})" if self.variant else self.strategy

    def matrix(self, split: str = "test") -> list[Row]:
        """Return R with a row for every experience, empty where none was measured."""
        rows = self.scores.get(split, [])
        empty: Row = [None] * len(self.tasks)
        if len(rows) == len(self.tasks):
            return rows
        joint = len(rows) == 1 and self.status == "completed"
        missing = [empty] * (len(self.tasks) - len(rows))
        return [*missing, *rows] if joint else [*rows, *missing]

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


def write_result(result: Result, folder: Path) -> Path:
    """Put a result in its place, whole or not at all."""
    write_whole(folder / RESULT, result.model_dump_json(indent=1))
    return folder / RESULT


def read_result(path: Path) -> Result:
    """Read a result; one that is cut short, of another version or no result is refused."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path}: is no whole result: it ends too early or is no JSON") from None
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise UserError(f"{path}: is a result of version {version}, expected {VERSION}")
    try:
        return Result.model_validate(found)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise UserError(f"{path}: is no result: {where}: {error.errors()[0]['msg']}") from None


def read_results(folder: Path) -> list[Result]:
    """Return the results of all runs in a folder, in the order of their keys."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of results")
    return [read_result(path) for path in sorted(folder.glob(f"*/{RESULT}"))]
