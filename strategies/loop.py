"""The one training loop: Avalanche's supervised template, extended to mixed tasks.

A network that grows with the stream, a loss and an optimizer per task. What a subclass adds: which
parameters learn. Not here: batches and their order (``loaders``), the best epoch on validation
(``selection``), what is kept to go on or to answer later (``state``).
A network is called as ``network(x, task, teacher=y)``; where plugins of Avalanche's call it or mix
tasks in a batch, as ``network(x)`` with the targets in ``x["y"]``.
Importing this file imports Avalanche, which takes seconds.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pmn_cl.data.loader import BatchLoader
from pmn_cl.errors import UserError
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import (
    Experience,
    Observation,
    Operations,
    ParameterCount,
    State,
    Strategy,
    TrainingProgress,
)
from pmn_cl.strategy.training import TrainingSettings
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.counts import known_distance
from strategies.loaders import (
    EpochBatches,
    EpochLoader,
    StagedBatches,
    labelled,
    mixes_tasks,
    rows_of,
    task_seed,
)
from strategies.losses import CountedMap, counted_maps, soft_count
from strategies.non_finite import non_finite_loss
from strategies.observation import observe
from strategies.operations import (
    OperationLog,
    bytes_of,
    operations_to_answer,
    operations_to_learn,
)
from strategies.selection import Selection, validation_interval, validation_of
from strategies.state import load, restore, resume, save, state_of

import_avalanche()

from avalanche.training.templates import SupervisedTemplate  # noqa: E402
from avalanche.training.templates.base_sgd import PeriodicEval  # noqa: E402

_PREDICTED_AT_ONCE = 512  # samples
_PROGRESS_EVERY = 1.0  # seconds


class TaskTemplate(SupervisedTemplate, Strategy):  # type: ignore[misc]  # Avalanche has no types
    """Trains a network on one task after another, each with its own settings.

    ``train`` is Avalanche's, for its users; ``eval_streams`` given to it hold the validation
    samples, and plugins may watch. ``learn`` and ``predict`` are the same for a harness; scores
    come from ``score``, as Avalanche's metrics do not know mixed tasks.
    """

    predictable: ClassVar[bool] = True  # what it takes is known before: losses, and no more

    def __init__(
        self,
        *,
        network: nn.Module,
        settings: Mapping[str, TrainingSettings],
        seed: int = 0,
        device: str = "cpu",
        budget: float = 100.0,
        plugins: Sequence[Any] = (),
        on_progress: Callable[[TrainingProgress], None] | None = None,
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.budget = budget  # percent of the usual training
        self.samples_seen = 0
        self.experiences: dict[int, Experience] = {}  # learned so far, by task label
        self.validation_scores: dict[str, float] = {}  # of the best epochs, by task
        self.observed: dict[str, Observation] = {}  # at the last validation, by task
        self._on_progress = on_progress
        self.dataloader: Any  # plugins of Avalanche may put in their own
        self.selection = Selection()
        self.trainable = 0  # parameters that the last task could change
        self.resume_from: State | None = None  # in the middle of the next task
        self.operations = OperationLog()
        self.answer_operations: dict[str, float] = {}  # by task, of a sample
        self._kept = 0  # bytes that were kept beside weights and buffers in the last phase
        self._reported = 0.0  # when progress was last reported
        with warnings.catch_warnings():  # we score by ourselves, which Avalanche warns of
            warnings.filterwarnings("ignore", "No loggers specified")
            SupervisedTemplate.__init__(
                self,
                model=network,
                optimizer=torch.optim.Adam([torch.zeros(1)]),  # replaced for every task
                criterion=self.task_loss,
                device=device,
                plugins=list(plugins),
                evaluator=None,
            )
        # Idle without metrics and periodic evaluation, they would still be asked 12 times a step.
        idle: list[Any] = [self.evaluator]
        idle += [plugin for plugin in self.plugins if isinstance(plugin, PeriodicEval)]
        self.plugins: list[Any] = [p for p in self.plugins if not any(p is i for i in idle)]

    # What a subclass says.

    def prepare(self, experience: Experience) -> None:
        """Make the network ready to learn a task."""

    def learning(self, experience: Experience) -> nn.Module:
        """Return the part of the network that learns this task."""
        part: nn.Module = self.model
        return part

    def carried(self, experience: Experience) -> Iterable[nn.Parameter]:
        """Return those of its parameters that have learned before: see ``carried_rest``."""
        return ()

    def finish(self, experience: Experience) -> None:
        """Do what is to be done when a task was learned."""

    def training_samples(self, experience: Experience) -> Experience:
        """Return what a task is learned from: its own samples, unless a control changes them."""
        return experience

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Return outputs and the loss of a batch."""
        with counted_maps(self.model) as maps:
            outputs = self.model(x, experience.task.name, teacher=y)
        return outputs, self.loss_of(experience.task, outputs, y, maps)

    def loss_of(
        self, task: Task, outputs: Tensor, y: Any, maps: Sequence[CountedMap] = ()
    ) -> Tensor:
        """Return what a task is learned by; ``maps`` were counted for it, its own the last."""
        terms = self.settings[task.name].loss
        loss = task.training_loss(outputs, y, terms)
        if terms.soft_count and maps and "count" in y:
            loss = loss + terms.soft_count * known_distance(soft_count(*maps[-1]), y["count"])
        return loss

    def task_loss(self, outputs: Any, y: Any) -> Tensor:
        """Return the loss of outputs of any task, or of several: plugins of Avalanche's ask for it.

        Tasks that are mixed in a batch weigh as much as they have samples in it.
        """
        if isinstance(outputs, Tensor):
            return self.loss_of(self.experiences[int(y["task"][0])].task, outputs, y)
        losses = [
            len(rows) * self.task_loss(output, rows_of(y, rows)) for rows, output in outputs.parts
        ]
        return torch.stack(losses).sum() / len(y)

    # The harness's side.

    def learn(self, experience: Experience, validation: Experience) -> None:
        """Learn the next task."""
        self.train(experience, eval_streams=[[validation]])

    @torch.no_grad()
    def predict(self, experience: Experience) -> NDArray[Any]:
        """Answer all samples of a split."""
        was_training = self.model.training
        self.model.eval()
        self.attach_scenes(experience)
        loader = BatchLoader(experience.batches, _PREDICTED_AT_ONCE, shuffle=False)
        outputs = (self.model(x.to(self.device), experience.task.name) for x, _ in loader)
        try:
            return np.concatenate([experience.task.decode(output) for output in outputs])
        finally:
            self.model.train(was_training)

    def attach_scenes(self, experience: Experience) -> None:
        """Prepare to read the scenes of a split: what is kept about them may be used."""

    def parameter_count(self) -> ParameterCount:
        """Count what the network has, and what of it the last task could change."""
        return ParameterCount(_size(self.model), self.trainable)

    def operations_taken(self) -> Operations:
        """Return what the last phase took; of what other runs had learned, what it took them."""
        for experience in self.experiences.values():
            name = experience.task.name
            if name not in self.answer_operations:
                self.answer_operations[name] = operations_to_answer(self, experience)
        taken, log, answer = self.taken(), self.operations, dict(self.answer_operations)
        if taken is not None:
            return Operations(taken.operations, answer, taken.uncounted)
        uncounted = {name: round(elements) for name, elements in log.others.items()}
        return Operations(log.learned, answer, uncounted)

    def operations_to_learn(self, experiences: Sequence[Experience]) -> float:
        """Return about how many operations learning these experiences takes: nothing is learned."""
        return operations_to_learn(self, experiences)

    def kept_bytes(self) -> dict[str, int]:
        """Return what is kept: weights, buffers, and what the method itself remembers.

        That is the most of the last phase, at whose beginning a copy of an older network is there.
        """
        kept = max(self._kept, bytes_of(self.extra_state().values()))
        return {
            "weights": bytes_of(self.model.parameters()),
            "buffers": bytes_of(self.model.buffers()),
            "method": kept + int(self.details().get("memory_bytes", 0)),
        }

    def digest(self) -> str:
        """Return a digest of all weights and running statistics."""
        return digest_of(self.model)

    def build(
        self, experiences: Iterable[Experience], weights: Mapping[str, Tensor] | None = None
    ) -> None:
        """Make the network as it is after these experiences, without learning, or with weights.

        They are taken up one experience after another: what is frozen is frozen with its own.
        """
        for experience in experiences:
            self.experiences[experience.task_label] = experience
            self.prepare(experience)
            self.trainable = _size(self.learning(experience), learning=True)
            if weights is not None:
                there = self.model.state_dict()
                known = {n: w for n, w in weights.items() if n in there}
                self.model.load_state_dict(known, strict=False)
            self.finish(experience)

    def extra_state(self) -> dict[str, Tensor]:
        """Return what a subclass or its plugins remember, beside the network."""
        return {}

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Let a subclass or its plugins remember again."""

    def state(self) -> State:
        """Return all that is needed to go on from here."""
        return state_of(self)

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Build what these experiences made, and go on where the state was taken."""
        restore(self, state, done)

    def save(self, folder: str | Path) -> Any:
        """Keep the network's weights, and what was learned in which order."""
        save(self, Path(folder))

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Build the network that these experiences made, and take its weights."""
        load(self, Path(folder), experiences)

    # Avalanche's side: what its loop asks for.

    def _before_training_exp(self, **kwargs: Any) -> None:
        experience = self.current_experience()
        name = experience.task.name
        if name not in self.settings:
            known = ", ".join(self.settings)
            raise UserError(f"no training settings for the task {name!r}, only for {known}")
        torch.manual_seed(task_seed(self.seed, name))
        self.experiences[experience.task_label] = experience
        self.batch_experience = experience  # that the batch is of, where tasks alternate
        self.train_mb_size = self.settings[name].batch_size
        self.attach_scenes(experience)
        self.plan(experience)
        interval = validation_interval(self.settings[name], self.epochs, self.budget)
        self.selection = Selection(self.settings[name].patience, interval)
        self.operations.begin_phase()
        with self.operations.around():
            super()._before_training_exp(**kwargs)
        self._kept = bytes_of(self.extra_state().values())

    def batches_of(self, experience: Experience, again: str = "") -> EpochBatches | StagedBatches:
        """Return a task's batches: in its own order, or in another where it is learned again."""
        seed = task_seed(self.seed, f"again for {again}") if again else self.seed
        settings = self.settings[experience.task.name]
        whole = EpochBatches(experience, settings.batch_size, seed, settings.by_scene)
        if again or not experience.curriculum:
            return whole
        return StagedBatches.of(whole, settings.steps(len(whole), self.budget))

    def plan(self, experience: Experience) -> None:
        """Say how many steps to take for a task, and in how many epochs."""
        per_epoch = len(self.batches_of(experience))
        self.steps = self.settings[experience.task.name].steps(per_epoch, self.budget)
        self.epochs = math.ceil(self.steps / per_epoch)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches; the order of an epoch depends on the seed alone."""
        batches = self.batches_of(self.training_samples(self.current_experience()))
        self.dataloader = EpochLoader(batches, self.clock, self.steps)

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches, in order."""
        experience = self.current_experience()
        self.attach_scenes(experience)
        loader = BatchLoader(experience.batches, _PREDICTED_AT_ONCE, shuffle=False)
        self.dataloader = labelled(loader)

    def model_adaptation(self, model: nn.Module | None = None) -> nn.Module:
        """Grow the network, when a task is to be learned."""
        if self.is_training:
            self.prepare(self.current_experience())
        grown: nn.Module = self.model.to(self.device)
        return grown

    def check_model_and_optimizer(self, **kwargs: Any) -> None:
        """Grow the network, then make a new optimizer for what learns."""
        self.model = self.model_adaptation()
        self.make_optimizer()

    def make_optimizer(self, **kwargs: Any) -> None:
        """Give Adam the parameters that learn the task, those that are new and those carried on."""
        experience = self.current_experience()
        learning = [p for p in self.learning(experience).parameters() if p.requires_grad]
        self.trainable = sum(p.numel() for p in learning)
        if not learning:
            return
        carried = {id(p) for p in self.carried(experience)}
        old, new = (
            [p for p in learning if (id(p) in carried) == before] for before in (True, False)
        )
        settings = self.settings[experience.task.name]
        self.optimizer = torch.optim.Adam(
            [{"params": p, "carried": p is old} for p in (new, old) if p],
            lr=settings.learning_rate,
            betas=(0.9, settings.beta2),
            fused=True,
        )

    def _unpack_minibatch(self) -> None:
        """Move the batch to the device; TensorDicts take long to find out that they are there."""
        if self.device.type != "cpu":
            super()._unpack_minibatch()
        else:
            self.mbatch: Any = list(self.mbatch)

    def forward(self) -> Any:
        """Return the outputs of the batch; its loss comes along."""
        x, y = self.mb_x, self.mb_y
        if not self.is_training:
            outputs: Any = self.model(x, self.current_experience().task.name)
            self.mb_loss = self.loss_of(self.current_experience().task, outputs, y)  # for plugins
            return outputs
        self.samples_seen += len(x)
        if mixes_tasks(x):
            outputs = self.model(x)
            self.mb_loss = self.task_loss(outputs, y)
        else:
            self.batch_experience = self.experiences[int(y["task"][0])]
            outputs, self.mb_loss = self.batch_loss(x, y, self.batch_experience)
        return outputs

    def criterion(self) -> Tensor:
        """Return the loss of the batch, which must be finite."""
        loss: Tensor = self.mb_loss
        if not math.isfinite(loss.item()):
            raise UserError(non_finite_loss(self))
        return loss

    def schedule(self) -> tuple[int, int]:
        """Return at which step the task of the batch is, from 0, and how many it has."""
        return self.clock.train_exp_iterations, self.steps

    def optimizer_step(self) -> None:
        """Take a step of the size that the schedule says."""
        settings, (step, steps) = self.settings[self.batch_experience.task.name], self.schedule()
        rate, carried = settings.learning_rate_at(step, steps), settings.carried_at(step, steps)
        groups = self.optimizer.param_groups
        for group in groups:
            group["lr"] = rate * carried if group["carried"] else rate
        if settings.clip is not None:
            learning = [p for group in groups for p in group["params"]]
            nn.utils.clip_grad_norm_(learning, settings.clip)
        self.optimizer.step()

    def _train_exp(
        self, experience: Experience, eval_streams: Iterable[Any] | None = None, **kwargs: Any
    ) -> None:
        self.selection.validation = validation_of(experience, eval_streams)
        if not any(p.requires_grad for p in self.learning(experience).parameters()):
            self.resume_from = None  # of no use, if it was begun here and others have learned it
            return  # nothing to learn: the task is known already
        if self.resume_from is not None:
            resume(self, self.resume_from)
            self.resume_from = None
        self.train_epochs = self.epochs - self.clock.train_exp_epochs
        if self.selection.out_of_patience:  # and then cut off
            self.train_epochs = 0
        with self.operations.closing():
            super()._train_exp(experience, eval_streams=[], **kwargs)

    def _before_training_iteration(self, **kwargs: Any) -> None:
        task = int(self.mb_y["task"][0])
        kind = "several tasks" if mixes_tasks(self.mb_x) else self.experiences[task].task.name
        self.operations.begin_step(kind, len(self.mb_x))
        super()._before_training_iteration(**kwargs)

    def _after_training_iteration(self, **kwargs: Any) -> None:
        self.operations.end_step()
        super()._after_training_iteration(**kwargs)
        if self._on_progress is not None and time.monotonic() > self._reported + _PROGRESS_EVERY:
            self._report_progress(None)
        if self.on_step is not None:
            self.on_step()

    def _report_progress(self, score: float | None) -> None:
        """Report how far the task has come."""
        self._reported = time.monotonic()
        epoch = self.clock.train_exp_epochs + (score is None)
        step, loss = self.clock.train_exp_iterations, float(self.loss.detach())
        task = self.current_experience().task.name
        seen = None if score is None else self.observed.get(task)
        progress = TrainingProgress(task, epoch, self.epochs, loss, score, step, self.steps, seen)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _after_training_epoch(self, **kwargs: Any) -> None:
        super()._after_training_epoch(**kwargs)
        is_over = self.clock.train_exp_iterations >= self.steps
        if not is_over and not self.selection.is_due(self.clock.train_exp_epochs):
            return
        experience, scores = self.current_experience(), self.validate()
        self.selection.consider(scores, self.learning(experience), self.better)
        if self.selection.out_of_patience:
            self.stop_training()
        self._report_progress(scores.get(experience.task.name))

    def better(self, scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
        """Whether an epoch is better than the best so far."""
        return sum(scores.values()) > sum(best.values())

    def validate(self) -> dict[str, float]:
        """Score on validation what is being learned."""
        validation = self.selection.validation
        if validation is None:
            return {}
        return {validation.task.name: self.validation_score(validation)}

    def validation_score(self, validation: Experience) -> float:
        """Score a task on validation, and keep what is seen of its questions meanwhile."""
        scores, self.observed[validation.task.name] = observe(self, validation)
        return scores[validation.task.metric]

    def _after_training_exp(self, **kwargs: Any) -> None:
        experience = self.current_experience()
        self.validation_scores.update(self.selection.load_best(self.learning(experience)))
        self.selection = Selection()
        self.finish(experience)
        with self.operations.around():
            super()._after_training_exp(**kwargs)

    def current_experience(self) -> Experience:
        """Return the experience that is being learned or evaluated, with its type."""
        experience: Experience = self.experience
        return experience


def _size(module: nn.Module, learning: bool = False) -> int:
    """Return how many numbers a module has, or how many of them learn."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not learning)
