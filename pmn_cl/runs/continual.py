"""What becomes of all tasks while one of them is learned: scores on the probe, from time to time.

Continual evaluation (De Lange et al., ICLR 2023), for tasks of any kind. It changes nothing that is
learned, and counts as evaluation, not as learning. Off, it does nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from pmn_cl.config.spec import EvaluateSpec
from pmn_cl.results.result import INSIDE_DIGITS
from pmn_cl.runs.checkpoint import Keeper
from pmn_cl.runs.journal import Event, Journal
from pmn_cl.strategy.base import Experience, Strategy

INSIDE = "inside"  # the event in the journal
_FACTOR = 4  # between the first evaluations of a task, which come sooner than the others


class ContinualEvaluation:
    """Scores the probe of all tasks seen so far as often as a stream says."""

    def __init__(
        self,
        every: EvaluateSpec | None,
        strategy: Strategy,
        probe: Sequence[Experience],
        journal: Journal,
        keeper: Keeper,
    ) -> None:
        self._every, self._strategy, self._probe = every, strategy, probe
        self._journal, self._keeper = journal, keeper
        self._seen: list[str] = []
        self._evaluated = 0.0  # CPU-seconds of learning at the last evaluation

    def begin(self, seen: Sequence[str]) -> None:
        """Note which tasks are there, now that others are to be learned."""
        self._seen, self._evaluated = list(seen), 0.0

    def after_step(self) -> None:
        """Evaluate if it is time to; what is in the journal already came to the same."""
        if self._every is None or not self._is_due(self._every):
            return
        place = {"phase": self._keeper.done, "step": self._keeper.steps}
        if any(place.items() <= event.items() for event in self._journal.events):
            return
        self._evaluated = self._keeper.clock.learning_cpu()
        with self._keeper.clock.aside():
            scores = {
                experience.task.name: found[experience.task.metric]
                for experience in self._probe
                if experience.task.name in self._seen
                if (found := self._strategy.score(experience))
            }
        write_moment(self._journal, place, self._evaluated, scores)

    def _is_due(self, every: EvaluateSpec) -> bool:
        step = self._keeper.steps
        if every.interval is not None:
            return step % every.interval == 0 or is_early(step, every.interval)
        since = self._keeper.clock.learning_cpu() - self._evaluated
        return since >= (every.seconds or 0.0) or is_early(step, inf)


def write_moment(
    journal: Journal, place: Mapping[str, int], cpu_seconds: float, scores: Mapping[str, float]
) -> None:
    """Write down what the probe came to at a step of a phase, once."""
    if not any(place.items() <= event.items() for event in journal.events):
        rounded = {task: round(score, INSIDE_DIGITS) for task, score in scores.items()}
        journal.write(INSIDE, **place, cpu_seconds=cpu_seconds, scores=rounded)


def moments_of(phase: int, task: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return how a task itself went on the probe while it was learned, for runs that take it."""
    return [
        {"step": event["step"], "cpu_seconds": event["cpu_seconds"], "score": event["scores"][task]}
        for event in events
        if event["event"] == INSIDE and event["phase"] == phase and task in event["scores"]
    ]


def is_early(step: int, regular: float) -> bool:
    """Whether a step is 1, 4, 16, …: evaluations begin with these, until they are regular."""
    power = 1
    while power < step:
        power *= _FACTOR
    return power == step < regular
