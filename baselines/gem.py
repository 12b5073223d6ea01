"""Gradient episodic memory (Lopez-Paz & Ranzato 2017) for mixed outputs, on hard sharing's network.

Of every task learned, a few samples are kept. A step on the new task may not raise, to first order,
the loss on the samples of any old task k: ⟨g, g_k⟩ ≥ 0 for the gradients g of the batch and g_k of
the memory. Where one is violated, g gives way to the nearest g̃ that violates none.

A gradient is over all parameters of the network, those of old heads too, with 0 where there is
none.

Departures: the memory is a random choice rather than a task's last samples, as samples here come
in no order; steps are Adam's of the projected gradient, as everywhere here, so that what the
constraints say of the gradient holds for the step only nearly; γ bounds v from below, as in the
authors' program (their text adds it to v*), so that g̃ keeps to the constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from baselines.hard_sharing import HardSharing
from baselines.options import GemOptions
from pmn_cl.strategy.base import Experience
from strategies.loaders import task_seed

_COUNTS = ("samples_replayed", "checks", "projections")


class EpisodicMemory(NamedTuple):
    """Samples of a task that stay at hand."""

    experience: Experience
    x: Any
    y: Any


class GradientEpisodicMemory(HardSharing):
    """One task after another, by steps that hurt no old task's memory.

    ``samples_seen`` counts the memory's samples at every step that looks at them.
    """

    predictable = False

    Options = GemOptions
    keeps_data = True

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.memory: dict[int, EpisodicMemory] = {}  # by task label
        self.checks = 0  # steps with old tasks to mind
        self.projections = 0  # those of them at which a constraint was violated
        self.samples_replayed = 0  # of those seen

    def finish(self, experience: Experience) -> None:
        """Keep some samples; which, the seed and the task say, so that loading keeps the same."""
        rng = np.random.default_rng(task_seed(self.seed, f"memory of {experience.task.name}"))
        size = min(self.options.patterns_per_experience, len(experience.batches))
        rows = np.sort(rng.choice(len(experience.batches), size, replace=False))
        x, y = experience.batches[rows]
        self.memory[experience.task_label] = EpisodicMemory(
            experience, x.to(self.device), y.to(self.device)
        )

    def memory_samples(self) -> int:
        """Return how many samples are kept."""
        return sum(len(kept.x) for kept in self.memory.values())

    def memory_bytes(self) -> int:
        """Return how much room they take."""
        columns = [c for _, x, y in self.memory.values() for c in (*x.values(), *y.values())]
        return sum(column.numel() * column.element_size() for column in columns)

    def details(self) -> dict[str, float]:
        """Return the size of the memory, and how much it was used."""
        size = {"memory_samples": self.memory_samples(), "memory_bytes": self.memory_bytes()}
        return {**size, **{name: getattr(self, name) for name in _COUNTS}}

    def extra_state(self) -> dict[str, Tensor]:
        """Return how much the memory was used; its samples are known by seed and task."""
        return {name: torch.tensor(getattr(self, name)) for name in _COUNTS}

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on counting."""
        for name in _COUNTS:
            setattr(self, name, int(tensors[name]))

    def backward(self) -> None:
        """Find the gradient of the batch, and make it one that hurts no old task."""
        super().backward()
        new = self.batch_experience.task_label
        old = [kept for label, kept in self.memory.items() if label != new]
        if not old:
            return
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        g = _flat([p.grad for p in parameters], parameters)
        memories = torch.stack([self._gradient(kept, parameters) for kept in old])
        projected = project(g, memories, self.options.memory_strength)
        self.checks += 1
        if projected is not g:
            self.projections += 1
            parts = torch.split(projected, [p.numel() for p in parameters])
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.grad = part.view_as(parameter)

    def _gradient(self, kept: EpisodicMemory, parameters: Sequence[Tensor]) -> Tensor:
        """Return g_k, the gradient of the loss on a task's memory."""
        self.samples_seen += len(kept.x)
        self.samples_replayed += len(kept.x)
        _, loss = self.batch_loss(kept.x, kept.y, kept.experience)
        return _flat(torch.autograd.grad(loss, parameters, allow_unused=True), parameters)


def _flat(gradients: Any, parameters: Sequence[Tensor]) -> Tensor:
    """Return gradients as one vector, with zeros where there is none."""
    return torch.cat(
        [
            (torch.zeros_like(p) if g is None else g).flatten()
            for g, p in zip(gradients, parameters, strict=True)
        ]
    )


def project(g: Tensor, memories: Tensor, margin: float = 0.0) -> Tensor:
    """Return the g̃ nearest to g (P,) with ⟨g̃, g_k⟩ ≥ 0 for all g_k of (K, P); g itself if it is.

    Solves the dual (eq. 11): min ½ vᵀGGᵀv + gᵀGᵀv with v ≥ γ, then g̃ = g + Gᵀv, where the rows of
    G are the g_k. With v = γ + u, it is the same program in u ≥ 0 from g + γGᵀ1; and with GGᵀ = RᵀR
    it is min ‖Ru − r‖ for Rᵀr = −Gg: non-negative least squares in as many numbers as old tasks.
    """
    if bool((memories @ g >= 0).all()):
        return g
    g = g + margin * memories.sum(0)
    # The constraints do not depend on the length of g_k, which differs much between losses.
    units = memories / memories.norm(dim=1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
    gram, along = (found.double().cpu().numpy() for found in (units @ units.T, units @ g))
    values, vectors = np.linalg.eigh(gram)
    apart = values > len(values) * torch.finfo(g.dtype).eps * values.max()  # not the same twice
    roots, vectors = np.sqrt(values[apart]), vectors[:, apart]
    u, _ = nnls(roots[:, None] * vectors.T, -(vectors.T @ along) / roots)
    nearest: Tensor = g + torch.from_numpy(u).to(units) @ units
    return nearest
