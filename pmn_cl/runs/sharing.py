"""What a run shares with others: modules, each with what learning it took.

A module costs the same in every run that has it, whichever run has learned it. Else the first of
two strategies would look dear, and the second cheap.
"""

from __future__ import annotations

from collections.abc import Callable

from pmn_cl.runs.checkpoint import Keeper
from pmn_cl.runs.continual import moments_of, write_moment
from pmn_cl.runs.cost import Clock
from pmn_cl.runs.journal import Journal
from pmn_cl.runs.record import curve_of, write_epoch
from pmn_cl.strategy.base import LearningCost, Strategy, TrainingProgress


class Sharing:
    """Counts what a strategy takes from other runs, and leaves to them what it learns."""

    def __init__(
        self,
        strategy: Strategy,
        keeper: Keeper,
        journal: Journal,
        on_progress: Callable[[TrainingProgress], None] | None,
    ) -> None:
        self._strategy, self._keeper, self._journal = strategy, keeper, journal
        self._on_progress = on_progress
        self._task = ""  # that is being learned
        self._before = 0  # samples seen before it
        self._spent: dict[str, float] | None = None  # on it, before it had to wait

    def begin(self, task: str) -> None:
        """Note where a task begins."""
        self._task, self._before, self._spent = task, self._strategy.samples_seen, None

    def wait(self) -> None:
        """Say that another run learns the task, and let the time until then cost nothing."""
        self._keeper.between()
        if self._spent is None:
            self._spent = self._keeper.clock.spent()
            self._show("waits for another run to learn it", None)
        self._keeper.clock = Clock(self._spent)

    def settle(self) -> None:
        """Count what was taken as if it had been learned here; leave what was learned here."""
        cost = self._strategy.taken()
        if cost is None:
            self._strategy.leave(self._cost())
            return
        for point in cost.curve:
            write_epoch(self._journal, self._task, point)
        for moment in cost.inside:  # of the others, which are frozen, nothing was scored here
            place = {"phase": self._keeper.done, "step": moment["step"]}
            own = {self._task: moment["score"]}
            write_moment(self._journal, place, moment["cpu_seconds"], own)
        clock = self._keeper.clock
        clock.count_instead(cost.learn_seconds, cost.cpu_seconds, cost.learn_peak_bytes)
        scores = [point["score"] for point in cost.curve]
        self._show("learned by another run", max(scores, default=None))

    def _cost(self) -> LearningCost:
        work = self._strategy.operations_taken()
        seconds, cpu, peak = self._keeper.clock.learning()
        return LearningCost(
            learn_seconds=seconds,
            cpu_seconds=cpu,
            learn_peak_bytes=peak,
            samples_seen=self._strategy.samples_seen - self._before,
            trainable=self._strategy.parameter_count().trainable,
            curve=curve_of(self._task, self._journal.events),
            operations=work.learned,
            uncounted=dict(work.uncounted),
            inside=moments_of(self._keeper.done, self._task, self._journal.events),
        )

    def _show(self, note: str, score: float | None) -> None:
        """Let the display say what is done in the place of learning."""
        if self._on_progress is not None:
            step = int(score is not None)
            self._on_progress(TrainingProgress(self._task, 1, 1, 0.0, score, step, 1, note=note))
