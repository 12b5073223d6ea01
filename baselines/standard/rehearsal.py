"""Samples of earlier tasks that are kept.

- ``Agem``: averaged gradient episodic memory (Chaudhry et al. 2019)
- ``Replay``: experience replay (Chaudhry et al. 2019, "On tiny episodic memories")
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baselines.options import AgemOptions, ReplayOptions
from baselines.standard.plugin import WithPlugin
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import Experience
from strategies.loaders import task_seed

import_avalanche()

from avalanche.benchmarks.utils import AvalancheDataset  # noqa: E402
from avalanche.training.plugins import AGEMPlugin, ReplayPlugin  # noqa: E402
from avalanche.training.storage_policy import (  # noqa: E402
    ExperienceBalancedBuffer,
    ReservoirSamplingBuffer,
)


class _WithMemory(WithPlugin):
    """Keeps samples of the tasks it has learned.

    Which ones depends on seed and task alone, so a memory need not be saved: the same
    experiences lead to the same samples.
    """

    keeps_data = True

    def __init__(self, **given: Any) -> None:
        self.memory: NDArray[np.int64] = np.empty((0, 2), np.int64)  # task label and row of each
        self.samples_replayed = 0  # of those seen
        super().__init__(**given)

    @abstractmethod
    def keep(self, experience: Experience) -> NDArray[np.int64]:
        """Return the memory after a task was learned."""

    def finish(self, experience: Experience) -> None:
        """Keep samples of a task."""
        super().finish(experience)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._memory_seed(experience))
            self.memory = self.keep(experience)

    def _memory_seed(self, experience: Experience) -> int:
        return task_seed(self.seed, f"memory of {experience.task.name}")

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return the places of some kept samples; which ones, seed and step alone decide."""
        seed, step = self._memory_seed(self.current_experience()), self.clock.train_exp_iterations
        drawn = np.random.default_rng([seed, step]).permutation(len(self.memory))[:count]
        return self.memory[drawn]

    def recall(self, count: int) -> tuple[Tensor, int]:
        """Return the summed loss of some kept samples, and how many they are."""
        drawn, losses = self.draw(count), []
        for label in np.unique(drawn[:, 0]):
            experience = self.experiences[int(label)]
            rows = drawn[drawn[:, 0] == label, 1]
            x, y = self._on_device(experience.batches[rows])
            _, loss = super().batch_loss(x, y, experience)  # of these alone
            losses.append(len(rows) * loss)
        self.samples_seen += len(drawn)
        self.samples_replayed += len(drawn)
        return torch.stack(losses).sum(), len(drawn)

    def _on_device(self, batch: Any) -> Any:
        return batch if self.device.type == "cpu" else [part.to(self.device) for part in batch]

    def memory_bytes(self) -> int:
        """Return how much the kept samples take, as they are in a batch."""
        first = np.zeros(1, np.int64)  # of a task, samples are all of one size
        labels, counts = np.unique(self.memory[:, 0], return_counts=True)
        sizes = [_bytes_of(self.experiences[int(label)].batches[first]) for label in labels]
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

    def keep(self, experience: Experience) -> NDArray[np.int64]:
        """Keep as many samples of every task."""
        rows = torch.randperm(len(experience.batches))[
            : self.plugin.patterns_per_experience
        ].numpy()
        added = np.column_stack([np.full_like(rows, experience.task_label), rows])
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

    def keep(self, experience: Experience) -> NDArray[np.int64]:
        """Let Avalanche choose what to keep; it gets places of samples instead of samples."""
        places = [(experience.task_label, row) for row in range(len(experience.batches))]
        policy = self.plugin.storage_policy
        policy.post_adapt(self, SimpleNamespace(dataset=AvalancheDataset([places])))
        kept = policy.buffer  # which is put together every time it is asked for
        return np.array([kept[i] for i in range(len(kept))], np.int64).reshape(-1, 2)

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Return outputs of the new samples, and the mean loss of new and kept ones."""
        outputs, new = super().batch_loss(x, y, experience)
        if not len(self.memory):
            return outputs, new
        kept, count = self.recall(self.options.batch_size_mem or self.train_mb_size)
        return outputs, (len(x) * new + kept) / (len(x) + count)


def _gradient(model: nn.Module) -> Tensor:
    """Return the gradient of all weights in one row, 0 where there is none."""
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.flatten() for part in parts])


def _bytes_of(batch: Any) -> int:
    """Return how much the tensors of a batch take."""
    return sum(value.nbytes for part in batch for value in part.values())
