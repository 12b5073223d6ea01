"""Hard sharing (Caruana 1993): one trunk for all tasks, a head for each.

Three ways of going through the tasks: one after another (``HardSharing``), all at once
(``HardSharingJoint``), and one after another with all earlier data at hand
(``HardSharingCumulative``).

Where tasks are mixed, each step takes a batch of one task, in random order; a task gets as many
steps as it would have alone, at its own learning rate and batch size, and every loss is the mean
over its samples with weight 1, so that no task weighs more than its own training would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from baselines.common.heads import Head, head_for
from baselines.common.network import HeadsNetwork, HeadsStrategy
from baselines.common.trunk import NetworkPlan, Trunk
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task
from strategies.loaders import EpochBatches, StagedBatches, task_seed


class SharedNetwork(HeadsNetwork):
    """A trunk that every task changes, and heads that only their own task changes."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__(plan)
        self.trunk = Trunk(plan)
        self.heads = nn.ModuleDict()

    def grow(self, task: Task) -> None:
        """Add a head."""
        self.trunk.add(task)
        self.heads[task.name] = head_for(task, self.plan)

    def head(self, task: str) -> Head:
        """Return the head of a task."""
        found = self.heads[task]
        assert isinstance(found, Head)
        return found

    def answer(self, env: Environment, task: Task, teacher: Mapping[str, Tensor] | None) -> Tensor:
        """Answer with the task's head what the trunk sees."""
        outputs: Tensor = self.heads[task.name](self.trunk(env, task), env, teacher)
        return outputs


class HardSharing(HeadsStrategy):
    """One task after another: the trunk goes on learning, and old heads see it change."""

    kind = SharedNetwork


class _Mixing(HardSharing):
    """Learns from batches of several tasks in random order."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shares: list[
            tuple[EpochBatches | StagedBatches, int]
        ] = []  # each task's batches, and how many

    def own_steps(self, experience: Experience) -> int:
        """Return how many steps a task would have alone."""
        settings = self.settings[experience.task.name]
        return settings.steps(len(self.batches_of(experience)), self.budget)

    def plan(self, experience: Experience) -> None:
        """Take all steps of all tasks, in as many parts as the last task has epochs."""
        super().plan(experience)
        self.steps = sum(steps for _, steps in self._shares)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Mix the batches of the tasks."""
        names = "+".join(batches.experience.task.name for batches, _ in self._shares)
        seed = task_seed(self.seed, names)
        self.dataloader = MixtureLoader(self._shares, seed, self.epochs, self.clock)


class HardSharingJoint(_Mixing):
    """All tasks at once: what sharing can reach when nothing has to be remembered."""

    at_once = True

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._validations: dict[str, Experience] = {}

    def learn_all(
        self, experiences: Sequence[Experience], validations: Sequence[Experience]
    ) -> None:
        """Learn all tasks together, as one long experience."""
        self._shares = [
            (self.batches_of(experience), self.own_steps(experience)) for experience in experiences
        ]
        self._validations = {v.task.name: v for v in validations}
        for experience in experiences:
            self.experiences[experience.task_label] = experience
        super().learn(experiences[-1], validations[-1])

    def learn(self, experience: Experience, validation: Experience) -> None:
        """Learn a stream of one task."""
        self.learn_all([experience], [validation])

    def batches_of(self, experience: Experience, again: str = "") -> EpochBatches | StagedBatches:
        """Return all of a task's samples from the start, whatever its curriculum.

        A trunk that learns other tasks meanwhile does not wait for what is left out: without
        directions in rel, it does not learn where regions are (docs/learning.md).
        """
        batches = super().batches_of(experience, again)
        return batches.whole if isinstance(batches, StagedBatches) else batches

    def schedule(self) -> tuple[int, int]:
        """Count a task's steps by its share of all, so that it warms up as slowly as alone."""
        name = self.batch_experience.task.name
        [own] = [steps for batches, steps in self._shares if batches.experience.task.name == name]
        return self.clock.train_exp_iterations * own // self.steps, own

    def prepare(self, experience: Experience) -> None:
        """Add the heads of all tasks."""
        for batches, _ in self._shares or [(self.batches_of(experience), 0)]:
            super().prepare(batches.experience)
        self._carried = []  # nothing has learned before

    def validate(self) -> dict[str, float]:
        """Score all tasks that are learned together."""
        validations = self._validations
        return {name: self.validation_score(some) for name, some in validations.items()}

    def better(self, scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
        """Compare task by task, as their units differ: better if scores rise in the mean."""
        return sum(scores[name] / max(best[name], 1e-9) for name in scores) > len(scores)


class HardSharingCumulative(_Mixing):
    """One task after another, with all earlier data at hand.

    For every step of the new task there is one of an earlier task, all of them in turn; so it
    sees twice as many samples as the others do, which its results say. Warm-ups are counted in
    steps of all: what is learned again has too few of its own to end one.
    """

    predictable = False

    keeps_data = True

    def learn(self, experience: Experience, validation: Experience) -> None:
        """Learn a task, and the earlier ones again."""
        steps, earlier = self.own_steps(experience), list(self.experiences.values())
        again = [
            (self.batches_of(old, experience.task.name), (steps + place) // len(earlier))
            for place, old in enumerate(earlier)
        ]
        new = (self.batches_of(experience), steps)
        self._shares = [*((batches, count) for batches, count in again if count), new]
        super().learn(experience, validation)


class MixtureLoader:
    """Batches of several tasks in random order, in as many parts as there are epochs."""

    def __init__(
        self,
        shares: list[tuple[EpochBatches | StagedBatches, int]],
        seed: int,
        epochs: int,
        clock: Any,
    ) -> None:
        self._clock = clock
        self._batches = [batches for batches, _ in shares]
        turns = np.repeat(np.arange(len(shares)), [steps for _, steps in shares])
        self._order = np.random.default_rng(seed).permutation(turns)
        self._ends = np.linspace(0, len(turns), epochs + 1).round().astype(int)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[list[Any]]:
        done = self._clock.train_exp_iterations
        end = self._ends[self._clock.train_exp_epochs + 1]
        taken = np.bincount(self._order[:done], minlength=len(self._batches))
        running = [
            batches.from_step(int(step)) for batches, step in zip(self._batches, taken, strict=True)
        ]
        return (next(running[turn]) for turn in self._order[done:end])
