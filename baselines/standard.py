"""The standard continual-learning methods: hard sharing with a plugin of Avalanche's.

- ``Ewc``: elastic weight consolidation (Kirkpatrick et al. 2017)
- ``Si``: synaptic intelligence (Zenke, Poole & Ganguli 2017)
- ``Mas``: memory aware synapses (Aljundi et al. 2018)
- ``Agem``: averaged gradient episodic memory (Chaudhry et al. 2019)
- ``Replay``: experience replay (Chaudhry et al. 2019, "On tiny episodic memories")
- ``Plugin``: any other plugin, by its name

All learn from the batches that plain hard sharing learns from, for as many steps. Importances and
penalties, the projection and what is kept in a memory are Avalanche's; where it reads samples one
by one, they are read a batch at a time instead, and where it is mistaken, the class says so.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baselines.hard_sharing import HardSharing
from baselines.options import HeadsOptions
from baselines.standard_options import (
    REFUSED,
    AgemOptions,
    EwcOptions,
    MasOptions,
    PluginOptions,
    ReplayOptions,
    SiOptions,
)
from pmn_cl import registry
from pmn_cl.compat import import_avalanche
from pmn_cl.errors import UserError
from pmn_cl.loader import Batches
from pmn_cl.strategy import Lesson, State
from strategies.template import task_seed

import_avalanche()

from avalanche.benchmarks.utils import AvalancheDataset  # noqa: E402
from avalanche.core import BasePlugin  # noqa: E402
from avalanche.training.plugins import (  # noqa: E402
    AGEMPlugin,
    EWCPlugin,
    MASPlugin,
    ReplayPlugin,
    SynapticIntelligencePlugin,
)
from avalanche.training.storage_policy import (  # noqa: E402
    ExperienceBalancedBuffer,
    ReservoirSamplingBuffer,
)
from avalanche.training.utils import ParamData  # noqa: E402


class _WithPlugin(HardSharing):
    """Hard sharing with a plugin of Avalanche's."""

    def __init__(
        self, *, options: HeadsOptions | None = None, plugins: Sequence[Any] = (), **given: Any
    ) -> None:
        chosen = options or self.Options()
        self.plugin: Any = self.make_plugin(chosen)
        super().__init__(options=chosen, plugins=[self.plugin, *plugins], **given)

    @abstractmethod
    def make_plugin(self, options: Any) -> Any:
        """Return the plugin that these options describe."""


# Penalties on what weights were important for earlier tasks.


class _Regularised(_WithPlugin):
    """Adds strength · Σ importance · (θ − θ*)² to the loss, θ* the weights as they were learned."""

    def penalty(self) -> float:
        """Return what the weights, as they are now, add to the loss.

        It is 0 until a second task moves them away from where the first one left them.
        """
        asked = SimpleNamespace(
            model=self.model,
            device=self.device,
            clock=self.clock,
            # Not from 0, which MAS takes for a loss that is missing; small penalties need digits.
            loss=torch.ones((), dtype=torch.float64, device=self.device),
        )
        with torch.no_grad():
            self.plugin.before_backward(asked)
        return float(asked.loss) - 1

    @abstractmethod
    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return what the plugin knows of each weight."""

    def extra_state(self) -> dict[str, Tensor]:
        """Return what the plugin knows."""
        return {
            f"{table}/{weight}": known.data
            for table, weights in self.tables().items()
            for weight, known in weights.items()
        }

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Let the plugin know it again."""
        tables = self.tables()
        for name, value in tensors.items():
            table, _, weight = name.partition("/")
            known = value.clone().to(self.device)
            tables[table][weight] = ParamData(weight, init_tensor=known, device=self.device)


class _Ewc(EWCPlugin):  # type: ignore[misc]  # Avalanche has no types
    """EWC that reads whole batches, and lets recurrent layers learn in eval mode on any device."""

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Work out how important each weight was."""
        with _whole_batches(strategy), torch.backends.cudnn.flags(enabled=False):
            super().after_training_exp(strategy, **kwargs)


class Ewc(_Regularised):
    """Weights may move as far as the Fisher information of each earlier task lets them (eq. 3).

    As in Avalanche, its diagonal is the mean square of *batch* gradients of the loss on true
    labels, and λ is not halved.
    """

    Options = EwcOptions

    def make_plugin(self, options: EwcOptions) -> EWCPlugin:
        """Return EWC with a penalty for each earlier task."""
        return _Ewc(ewc_lambda=options.strength)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return importances and weights as they were, for each task so far."""
        return {
            f"{what} {place}": getattr(self.plugin, what)[place]
            for what in ("importances", "saved_params")
            for place in range(len(self.lessons))
        }


class _Si(SynapticIntelligencePlugin):  # type: ignore[misc]
    """SI that remembers.

    On a CPU Avalanche keeps views of the weights instead of copies: what it remembers changes with
    them, and both path and penalty stay 0. It also lets importances be negative, which would
    reward forgetting (its issue 1226).
    """

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Remember the weights that the task starts from."""
        super().before_training_exp(strategy, **kwargs)
        _detach(self.ewc_data[0])

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Remember the weights before a step."""
        super().before_training_iteration(strategy, **kwargs)
        _detach(self.syn_data["old_theta"])

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Add up how much each weight helped."""
        super().after_training_exp(strategy, **kwargs)
        for importance in self.ewc_data[1].values():
            importance.data = importance.data.clamp(min=0)


class Si(_Regularised):
    """Weights that made the loss fall on their way are held back (eqs. 4 and 5).

    As in Avalanche, the path's gradient is that of the whole loss, penalty included, importances
    end at 0.001, and λ is halved. The path goes to the last epoch, the distance to the best.
    """

    Options = SiOptions

    def make_plugin(self, options: SiOptions) -> SynapticIntelligencePlugin:
        """Return SI."""
        return _Si(si_lambda=options.strength)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return where weights were, how important, and their way so far."""
        theta, importance = self.plugin.ewc_data
        return {"theta": theta, "importance": importance, **self.plugin.syn_data}


class _Mas(MASPlugin):  # type: ignore[misc]
    """MAS for outputs of any shape, that reads whole batches."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.params: dict[str, ParamData] = {}
        self.importance: dict[str, ParamData] = {}

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Work out how important each weight was."""
        flat = strategy.model.register_forward_hook(lambda model, x, outputs: outputs.flatten(1))
        with _whole_batches(strategy):
            super().after_training_exp(strategy, **kwargs)
        flat.remove()


class Mas(_Regularised):
    """Weights that change the squared norm of a sample's outputs are held back (eqs. 2 and 4).

    As in Avalanche, absolute gradients are those of batches, and importances of the tasks are
    averaged with α rather than summed.
    """

    Options = MasOptions

    def make_plugin(self, options: MasOptions) -> MASPlugin:
        """Return MAS."""
        return _Mas(lambda_reg=options.strength, alpha=options.alpha)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return where weights were, and how important."""
        return {"params": self.plugin.params, "importance": self.plugin.importance}


# Samples of earlier tasks that are kept.


class _WithMemory(_WithPlugin):
    """Keeps samples of the tasks it has learned.

    Which ones depends on seed and task alone, so a memory need not be saved: whoever goes through
    the same lessons keeps the same samples.
    """

    keeps_data = True

    def __init__(self, **given: Any) -> None:
        self.memory: NDArray[np.int64] = np.empty((0, 2), np.int64)  # task label and row of each
        self.samples_replayed = 0  # of those seen
        super().__init__(**given)

    @abstractmethod
    def keep(self, lesson: Lesson) -> NDArray[np.int64]:
        """Return the memory after a task was learned."""

    def finish(self, lesson: Lesson) -> None:
        """Keep samples of a task."""
        super().finish(lesson)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._memory_seed(lesson))
            self.memory = self.keep(lesson)

    def _memory_seed(self, lesson: Lesson) -> int:
        return task_seed(self.seed, f"memory of {lesson.task.name}")

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return the places of some kept samples; which ones, seed and step alone decide."""
        seed, step = self._memory_seed(self._lesson()), self.clock.train_exp_iterations
        drawn = np.random.default_rng([seed, step]).permutation(len(self.memory))[:count]
        return self.memory[drawn]

    def recall(self, count: int) -> tuple[Tensor, int]:
        """Return the summed loss of some kept samples, and how many they are."""
        drawn, losses = self.draw(count), []
        for label in np.unique(drawn[:, 0]):
            lesson = self.lessons[int(label)]
            rows = drawn[drawn[:, 0] == label, 1]
            x, y = self._on_device(lesson.batches[rows])
            outputs = self.model(x, lesson.task.name, teacher=y)
            losses.append(len(rows) * lesson.task.loss(outputs, y))
        self.samples_seen += len(drawn)
        self.samples_replayed += len(drawn)
        return torch.stack(losses).sum(), len(drawn)

    def _on_device(self, batch: Any) -> Any:
        return batch if self.device.type == "cpu" else [part.to(self.device) for part in batch]

    def memory_bytes(self) -> int:
        """Return how much the kept samples take, as they are in a batch."""
        first = np.zeros(1, np.int64)  # of a task, samples are all of one size
        labels, counts = np.unique(self.memory[:, 0], return_counts=True)
        sizes = [_bytes_of(self.lessons[int(label)].batches[first]) for label in labels]
        return int(counts @ np.array(sizes, np.int64))

    def details(self) -> dict[str, float]:
        """Return the size of the memory, and how much it was used."""
        return {
            "memory_samples": len(self.memory),
            "memory_bytes": self.memory_bytes(),
            "samples_replayed": self.samples_replayed,
        }

    def extra_state(self) -> dict[str, Tensor]:
        """Return how often the memory was used."""
        return {"samples_replayed": torch.tensor(self.samples_replayed)}

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on counting."""
        self.samples_replayed = int(tensors["samples_replayed"])


class _Agem(AGEMPlugin):  # type: ignore[misc]
    """A-GEM's projection, with the memory of the strategy."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.projections = 0

    def before_training_iteration(self, strategy: Agem, **kwargs: Any) -> None:
        """Find the gradient that must not be opposed."""
        self.buffers = [strategy.memory] if len(strategy.memory) else []
        if self.buffers:
            strategy.optimizer.zero_grad()
            loss, count = strategy.recall(self.sample_size)
            torch.autograd.backward(loss / count)
            self.reference_gradients = _gradient(strategy.model)
            strategy.optimizer.zero_grad()

    def after_backward(self, strategy: Agem, **kwargs: Any) -> None:
        """Project the gradient of the new task where it opposes, and count it."""
        if self.buffers:
            opposed = _gradient(strategy.model) @ self.reference_gradients < 0
            self.projections += int(opposed)
        super().after_backward(strategy, **kwargs)

    def after_training_exp(self, strategy: Agem, **kwargs: Any) -> None:
        """Leave it to the strategy to keep samples."""


class Agem(_WithMemory):
    """Steps must not raise the mean loss on kept samples, to first order (eq. 11).

    The kept samples of a step are drawn at random, as in the publication; Avalanche goes through
    them in order.
    """

    Options = AgemOptions

    def make_plugin(self, options: AgemOptions) -> AGEMPlugin:
        """Return A-GEM."""
        return _Agem(
            patterns_per_experience=options.patterns_per_experience,
            sample_size=options.sample_size,
        )

    @property
    def projections(self) -> int:
        """Return how many steps were projected so far."""
        count: int = self.plugin.projections
        return count

    def keep(self, lesson: Lesson) -> NDArray[np.int64]:
        """Keep as many samples of every task."""
        rows = torch.randperm(len(lesson.batches))[: self.plugin.patterns_per_experience].numpy()
        added = np.column_stack([np.full_like(rows, lesson.task_label), rows])
        return np.concatenate([self.memory, added])

    def details(self) -> dict[str, float]:
        """Return also how many steps were projected."""
        return {**super().details(), "projections": self.projections}

    def extra_state(self) -> dict[str, Tensor]:
        """Return how often the memory was used."""
        return {**super().extra_state(), "projections": torch.tensor(self.projections)}

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on counting."""
        super().load_extra_state(tensors)
        self.plugin.projections = int(tensors["projections"])


class _Replay(ReplayPlugin):  # type: ignore[misc]
    """Avalanche's memory, which the strategy mixes in by itself.

    Its loader would decide how many steps there are, and read every sample by itself.
    """

    def before_training_exp(self, strategy: Replay, **kwargs: Any) -> None:
        """Leave the loader as it is."""

    def after_training_exp(self, strategy: Replay, **kwargs: Any) -> None:
        """Leave it to the strategy to keep samples."""


class Replay(_WithMemory):
    """Every step learns from a batch of the new task and one of kept samples, as one batch.

    New samples are those that the other methods see; kept ones come on top, which ``samples_seen``
    includes. Each sample weighs the same, whatever its task.
    """

    Options = ReplayOptions

    def make_plugin(self, options: ReplayOptions) -> ReplayPlugin:
        """Return replay with a memory that is shared evenly by tasks, or by samples."""
        balanced = options.storage == "experience"
        policy = ExperienceBalancedBuffer if balanced else ReservoirSamplingBuffer
        return _Replay(mem_size=options.mem_size, storage_policy=policy(options.mem_size))

    def keep(self, lesson: Lesson) -> NDArray[np.int64]:
        """Let Avalanche choose what to keep; it gets places of samples instead of samples."""
        places = [(lesson.task_label, row) for row in range(len(lesson.batches))]
        policy = self.plugin.storage_policy
        policy.post_adapt(self, SimpleNamespace(dataset=AvalancheDataset([places])))
        kept = policy.buffer  # which is put together every time it is asked for
        return np.array([kept[i] for i in range(len(kept))], np.int64).reshape(-1, 2)

    def batch_loss(self, x: Any, y: Any, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """Return outputs of the new samples, and the mean loss of new and kept ones."""
        outputs, new = super().batch_loss(x, y, lesson)
        if not len(self.memory):
            return outputs, new
        kept, count = self.recall(self.options.batch_size_mem or self.train_mb_size)
        return outputs, (len(x) * new + kept) / (len(x) + count)


# Anything else.


class Plugin(_WithPlugin):
    """Any plugin that works with a head and a loss per task.

    One that brings a loader of its own gets as many steps as the others. What it remembers is not
    known here, so a run that is cut off starts over.
    """

    Options: ClassVar[type[HeadsOptions]] = PluginOptions

    def make_plugin(self, options: PluginOptions) -> Any:
        """Return the plugin that was named, if it can work."""
        kind = registry.load(options.plugin)
        if not (isinstance(kind, type) and issubclass(kind, BasePlugin)):
            raise UserError(f"{options.plugin!r} is no plugin of Avalanche's, and must be one")
        reasons = [REFUSED[base.__name__] for base in kind.__mro__ if base.__name__ in REFUSED]
        if reasons:
            raise UserError(f"{options.plugin!r} cannot work here: {reasons[0]}")
        try:
            return kind(**options.arguments)
        except (AssertionError, TypeError, ValueError) as error:
            raise UserError(
                f"{options.plugin!r} does not take the arguments {options.arguments}: {error}"
            ) from error

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches, unless the plugin has a loader of its own."""
        super().make_train_dataloader(**kwargs)
        self._usual = self.dataloader

    def _before_training_exp(self, **kwargs: Any) -> None:
        super()._before_training_exp(**kwargs)
        if self.dataloader is not self._usual:
            self.dataloader = _AsManySteps(self, self.dataloader, len(self._usual))

    def _unpack_minibatch(self) -> None:
        super()._unpack_minibatch()
        if self.is_training:  # plugins may call the network with x alone
            self.mb_x.set("y", self.mb_y)

    def state(self) -> State | None:  # type: ignore[override]
        """Return nothing: what a plugin remembers is not known."""
        return None


@dataclass
class _AsManySteps:
    """A plugin's batches, over and over, for as many steps as an epoch has."""

    strategy: Plugin
    loader: Any
    per_epoch: int

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[Any]:
        left = self.strategy.steps - self.strategy.clock.train_exp_epochs * self.per_epoch
        again = itertools.chain.from_iterable(itertools.repeat(self.loader))
        return itertools.islice(again, min(left, self.per_epoch))


# What plugins are given.


@dataclass
class _WholeBatches:
    """Samples of a task as a data set of which torch's loader takes a batch at a time."""

    batches: Batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitems__(self, rows: list[int]) -> tuple[Any, Any, Tensor]:
        x, y = self.batches[torch.tensor(rows)]
        return x.set("y", y), y, y["task"]

    def collate_fn(self, batch: Any) -> Any:
        """Return what is a batch already."""
        return batch


@contextmanager
def _whole_batches(strategy: Any) -> Iterator[None]:
    """Let a plugin read what was learned from in whole batches."""
    lesson = strategy.experience
    strategy.experience = SimpleNamespace(dataset=_WholeBatches(lesson.batches))
    try:
        yield
    finally:
        strategy.experience = lesson


def _detach(table: dict[str, ParamData]) -> None:
    """Give all values memory of their own."""
    for known in table.values():
        known.data = known.data.clone()


def _gradient(model: nn.Module) -> Tensor:
    """Return the gradient of all weights in one row, 0 where there is none."""
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.flatten() for part in parts])


def _bytes_of(batch: Any) -> int:
    """Return how much the tensors of a batch take."""
    return sum(value.nbytes for part in batch for value in part.values())
