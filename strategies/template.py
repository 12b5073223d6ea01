"""The one training loop: Avalanche's supervised template, taught to handle mixed tasks.

A network that grows with the stream, a loss and an optimizer per task, batches that are indexed
whole, and the best epoch chosen on validation. What a subclass adds: which parameters learn.
Importing this file imports Avalanche, which takes seconds.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pmn_cl.compat import import_avalanche
from pmn_cl.errors import UserError
from pmn_cl.loader import BatchLoader
from pmn_cl.modules.trace import Trace
from pmn_cl.strategy import Lesson, Strategy
from pmn_cl.training import TrainingSettings

import_avalanche()

from avalanche.training.templates import SupervisedTemplate  # noqa: E402
from avalanche.training.templates.base_sgd import PeriodicEval  # noqa: E402

_ANSWERED_AT_ONCE = 512  # samples


@dataclass(frozen=True)
class Progress:
    """How far the training of a task has come."""

    task: str
    epoch: int  # that ended, from 1
    epochs: int
    loss: float  # of the epoch's last batch
    score: float  # on validation


class TaskTemplate(SupervisedTemplate, Strategy):  # type: ignore[misc]  # Avalanche has no types
    """Trains a network on one task after another, each with its own settings.

    ``train`` is Avalanche's, for its users; ``eval_streams`` given to it hold the validation
    samples, and plugins may watch. ``learn`` and ``predict`` are the same for a harness; scores
    come from ``score``, as Avalanche's metrics do not know mixed tasks.
    """

    def __init__(
        self,
        *,
        network: nn.Module,
        settings: Mapping[str, TrainingSettings],
        seed: int = 0,
        device: str = "cpu",
        plugins: Sequence[Any] = (),
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.samples_seen = 0
        self.validation_scores: dict[str, float] = {}  # of the best epochs, by task
        self._on_progress = on_progress
        self.dataloader: Any  # plugins of Avalanche may put in their own
        self._validation: Lesson | None = None
        self._best: tuple[float, dict[str, Tensor]] | None = None
        with warnings.catch_warnings():  # we score by ourselves, which Avalanche warns of
            warnings.filterwarnings("ignore", "No loggers specified")
            super().__init__(
                model=network,
                optimizer=torch.optim.Adam([torch.zeros(1)]),  # replaced for every task
                criterion=None,
                device=device,
                plugins=list(plugins),
                evaluator=None,
            )
        # Idle without metrics and periodic evaluation, they would still be asked 12 times a step.
        idle: list[Any] = [self.evaluator]
        idle += [plugin for plugin in self.plugins if isinstance(plugin, PeriodicEval)]
        self.plugins: list[Any] = [p for p in self.plugins if not any(p is i for i in idle)]

    # What a subclass says.

    def prepare(self, lesson: Lesson) -> None:
        """Make the network ready to learn a task."""

    def learning(self, lesson: Lesson) -> nn.Module:
        """Return the part of the network that learns this task."""
        part: nn.Module = self.model
        return part

    def finish(self, lesson: Lesson) -> None:
        """Do what is to be done when a task was learned."""

    def batch_loss(self, x: Any, y: Any, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """Return outputs and the loss of a batch."""
        outputs = self.model(x, lesson.task.name, teacher=y)
        return outputs, lesson.task.loss(outputs, y)

    # The harness's side.

    def learn(self, lesson: Lesson, validation: Lesson) -> None:
        """Learn the next task."""
        self.train(lesson, eval_streams=[[validation]])

    @torch.no_grad()
    def predict(self, lesson: Lesson) -> NDArray[Any]:
        """Answer all samples of a split."""
        was_training = self.model.training
        self.model.eval()
        self.look_at(lesson)
        loader = BatchLoader(lesson.batches, _ANSWERED_AT_ONCE, shuffle=False)
        outputs = (self.model(x.to(self.device), lesson.task.name) for x, _ in loader)
        try:
            return np.concatenate([lesson.task.decode(output) for output in outputs])
        finally:
            self.model.train(was_training)

    def look_at(self, lesson: Lesson) -> None:
        """Get ready for the scenes of a split."""

    # Avalanche's side: what its loop asks for.

    def _before_training_exp(self, **kwargs: Any) -> None:
        lesson = self._lesson()
        name = lesson.task.name
        if name not in self.settings:
            known = ", ".join(self.settings)
            raise UserError(f"no training settings for the task {name!r}, only for {known}")
        torch.manual_seed(_mixed(self.seed, lesson.task_label))
        settings = self.settings[name]
        self.train_mb_size = settings.batch_size
        self.train_epochs = settings.epochs_for(len(lesson.samples))
        self._best = None
        self.look_at(lesson)
        super()._before_training_exp(**kwargs)
        self._steps = self.train_epochs * len(self.dataloader)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches; the order of an epoch depends on the seed alone."""
        self.dataloader = _Epochs(self, self._lesson())

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches, in order."""
        lesson = self._lesson()
        self.look_at(lesson)
        loader = BatchLoader(lesson.batches, _ANSWERED_AT_ONCE, shuffle=False)
        self.dataloader = labelled(loader)

    def model_adaptation(self, model: nn.Module | None = None) -> nn.Module:
        """Grow the network, when a task is to be learned."""
        if self.is_training:
            self.prepare(self._lesson())
        grown: nn.Module = self.model.to(self.device)
        return grown

    def check_model_and_optimizer(self, **kwargs: Any) -> None:
        """Grow the network, then make a new optimizer for what learns."""
        self.model = self.model_adaptation()
        self.make_optimizer()

    def make_optimizer(self, **kwargs: Any) -> None:
        """Give Adam the parameters that learn the task."""
        lesson = self._lesson()
        learning = [p for p in self.learning(lesson).parameters() if p.requires_grad]
        if not learning:
            return
        rate = self.settings[lesson.task.name].learning_rate
        self.optimizer = torch.optim.Adam(learning, lr=rate, fused=True)

    def _unpack_minibatch(self) -> None:
        """Move the batch to the device; TensorDicts take long to find out that they are there."""
        if self.device.type != "cpu":
            super()._unpack_minibatch()
        else:
            self.mbatch: Any = list(self.mbatch)

    def forward(self) -> Tensor:
        """Return the outputs of the batch; its loss comes along."""
        x, y = self.mb_x, self.mb_y
        if not self.is_training:
            outputs: Tensor = self.model(x, self._lesson().task.name)
            self._batch_loss = self._lesson().task.loss(outputs, y)
            return outputs
        outputs, self._batch_loss = self.batch_loss(x, y, self._lesson())
        self.samples_seen += len(x)
        return outputs

    def criterion(self) -> Tensor:
        """Return the loss of the batch, which must be finite."""
        loss: Tensor = self._batch_loss
        if not math.isfinite(loss.item()):
            raise UserError(self._what_is_not_finite())
        return loss

    def optimizer_step(self) -> None:
        """Take a step of the size that the schedule says."""
        settings = self.settings[self._lesson().task.name]
        rate = settings.learning_rate_at(self.clock.train_exp_iterations, self._steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], settings.clip)
        self.optimizer.step()

    def _train_exp(
        self, experience: Lesson, eval_streams: Iterable[Any] | None = None, **kwargs: Any
    ) -> None:
        same = [
            lesson
            for stream in eval_streams or ()
            for lesson in (stream if isinstance(stream, Iterable) else [stream])
            if lesson.task_label == experience.task_label and lesson is not experience
        ]
        self._validation = same[0] if same else None
        if not any(p.requires_grad for p in self.learning(experience).parameters()):
            return  # nothing to learn: the task is known already
        super()._train_exp(experience, eval_streams=[], **kwargs)

    def _after_training_epoch(self, **kwargs: Any) -> None:
        super()._after_training_epoch(**kwargs)
        lesson, score = self._lesson(), float("nan")
        if self._validation is not None:
            score = self.score(self._validation)[lesson.task.metric]
            if self._best is None or score > self._best[0]:
                self._best = score, copy.deepcopy(self.learning(lesson).state_dict())
        if self._on_progress is not None:
            epoch = self.clock.train_exp_epochs
            loss = float(self.loss.detach())
            self._on_progress(Progress(lesson.task.name, epoch, self.train_epochs, loss, score))

    def _after_training_exp(self, **kwargs: Any) -> None:
        lesson = self._lesson()
        if self._best is not None:
            self.validation_scores[lesson.task.name], state = self._best
            self.learning(lesson).load_state_dict(state)
        self._best = self._validation = None
        self.finish(lesson)
        super()._after_training_exp(**kwargs)

    def _lesson(self) -> Lesson:
        lesson: Lesson = self.experience
        return lesson

    def _what_is_not_finite(self) -> str:
        """Say where a loss that is not finite came from."""
        task, step = self._lesson().task.name, self.clock.train_exp_iterations + 1
        trace = Trace()
        with torch.no_grad():
            self.model(self.mb_x, task, teacher=self.mb_y, trace=trace)
        guilty = [c for c in trace.calls if not bool(c.output.isfinite().all())]
        first = f"{guilty[0].callee}, called by M_{guilty[0].caller}" if guilty else f"M_{task}"
        return (
            f"the loss of the task {task!r} is {float(self._batch_loss.detach())} at step {step}: "
            f"the first output that is not finite is that of {first}; a smaller learning rate may "
            "help"
        )


@dataclass
class _Epochs:
    """The batches of the epoch that the strategy's clock shows."""

    strategy: TaskTemplate
    lesson: Lesson

    def _loader(self) -> BatchLoader:
        return BatchLoader(
            self.lesson.batches,
            self.strategy.train_mb_size,
            seed=_mixed(self.strategy.seed, self.lesson.task_label),
            epoch=self.strategy.clock.train_exp_epochs,
        )

    def __len__(self) -> int:
        return len(self._loader())

    def __iter__(self) -> Iterator[list[Any]]:
        return labelled(self._loader())


def labelled(loader: BatchLoader) -> Iterator[list[Any]]:
    """Yield batches with their task labels, as Avalanche's loaders do."""
    for x, y in loader:
        yield [x, y, y["task"]]


def _mixed(seed: int, label: int) -> int:
    """Return a seed of its own for a task of the stream."""
    return int(np.random.SeedSequence([seed, label]).generate_state(1)[0])
