"""What a strategy is: something that goes through a stream and answers what it has learned.

To add one, subclass ``Strategy`` in a file of your own and name it in a stream's YAML as
``package.module:Name``. For one that trains a network, start from ``strategies.loop``.
``pmn_cl.strategy.contract.check_strategy`` says whether it keeps to what is promised here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pmn_cl.data.curriculum import Curriculum
from pmn_cl.data.samples import Samples
from pmn_cl.data.world import World
from pmn_cl.tasks.base import Task

if TYPE_CHECKING:
    from pmn_cl.data.loader import Batches


class Experience(Protocol):
    """A task with the samples of one split: an experience of the stream, as Avalanche says."""

    task: Task
    calls: tuple[str, ...]  # what a module for it may call
    world: World  # that its samples are of
    samples: Samples
    batches: Batches
    curriculum: Curriculum  # which training samples come first

    @property
    def task_label(self) -> int:
        """Return the task's place in the stream."""
        ...


class StrategyOptions(BaseModel):
    """What a stream's YAML may say about a strategy; subclass it to add fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def check_stream(self, world: type[World], tasks: Sequence[str]) -> None:
        """Refuse a stream that the strategy cannot go through, before anything is run."""


@dataclass(frozen=True)
class Observation:
    """What a validation shows of a task's questions, beside its score; any of it may be empty."""

    families: dict[str, float]  # the score, by question family
    mass: dict[str, float]  # attention on the regions that questions are about, by family
    gates: dict[str, float]  # how much each callee counts, on average


@dataclass(frozen=True)
class TrainingProgress:
    """How far the training of a task has come, at the end of an epoch or on the way."""

    task: str
    epoch: int  # that ended, or goes on, from 1
    epochs: int
    loss: float  # of the last batch
    score: float | None  # on validation, at the end of an epoch
    step: int  # from 1
    steps: int
    seen: Observation | None = None  # with the score, where a strategy looks at more than that
    note: str = ""  # where nothing is learned here: what happens instead


class State(NamedTuple):
    """How far a strategy is, in the middle of a task or between two: tensors and plain values."""

    tensors: dict[str, Any]
    facts: dict[str, Any]


class Operations(NamedTuple):
    """Floating-point operations, and what else was carried out and is not among them."""

    learned: float | None = None  # in the last phase
    answer: Mapping[str, float] = {}  # by task: of one sample whose scene is new
    uncounted: Mapping[str, int] = {}  # elements that other operations made, by name


class ParameterCount(NamedTuple):
    """How many numbers a strategy has, and how many of them learned the last task."""

    total: int
    trainable: int


@dataclass(frozen=True)
class LearningCost:
    """What learning one task took, kept with what was learned for the runs that take it."""

    learn_seconds: float
    cpu_seconds: float
    learn_peak_bytes: int
    samples_seen: int  # of this task alone
    trainable: int  # parameters that it could change
    curve: list[dict[str, Any]]  # what each validation showed, as a result has it
    inside: list[dict[str, Any]] = field(default_factory=list)  # its score on the probe meanwhile
    operations: float | None = None  # floating-point operations
    uncounted: dict[str, int] = field(default_factory=dict)  # elements of others, by name


class Strategy(ABC):
    """Learns one task after another and can answer any task it has seen."""

    Options: ClassVar[type[BaseModel]] = StrategyOptions
    at_once: ClassVar[bool] = False  # learns all tasks of a stream together, by ``learn_all``
    keeps_data: ClassVar[bool] = False  # keeps samples of earlier tasks, to look at them again
    reads: ClassVar[tuple[str, ...]] = ()  # columns that it answers by, beside the task's query
    on_step: Callable[[], None] | None = None  # called after every training step, if it is set
    matched_ratio: float | None = None  # to the strategy that it was made as large as

    def __init__(
        self,
        *,
        options: BaseModel | None = None,
        seed: int = 0,
        device: str = "cpu",
        budget: float = 100.0,
        on_progress: Callable[[TrainingProgress], None] | None = None,
    ) -> None:
        self.options: Any = options or self.Options()
        self.seed = seed
        self.samples_seen = 0

    def expect(self, experiences: Sequence[Experience]) -> None:  # noqa: B027  # most need not know
        """Receive, once and before learning, the stream that is to come: its tasks and their sizes.

        Nothing may be learned from its samples here.
        """

    def reuse(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:  # noqa: B027
        """Take from a folder what other runs have learned in the same way, where that is possible.

        ``waiting`` is called again and again while another run learns what this one needs.
        """

    def taken(self) -> LearningCost | None:
        """Return what the last task took the run that has learned it, where that was another."""
        return None

    def leave(self, cost: LearningCost) -> None:  # noqa: B027  # most have nothing to share
        """Leave what was learned last to other runs, with what that took."""

    @abstractmethod
    def learn(self, experience: Experience, validation: Experience) -> None:
        """Learn the next task of the stream; choices are made on validation samples."""

    def learn_all(
        self, experiences: Sequence[Experience], validations: Sequence[Experience]
    ) -> None:
        """Learn all tasks: one after another, unless a strategy has a better way."""
        for experience, validation in zip(experiences, validations, strict=True):
            self.learn(experience, validation)

    @abstractmethod
    def predict(self, experience: Experience) -> NDArray[Any]:
        """Return predictions in the form that the task's ``score`` expects.

        A task that was not learned yet is refused with a ``UserError``.
        """

    def score(self, experience: Experience) -> dict[str, float]:
        """Return the primary and secondary metrics of the predictions.

        None at all of a task that a strategy only guesses at: its result then has no score there.
        """
        samples = experience.samples
        return experience.task.score(self.predict(experience), samples.columns, samples.store.names)

    def parameter_count(self) -> ParameterCount:
        """Return how large it is by now."""
        return ParameterCount(0, 0)

    def kept_bytes(self) -> dict[str, int]:
        """Return how many bytes are kept: `weights`, `buffers`, and by the `method` beside them."""
        return {}

    def operations_taken(self) -> Operations:
        """Return how many operations learning and answering took, where they are counted."""
        return Operations()

    def digest(self) -> str:
        """Return a digest of all that was learned, where there is one."""
        return ""

    def details(self) -> dict[str, float]:
        """Return what else a result should say, such as the size of a memory."""
        return {}

    def state(self) -> State | None:
        """Return all that is needed to go on from here, also in the middle of a task.

        None from a strategy that cannot: it starts over when it is cut off.
        """
        return None

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Go back to a state in which these experiences were done.

        If it was taken in the middle of a task, the next ``learn`` goes on with that task.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no state to go back to")

    @abstractmethod
    def save(self, folder: str | Path) -> Any:
        """Keep what was learned in files of a folder, so that loading them runs no code."""

    @abstractmethod
    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Take up what a strategy with the same options kept after these experiences."""
