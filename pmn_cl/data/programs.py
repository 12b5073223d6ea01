"""What a world says about the programs of its questions: how to execute them on predicted objects.

A program (column ``program``) says in operations what a question asks in words. Executed on the
truth it gives the right answer, executed on what classifiers say of regions, a ceiling for what can
be learned from these. Not here: who classifies (``strategies.executor``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks.base import Columns

NOT_EXECUTED = -1  # the prediction for a sample whose program cannot be executed


@dataclass(frozen=True, eq=False)
class SeenRegions:
    """What classifiers say of the regions of all scenes of a split, as logits."""

    objects: NDArray[Any]  # (S, N, objects)
    attributes: NDArray[Any]  # (S, N, attributes)
    boxes: NDArray[Any]  # (S, N, 4)
    mask: NDArray[np.bool_]  # (S, N)


class Oracle(Protocol):
    """Answers what a program asks, instead of the executor; None: the executor is to know it."""

    def related(self, scene: int, region: int, relation: int) -> NDArray[Any] | None:
        """Return with which probability each region (N,) is a subject of "it relation region"."""
        ...

    def counted(self, scene: int, question: Sequence[int]) -> int | None:
        """Return the answer to a counting question, given as numbers of words."""
        ...


class NoOracle:
    """Leaves everything to the executor."""

    def related(self, scene: int, region: int, relation: int) -> None:
        """Leave it to the executor."""

    def counted(self, scene: int, question: Sequence[int]) -> None:
        """Leave it to the executor."""


class ProgramExecutor(ABC):
    """Executes the programs of a world."""

    tasks: ClassVar[tuple[str, ...]]  # whose samples it can answer

    @abstractmethod
    def executes(self, task: str, columns: Columns) -> NDArray[np.bool_]:
        """Return which samples of a task can be answered from objects with their attributes."""

    @abstractmethod
    def predict(
        self, task: str, columns: Columns, seen: SeenRegions, oracle: Oracle
    ) -> NDArray[np.int64]:
        """Return predictions as the task's ``score`` expects them, or NOT_EXECUTED.

        Of ``columns`` it reads the scene, the task's query and the program.
        """
