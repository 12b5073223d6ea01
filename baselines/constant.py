"""The best constant answer: what can be had without looking. Every comparison needs this line.

For each task it gives the one answer that serves the training samples best: the most common
class, count or caption, each attribute's frequency. It never forgets and never transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience, Strategy

_KEPT = "answers.npz"


class Constant(Strategy):
    """Learns each task's prior, and answers every sample with it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._answers: dict[str, NDArray[Any]] = {}

    def learn(self, experience: Experience, validation: Experience) -> None:
        """Find the answer that serves the training samples best."""
        samples = experience.samples
        self._answers[samples.task.name] = samples.task.constant(
            samples.columns, samples.store.names
        )

    def predict(self, experience: Experience) -> NDArray[Any]:
        """Give that answer to every sample."""
        samples = experience.samples
        if samples.task.name not in self._answers:
            known = ", ".join(self._answers) or "none"
            raise UserError(f"task {samples.task.name!r} was not learned; learned: {known}")
        answer = self._answers[samples.task.name]
        return np.broadcast_to(answer, (len(samples), *answer.shape))

    def save(self, folder: str | Path) -> None:
        """Keep the answers."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        np.savez(Path(folder) / _KEPT, allow_pickle=False, **self._answers)

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Take up the answers."""
        with np.load(Path(folder) / _KEPT, allow_pickle=False) as kept:
            self._answers = {
                experience.task.name: kept[experience.task.name] for experience in experiences
            }
