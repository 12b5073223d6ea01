"""What a strategy is: something that goes through a stream and answers what it has learned.

To add one, subclass ``Strategy`` in a file of your own and name it in a stream's YAML as
``package.module:Name``. For one that trains a network, start from ``strategies.template``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pmn_cl.samples import Samples
from pmn_cl.tasks import Task

if TYPE_CHECKING:
    from pmn_cl.loader import Batches


class Lesson(Protocol):
    """A task with the samples of one split: an experience of the stream, as Avalanche says."""

    task: Task
    calls: tuple[str, ...]  # what a module for it may call
    samples: Samples
    batches: Batches

    @property
    def task_label(self) -> int:
        """Return the task's place in the stream."""
        ...


class Options(BaseModel):
    """What a stream's YAML may say about a strategy; subclass it to add fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Strategy(ABC):
    """Learns one task after another and can answer any task it has seen."""

    Options: ClassVar[type[BaseModel]] = Options

    @abstractmethod
    def learn(self, lesson: Lesson, validation: Lesson) -> None:
        """Learn the next task of the stream; choices are made on validation samples."""

    @abstractmethod
    def predict(self, lesson: Lesson) -> NDArray[Any]:
        """Return predictions in the form that the task's ``score`` expects.

        A task that was not learned yet is refused with a ``UserError``.
        """

    def score(self, lesson: Lesson) -> dict[str, float]:
        """Return the primary and secondary metrics of the predictions."""
        samples = lesson.samples
        return lesson.task.score(self.predict(lesson), samples.columns, samples.store.names)
