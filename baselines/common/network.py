"""A network that answers several tasks, and the strategy that trains one task after another on it.

What a subclass adds is how its parts are put together: ``add`` and ``answer``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from baselines.common.trunk import WIDTHS, NetworkPlan
from baselines.options import HeadsOptions
from pmn_cl.errors import UserError
from pmn_cl.modules.layers import start_scaled
from pmn_cl.modules.library.word_vectors import start_words
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.sizes import DEPARTURES, SIZES, WorldShape
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task
from strategies.loaders import mixes_tasks
from strategies.loop import TaskTemplate


class MixedOutputs(NamedTuple):
    """Outputs of a batch that mixes tasks: which samples, and the outputs of their task."""

    parts: list[tuple[Tensor, Tensor]]


class HeadsNetwork(nn.Module, ABC):
    """A network with a head per task."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.plan = plan
        self.tasks: dict[str, Task] = {}  # learned so far
        self._names: dict[int, str] = {}  # of tasks, by label

    @abstractmethod
    def grow(self, task: Task) -> None:
        """Add what a new task needs."""

    @abstractmethod
    def answer(self, env: Environment, task: Task, teacher: Mapping[str, Tensor] | None) -> Tensor:
        """Return the outputs of a task."""

    def head(self, task: str) -> nn.Module | None:
        """Return the head of a task, where a network has such parts."""
        return None

    @contextmanager
    def attention_seen(self, task: str) -> Iterator[list[Tensor]]:
        """Give the attention (B, N) that a task's head gets to see meanwhile, batch by batch."""
        seen: list[Tensor] = []

        def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
            seen.append(given[1].softmax(given[0].attention))

        head = self.head(task)
        hook = None if head is None else head.register_forward_pre_hook(keep)
        try:
            yield seen
        finally:
            if hook is not None:
                hook.remove()

    def add(self, experience: Experience) -> None:
        """Get ready for a task, once."""
        if experience.task.name not in self.tasks:
            self.tasks[experience.task.name] = experience.task
            self._names[experience.task_label] = experience.task.name
            self.grow(experience.task)

    def forward(
        self,
        x: Any,
        task: str | None = None,
        *,
        teacher: Mapping[str, Tensor] | None = None,
        trace: Trace | None = None,
    ) -> Tensor | MixedOutputs:
        """Return the outputs of a task, or of every task in a batch that brings its targets."""
        if task is None and mixes_tasks(x):
            return self._mixed(x)
        if task is None:  # as plugins of Avalanche's call it
            if "y" not in x:
                raise UserError(
                    "the batch has no task label: give the network a task, or targets in x['y']"
                )
            task, teacher = self._names[int(x["y", "task"][0])], x["y"]
        if task not in self.tasks:
            known = ", ".join(self.tasks) or "none"
            raise UserError(f"task {task!r} was not learned; learned: {known}")
        return self.answer(Environment.of(x, task=task), self.tasks[task], teacher)

    def _mixed(self, x: Any) -> MixedOutputs:
        samples = x.unbind(0)
        labels = torch.tensor([int(sample["y", "task"]) for sample in samples])
        parts = []
        for label in sorted(set(labels.tolist())):
            rows = (labels == label).nonzero().squeeze(1)
            output = self(torch.stack([samples[int(row)] for row in rows]))
            parts.append((rows, output))
        return MixedOutputs(parts)


class HeadsStrategy(TaskTemplate):
    """Trains a network with a head per task on one task after another."""

    Options = HeadsOptions
    kind: ClassVar[type[HeadsNetwork]]

    def __init__(self, *, options: HeadsOptions | None = None, **given: Any) -> None:
        self.options = options or self.Options()
        self._carried: list[nn.Parameter] = []
        # What is to be seen is known with the first experience, which makes the network.
        super().__init__(network=nn.Module(), settings=self.options.settings(), **given)

    @property
    def network(self) -> Any:
        """Return the network, which the first experience makes."""
        if not isinstance(self.model, HeadsNetwork):
            raise UserError("nothing was learned yet")
        return self.model

    def prepare(self, experience: Experience) -> None:
        """Add what the task needs."""
        known: set[nn.Module] = set()
        if isinstance(self.model, HeadsNetwork):
            known, self._carried = set(self.model.modules()), list(self.model.parameters())
        else:
            self.model: nn.Module = self.make_network(plan_of(self.options, experience))
        self.network.add(experience)
        new = [part for part in self.network.modules() if part not in known]
        if self.network.plan.departures.scaled_start:
            start_scaled(new)
        for part in new:
            start_words(part, experience.samples.store)

    def carried(self, experience: Experience) -> Iterable[nn.Parameter]:
        """Return what was there before the task."""
        return self._carried

    def make_network(self, plan: NetworkPlan) -> HeadsNetwork:
        """Return the network before its first task."""
        return self.kind(plan)

    def predict(self, experience: Experience) -> Any:
        """Answer all samples of a split."""
        if not isinstance(self.model, HeadsNetwork):
            raise UserError(f"task {experience.task.name!r} was not learned; learned: none")
        return super().predict(experience)


def plan_of(options: HeadsOptions, experience: Experience) -> NetworkPlan:
    """Return how large the parts are, and what they are over."""
    store = experience.samples.store
    region = store.table(experience.samples.split, "scenes")["regions"].shape[2]
    sizes = SIZES[options.size]
    return NetworkPlan(
        WorldShape(region, store.names),
        sizes,
        options.width or WIDTHS[options.size],
        options.attention or sizes.attention,
        DEPARTURES[options.size],
    )
