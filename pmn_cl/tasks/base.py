"""What a task is: what a sample asks, how an answer is scored and trained.

A task is independent of models. ``query`` and ``target`` name the columns of its samples that a
batch carries; scores are 0 to 1 (CIDEr-D is not bounded), and higher is better for every primary
metric.

Models give *outputs* (logits) to ``loss`` and *predictions* (what ``decode`` makes of outputs,
small enough to keep for a whole split) to ``score``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from torch import Tensor

# Supervision of the query to the relation module, for questions that need it.
ASKED_OF_RELATION = ("ask_boxes", "ask_relation", "ask_direction")

FORMS = {
    "class": "one of some classes for each region (B, N, classes)",
    "labels": "any of some labels for each region (B, N, labels)",
    "pointing": "one of the regions (B, N)",
    "sentence": "words (B, T, words)",
    "count": "how many (B, counts)",
    "answer": "any of some answers (B, answers)",
}

Columns = Mapping[str, NDArray[Any]]
Names = Mapping[str, list[str]]  # what a store's numbers mean


class LossTerms(BaseModel):
    """What training adds to the tasks' plain losses, for all strategies alike; none is the paper's.

    Measured in docs/departures.md.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    every_box: float = Field(default=0.0, ge=0)  # rel: weight of a yes or no for every box
    count_distance: float = Field(default=0.0, ge=0)  # cnt: of how far the expected count is off
    soft_count: float = Field(default=0.0, ge=0)  # cnt: of how far a counted map's sum is off
    one_answer: bool = False  # vqa: answers compete in one softmax instead of a sigmoid each


class Task(ABC):
    """One kind of thing to learn."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for ``pmn-bench list``
    level: ClassVar[int]  # the paper's: a module may call modules of lower levels
    calls: ClassVar[tuple[str, ...]] = ()  # the paper's call list, lower modules only
    query: ClassVar[tuple[str, ...]] = ()
    target: ClassVar[tuple[str, ...]]
    scored: ClassVar[tuple[str, ...]] = ()  # further columns that ``score`` needs
    metric: ClassVar[str]  # the primary one among the keys of ``score``
    outputs: ClassVar[str | None] = None  # the list of a store's names that outputs are over
    form: ClassVar[str] = ""  # of its outputs, for networks with a head per task: see FORMS
    family: ClassVar[tuple[str, str] | None] = None  # the column and the names of its families
    table: ClassVar[str] = ""  # the store's table of samples, where it is another task's

    @property
    def table_name(self) -> str:
        """Return the table that the samples are in."""
        return self.table or self.name

    @abstractmethod
    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the primary and secondary metrics of predictions for these samples."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Return the mean training loss of a batch."""

    def training_loss(
        self, outputs: Tensor, targets: Mapping[str, Tensor], terms: LossTerms
    ) -> Tensor:
        """Return the loss that networks learn from: the plain one, unless a task knows more."""
        return self.loss(outputs, targets)

    @abstractmethod
    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """Return the predictions that outputs stand for."""

    @abstractmethod
    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """Return the one prediction that serves all these samples best, as one row."""

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """Return for each kind of sample the answers with their shares, most common first."""
        return {}

    def by_question(self, values: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the mean of what there is one of for each sample, by kind of question."""
        return {}

    def families(self, columns: Columns, names: Names) -> dict[str, NDArray[np.bool_]]:
        """Return the question families that occur, with the samples of each, if any."""
        column, listed = self.family or ("", "")
        if not column or column not in columns or listed not in names:
            return {}
        numbers = columns[column]
        found = {name: numbers == number for number, name in enumerate(names[listed])}
        return {name: chosen for name, chosen in found.items() if chosen.any()}

    def by_family(self, values: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the mean value of each family as a metric: "family exist", "relation nearest"."""
        column, _ = self.family or ("", "")
        families = self.families(columns, names)
        return {f"{column} {name}": float(values[some].mean()) for name, some in families.items()}

    def family_scores(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return those of the metrics that are a family's, by its name."""
        if self.family is None:
            return {}
        begin = f"{self.family[0]} "
        return {k.removeprefix(begin): v for k, v in scores.items() if k.startswith(begin)}

    def family_floors(self, columns: Columns, names: Names) -> dict[str, float]:
        """Return what the best constant answer to each family scores on these samples.

        The best on just these: yes/no is so evenly balanced that the answer which training has
        more of is often the rarer one here, and the other one would pass for something learned.
        """
        floors = {}
        for name, asked in self.families(columns, names).items():
            some = self._of(columns, asked)
            answer = self.constant(some, names)
            given = np.broadcast_to(answer, (int(asked.sum()), *answer.shape))
            floors[name] = self.score(given, some, names)[self.metric]
        return floors

    def _of(self, columns: Columns, chosen: NDArray[np.bool_]) -> Columns:
        """Return what constants and scores take of some samples."""
        return {name: columns[name][chosen] for name in (*self.target, *self.scored)}


def most_common(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the values from the most to the least common."""
    found, counts = np.unique(values, return_counts=True)
    return np.asarray(found[np.argsort(-counts, kind="stable")], dtype=np.int64)


def ranked_shares(shares: NDArray[Any], names: list[str]) -> list[tuple[str, float]]:
    """Return the shares above zero by name, the largest first."""
    order = np.argsort(-shares, kind="stable")
    return [(names[i], float(shares[i])) for i in order if shares[i] > 0]


def likeliest(outputs: Tensor) -> NDArray[Any]:
    """Return the number of the highest output."""
    return np.asarray(outputs.argmax(dim=-1).cpu().numpy())


def by_kind(columns: Columns, names: list[str] | None) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each kind of sample that occurs, with the samples of that kind; or all as one."""
    if "kind" not in columns or names is None:
        yield "", np.ones(len(columns["scene"]), dtype=bool)
        return
    for number, name in enumerate(names):
        chosen = columns["kind"] == number
        if chosen.any():
            yield name, chosen


def mean_by_kind(
    values: NDArray[Any], columns: Columns, column: str, names: list[str] | None
) -> dict[str, float]:
    """Return the mean of the values of each kind that occurs; nothing where kinds have no names."""
    if column not in columns or names is None:
        return {}
    chosen = {name: values[columns[column] == number] for number, name in enumerate(names)}
    return {name: float(some.mean()) for name, some in chosen.items() if len(some)}
