"""A network that answers several tasks, and the strategy that trains one task after another on it.

What a subclass adds is how its parts are put together: ``add`` and ``answer``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from baselines.common.heads import Head
from baselines.common.trunk import WIDTHS, HeadInput, NetworkPlan
from baselines.options import HeadsOptions
from pmn_cl.errors import UserError
from pmn_cl.modules.layers import start_scaled
from pmn_cl.modules.library.word_vectors import start_words
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.sizes import DEPARTURES, SIZES, WorldShape
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task
from strategies.loaders import mixes_tasks
from strategies.loop import TaskTemplate
from strategies.losses import query_loss
from strategies.options import refuse_unknown_tasks

Seen = TypeVar("Seen")


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

    def head(self, task: str) -> Head | None:
        """Return the head of a task, where a network has such parts."""
        return None

    @contextmanager
    def seen_by_head(
        self, task: str, keep: Callable[[HeadInput, Environment], Seen]
    ) -> Iterator[list[Seen]]:
        """Give what is to be kept of all that a task's head gets to see meanwhile."""
        seen: list[Seen] = []

        def look(head: nn.Module, given: tuple[Any, ...]) -> None:
            seen.append(keep(given[0], given[1]))

        head = self.head(task)
        hook = None if head is None else head.register_forward_pre_hook(look)
        try:
            yield seen
        finally:
            if hook is not None:
                hook.remove()

    @contextmanager
    def attention_seen(self, task: str) -> Iterator[list[Tensor]]:
        """Give the attention (B, N) that a task's head gets to see meanwhile, batch by batch."""
        with self.seen_by_head(task, lambda seen, env: env.softmax(seen.attention)) as attention:
            yield attention

    @contextmanager
    def queries_put(self, task: str) -> Iterator[list[RelationQuery]]:
        """Give the queries [b, r] that a task's head puts meanwhile, where it puts any."""
        head = self.head(task)
        if head is None or head.asks is None:
            yield []
            return
        with self.seen_by_head(task, head.asks) as queries:
            yield queries

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

    def expect(self, experiences: Sequence[Experience]) -> None:
        """Refuse options that name an unknown task."""
        refuse_unknown_tasks(self.options, ["supervise"], experiences)

    def carried(self, experience: Experience) -> Iterable[nn.Parameter]:
        """Return what was there before the task."""
        return self._carried

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Add to the task's loss the supervision of its query [b, r], where that is asked for."""
        with self.network.queries_put(experience.task.name) as queries:
            outputs, loss = self.task_batch_loss(x, y, experience)
        for asked in queries:
            relations = self.network.plan.shape.count("relations")
            loss = loss + self.options.supervision * query_loss(asked, y, relations)
        return outputs, loss

    def task_batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Return outputs and the loss of a batch, but for that supervision."""
        return super().batch_loss(x, y, experience)

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
        tuple(options.supervise),
    )
