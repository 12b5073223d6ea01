"""Hard sharing (Caruana 1993): one trunk for all tasks, a head for each.

Three ways of going through the tasks: one after another (``HardSharing``), all at once
(``HardSharingJoint``), and one after another with all earlier data at hand
(``HardSharingCumulative``).

Where tasks are mixed, each step takes a batch of one task, in random order; a task gets as many
steps as it would have alone, at its own learning rate and batch size, and every loss is the mean
over its samples with weight 1, so that no task weighs more than its own training would.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from baselines.heads import head_for
from baselines.network import HeadsNetwork, HeadsStrategy
from baselines.trunk import Plan, Trunk
from pmn_cl.modules.environment import Environment
from pmn_cl.strategy import Lesson
from pmn_cl.tasks import Task
from strategies.template import Course, task_seed


class SharedNetwork(HeadsNetwork):
    """A trunk that every task changes, and heads that only their own task changes."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.trunk = Trunk(plan)
        self.heads = nn.ModuleDict()

    def grow(self, task: Task) -> None:
        """Add a head."""
        self.trunk.add(task)
        self.heads[task.name] = head_for(task, self.plan)

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
        self._shares: list[tuple[Lesson, int]] = []  # steps of each task
        self._validations: dict[str, Lesson] = {}

    def own_steps(self, lesson: Lesson) -> int:
        """Return how many steps a task would have alone."""
        settings = self.settings[lesson.task.name]
        return settings.steps(len(self._course(lesson).epoch(0)), self.budget)

    def _course(self, lesson: Lesson) -> Course:
        return Course(lesson, self.settings[lesson.task.name].batch_size, self.seed)

    def plan(self, lesson: Lesson) -> None:
        """Take all steps of all tasks, in as many parts as the last task has epochs."""
        super().plan(lesson)
        self.steps = sum(steps for _, steps in self._shares)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Mix the batches of the tasks."""
        courses = [(self._course(lesson), steps) for lesson, steps in self._shares]
        seed = task_seed(self.seed, "+".join(lesson.task.name for lesson, _ in self._shares))
        self.dataloader = Mixture(courses, self.train_epochs, seed)

    def validate(self) -> dict[str, float]:
        """Score all tasks that are learned together."""
        scores = {}
        for lesson, _ in self._shares:
            name = lesson.task.name
            scores[name] = self.score(self._validations[name])[lesson.task.metric]
        return scores


class HardSharingJoint(_Mixing):
    """All tasks at once: what sharing can reach when nothing has to be remembered."""

    at_once = True

    def learn_all(self, lessons: Sequence[Lesson], validations: Sequence[Lesson]) -> None:
        """Learn all tasks together, as one long experience."""
        self._shares = [(lesson, self.own_steps(lesson)) for lesson in lessons]
        self._validations = {v.task.name: v for v in validations}
        for lesson in lessons:
            self.lessons[lesson.task_label] = lesson
        super().learn(lessons[-1], validations[-1])

    def learn(self, lesson: Lesson, validation: Lesson) -> None:
        """Learn a stream of one task."""
        self.learn_all([lesson], [validation])

    def prepare(self, lesson: Lesson) -> None:
        """Add the heads of all tasks."""
        for known, _ in self._shares or [(lesson, 0)]:
            super().prepare(known)


class HardSharingCumulative(_Mixing):
    """One task after another, with all earlier data at hand.

    For every step of the new task there is one of an earlier task, all of them in turn; so it
    sees twice as many samples as the others do, which its results say.
    """

    def learn(self, lesson: Lesson, validation: Lesson) -> None:
        """Learn a task, and the earlier ones again."""
        steps, earlier = self.own_steps(lesson), list(self.lessons.values())
        again = [
            (old, steps // len(earlier) + (place < steps % len(earlier)))
            for place, old in enumerate(earlier)
        ]
        self._shares = [*((old, count) for old, count in again if count), (lesson, steps)]
        self._validations[lesson.task.name] = validation
        super().learn(lesson, validation)


@dataclass
class Mixture:
    """Batches of several tasks in random order, in so many parts; each part goes on where the
    one before ended.
    """

    courses: list[tuple[Course, int]]
    parts: int
    seed: int
    _left: Iterator[list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        turns = np.repeat(np.arange(len(self.courses)), [steps for _, steps in self.courses])
        self._order = np.random.default_rng(self.seed).permutation(turns)
        self._left = self._batches()
        self._ends = np.linspace(0, len(self._order), self.parts + 1).round().astype(int)
        self._part = 0

    def _batches(self) -> Iterator[list[Any]]:
        running = [course.batches() for course, _ in self.courses]
        return (next(running[turn]) for turn in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[list[Any]]:
        steps = self._ends[self._part + 1] - self._ends[self._part]
        self._part += 1
        return itertools.islice(self._left, int(steps))
