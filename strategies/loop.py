"""The one training loop: Avalanche's supervised template, taught to handle mixed tasks.

A network that grows with the stream, a loss and an optimizer per task, batches that are indexed
whole, and the best epoch chosen on validation. What a subclass adds: which parameters learn.
A network is called as ``network(x, task, teacher=y)``; where plugins of Avalanche's call it or mix
tasks in a batch, as ``network(x)`` with the targets in ``x["y"]``.
Importing this file imports Avalanche, which takes seconds.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tensordict import LazyStackedTensorDict
from torch import Tensor, nn

from pmn_cl.data.loader import BatchLoader
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import Experience, ParameterCount, State, Strategy, TrainingProgress
from pmn_cl.strategy.training import TrainingSettings
from strategies.state import (
    clock_values,
    copied,
    load_optimizer,
    load_random_states,
    optimizer_tensors,
    part,
    random_states,
    set_clock,
    under,
)

import_avalanche()

from avalanche.training.templates import SupervisedTemplate  # noqa: E402
from avalanche.training.templates.base_sgd import PeriodicEval  # noqa: E402

_ANSWERED_AT_ONCE = 512  # samples
_TOLD_EVERY = 1.0  # seconds
_WEIGHTS, _RECORD = "network.safetensors", "learned.json"


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
        self._on_progress = on_progress
        self.dataloader: Any  # plugins of Avalanche may put in their own
        self._validation: Experience | None = None
        self._trainable = 0
        self._told = 0.0  # when progress was last told
        self._resuming: State | None = None
        self._best: tuple[dict[str, float], dict[str, Tensor]] | None = None
        self._since_best = 0  # validations
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

    def finish(self, experience: Experience) -> None:
        """Do what is to be done when a task was learned."""

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Return outputs and the loss of a batch."""
        outputs = self.model(x, experience.task.name, teacher=y)
        return outputs, experience.task.loss(outputs, y)

    def task_loss(self, outputs: Any, y: Any) -> Tensor:
        """Return the loss of outputs of any task, or of several: plugins of Avalanche's ask for it.

        Tasks that are mixed in a batch weigh as much as they have samples in it.
        """
        if isinstance(outputs, Tensor):
            return self.experiences[int(y["task"][0])].task.loss(outputs, y)
        losses = [
            len(rows) * self.task_loss(output, _rows(y, rows)) for rows, output in outputs.parts
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
        self.look_at(experience)
        loader = BatchLoader(experience.batches, _ANSWERED_AT_ONCE, shuffle=False)
        outputs = (self.model(x.to(self.device), experience.task.name) for x, _ in loader)
        try:
            return np.concatenate([experience.task.decode(output) for output in outputs])
        finally:
            self.model.train(was_training)

    def look_at(self, experience: Experience) -> None:
        """Get ready for the scenes of a split."""

    def parameter_count(self) -> ParameterCount:
        """Count what the network has, and what of it the last task could change."""
        return ParameterCount(_size(self.model), self._trainable)

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
            self._trainable = _size(self.learning(experience), learning=True)
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
        """Return the network, the optimizer, the best epoch, all generators and the clock."""
        generators, plain = random_states()
        tensors = under("model", self.model.state_dict())
        tensors |= under("random", generators) | under("extra", self.extra_state())
        facts: dict[str, Any] = {
            "random": plain,
            "clock": clock_values(self.clock),
            "samples_seen": self.samples_seen,
            "validation_scores": self.validation_scores,
            "trainable": self._trainable,
            "task": None,  # that is being learned
        }
        if self._validation is not None:
            facts["task"] = self.current_experience().task.name
            tensors |= under("optimizer", optimizer_tensors(self.optimizer))
            if self._best is not None:
                facts["since_best"] = self._since_best
                facts["best"], best = self._best
                tensors |= under("best", best)
        return State(copied(tensors), facts)

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Build what these experiences made, and go on where the state was taken."""
        tensors, facts = state
        self.samples_seen = facts["samples_seen"]
        self.validation_scores = dict(facts["validation_scores"])
        self.build(done, part("model", tensors))
        self._trainable = facts["trainable"]
        if facts["task"] is None:
            self.load_extra_state(part("extra", tensors))
            set_clock(self.clock, facts["clock"])
            load_random_states(part("random", tensors), facts["random"])
        else:
            self._resuming = state

    def _resume(self) -> None:
        """Go on in the middle of the task that has just been prepared."""
        assert self._resuming is not None
        (tensors, facts), self._resuming = self._resuming, None
        self.model.load_state_dict(part("model", tensors))
        load_optimizer(self.optimizer, part("optimizer", tensors))
        if "best" in facts:
            self._best = dict(facts["best"]), part("best", tensors)
            self._since_best = facts["since_best"]
        self.samples_seen = facts["samples_seen"]
        self.load_extra_state(part("extra", tensors))
        set_clock(self.clock, facts["clock"])
        load_random_states(part("random", tensors), facts["random"])

    def save(self, folder: str | Path) -> Any:
        """Keep the network's weights, and what was learned in which order."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(copied(self.model.state_dict()), folder / _WEIGHTS)
        kept = {
            "tasks": [experience.task.name for experience in self.experiences.values()],
            "samples_seen": self.samples_seen,
            "validation_scores": self.validation_scores,
        }
        (folder / _RECORD).write_text(json.dumps(kept, indent=1), "utf-8")

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Build the network that these experiences made, and take its weights."""
        folder = Path(folder)
        try:
            kept = json.loads((folder / _RECORD).read_text("utf-8"))
            weights = load_file(folder / _WEIGHTS)
        except OSError as error:
            raise UserError(f"{folder}: nothing was kept there: {error.strerror}") from None
        given = [experience.task.name for experience in experiences]
        if kept["tasks"] != given:
            learned = ", ".join(kept["tasks"])
            raise UserError(f"{folder}: what is there learned {learned}, not {', '.join(given)}")
        try:
            self.build(experiences, weights)
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise UserError(f"{folder}: does not fit this strategy's options: {error}") from None
        self.samples_seen = kept["samples_seen"]
        self.validation_scores = kept["validation_scores"]

    # Avalanche's side: what its loop asks for.

    def _before_training_exp(self, **kwargs: Any) -> None:
        experience = self.current_experience()
        name = experience.task.name
        if name not in self.settings:
            known = ", ".join(self.settings)
            raise UserError(f"no training settings for the task {name!r}, only for {known}")
        torch.manual_seed(task_seed(self.seed, name))
        self.experiences[experience.task_label] = self._taught = experience
        self.train_mb_size = self.settings[name].batch_size
        self._best, self._since_best = None, 0
        self.look_at(experience)
        self.plan(experience)
        super()._before_training_exp(**kwargs)

    def plan(self, experience: Experience) -> None:
        """Say how many steps to take for a task, and in how many epochs."""
        per_epoch = len(Course(experience, self.train_mb_size, self.seed))
        self.steps = self.settings[experience.task.name].steps(per_epoch, self.budget)
        self.epochs = math.ceil(self.steps / per_epoch)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches; the order of an epoch depends on the seed alone."""
        self.dataloader = _Epochs(
            self, Course(self.current_experience(), self.train_mb_size, self.seed)
        )

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches, in order."""
        experience = self.current_experience()
        self.look_at(experience)
        loader = BatchLoader(experience.batches, _ANSWERED_AT_ONCE, shuffle=False)
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
        """Give Adam the parameters that learn the task."""
        experience = self.current_experience()
        learning = [p for p in self.learning(experience).parameters() if p.requires_grad]
        self._trainable = sum(p.numel() for p in learning)
        if not learning:
            return
        rate = self.settings[experience.task.name].learning_rate
        self.optimizer = torch.optim.Adam(learning, lr=rate, fused=True)

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
            self._batch_loss = self.current_experience().task.loss(outputs, y)
            return outputs
        self.samples_seen += len(x)
        if mixes_tasks(x):
            outputs = self.model(x)
            self._batch_loss = self.task_loss(outputs, y)
        else:
            self._taught = self.experiences[int(y["task"][0])]
            outputs, self._batch_loss = self.batch_loss(x, y, self._taught)
        return outputs

    def criterion(self) -> Tensor:
        """Return the loss of the batch, which must be finite."""
        loss: Tensor = self._batch_loss
        if not math.isfinite(loss.item()):
            raise UserError(self._what_is_not_finite())
        return loss

    def optimizer_step(self) -> None:
        """Take a step of the size that the schedule says."""
        settings = self.settings[self._taught.task.name]
        rate = settings.learning_rate_at(self.clock.train_exp_iterations, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], settings.clip)
        self.optimizer.step()

    def _train_exp(
        self, experience: Experience, eval_streams: Iterable[Any] | None = None, **kwargs: Any
    ) -> None:
        given = [
            other
            for stream in eval_streams or ()
            for other in (stream if isinstance(stream, Iterable) else [stream])
            if other is not experience  # which Avalanche gives where nothing is given
        ]
        same = [other for other in given if other.task_label == experience.task_label]
        self._validation = same[0] if same else None
        if given and not same:
            raise UserError(f"no validation samples of {experience.task.name!r} were given")
        if not any(p.requires_grad for p in self.learning(experience).parameters()):
            return  # nothing to learn: the task is known already
        if self._resuming is not None:
            self._resume()
        self.train_epochs = self.epochs - self.clock.train_exp_epochs
        if self._out_of_patience():  # and then cut off
            self.train_epochs = 0
        super()._train_exp(experience, eval_streams=[], **kwargs)

    def _after_training_iteration(self, **kwargs: Any) -> None:
        super()._after_training_iteration(**kwargs)
        if self._on_progress is not None and time.monotonic() > self._told + _TOLD_EVERY:
            self._tell(None)
        if self.on_step is not None:
            self.on_step()

    def _tell(self, score: float | None) -> None:
        """Report how far the task has come."""
        self._told = time.monotonic()
        epoch = self.clock.train_exp_epochs + (score is None)
        step, loss = self.clock.train_exp_iterations, float(self.loss.detach())
        progress = TrainingProgress(
            self.current_experience().task.name, epoch, self.epochs, loss, score, step, self.steps
        )
        if self._on_progress is not None:
            self._on_progress(progress)

    def _after_training_epoch(self, **kwargs: Any) -> None:
        super()._after_training_epoch(**kwargs)
        if self.clock.train_exp_epochs % self._epochs_between() and not self._is_over():
            return
        experience, scores = self.current_experience(), self.validate()
        if scores and (self._best is None or self.better(scores, self._best[0])):
            self._best = scores, copy.deepcopy(self.learning(experience).state_dict())
            self._since_best = 0
        elif scores:
            self._since_best += 1
        if self._out_of_patience():
            self.stop_training()
        self._tell(scores.get(experience.task.name))

    def _is_over(self) -> bool:
        return bool(self.clock.train_exp_iterations >= self.steps)

    def _epochs_between(self) -> int:
        """Return how many epochs lie between two validations.

        Few samples mean many short epochs; as many validations as usual are enough.
        """
        usual = self.settings[self.current_experience().task.name].epochs * max(
            1.0, self.budget / 100
        )
        return max(1, math.ceil(self.epochs / usual))

    def _out_of_patience(self) -> bool:
        patience = self.settings[self.current_experience().task.name].patience
        return 0 < patience <= self._since_best

    def better(self, scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
        """Whether an epoch is better than the best so far."""
        return sum(scores.values()) > sum(best.values())

    def validate(self) -> dict[str, float]:
        """Score on validation what is being learned."""
        if self._validation is None:
            return {}
        task = self._validation.task
        return {task.name: self.score(self._validation)[task.metric]}

    def _after_training_exp(self, **kwargs: Any) -> None:
        experience = self.current_experience()
        if self._best is not None:
            scores, state = self._best
            self.validation_scores.update(scores)
            self.learning(experience).load_state_dict(state)
        self._best = self._validation = None
        self.finish(experience)
        super()._after_training_exp(**kwargs)

    def current_experience(self) -> Experience:
        """Return the experience that is being learned or evaluated, with its type."""
        experience: Experience = self.experience
        return experience

    def _what_is_not_finite(self) -> str:
        """Say where a loss that is not finite came from."""
        task, step = self.current_experience().task.name, self.clock.train_exp_iterations + 1
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


@dataclass(frozen=True)
class Course:
    """The samples of a task in batches, epoch after epoch; seed, task and epoch say in which order.

    The task counts by its name: where it stands in the stream changes nothing.
    """

    experience: Experience
    batch_size: int
    seed: int

    def epoch(self, number: int, start: int = 0) -> BatchLoader:
        """Return the batches of an epoch, from 0, or those from one of them on."""
        seed = task_seed(self.seed, self.experience.task.name)
        return BatchLoader(
            self.experience.batches, self.batch_size, seed=seed, epoch=number, start=start
        )

    def __len__(self) -> int:
        return len(self.epoch(0))

    def from_step(self, step: int) -> Iterator[list[Any]]:
        """Yield batches without end, from a step on: where it starts costs nothing."""
        first, start = divmod(step, len(self))
        for number in itertools.count(first):
            yield from labelled(self.epoch(number, start))
            start = 0


@dataclass
class _Epochs:
    """The batches of the epoch that the strategy's clock shows; the last may be cut short."""

    strategy: TaskTemplate
    course: Course

    def __len__(self) -> int:
        return len(self.course)

    def __iter__(self) -> Iterator[list[Any]]:
        clock = self.strategy.clock
        end = min(self.strategy.steps, (clock.train_exp_epochs + 1) * len(self))
        done = clock.train_exp_iterations  # more than the epochs have, where a run was cut
        return itertools.islice(self.course.from_step(done), end - done)


def labelled(loader: BatchLoader) -> Iterator[list[Any]]:
    """Yield batches with their task labels, as Avalanche's loaders do."""
    for x, y in loader:
        yield [x, y, y["task"]]


def task_seed(seed: int, task: str) -> int:
    """Return a seed of its own for a task."""
    name = zlib.crc32(task.encode())
    return int(np.random.SeedSequence([seed, name]).generate_state(1)[0])


def mixes_tasks(x: Any) -> bool:
    """Whether the samples of a batch are of several tasks, whose columns may be alike or not.

    Only loaders of Avalanche's mix, whose samples bring their targets along.
    """
    if isinstance(x, LazyStackedTensorDict):
        return True
    return "y" in x and bool((x["y", "task"] != x["y", "task"][0]).any())


def _rows(y: Any, rows: Tensor) -> Any:
    """Return samples of one task out of a batch that mixes several."""
    return LazyStackedTensorDict.maybe_dense_stack([y[int(row)] for row in rows])


def _size(module: nn.Module, learning: bool = False) -> int:
    """Return how many numbers a module has, or how many of them learn."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not learning)
