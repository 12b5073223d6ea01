"""Which epoch of a task is kept: the best one on validation; and when to stop looking for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience
from pmn_cl.strategy.training import TrainingSettings
from strategies.state import part, under

Scores = Mapping[str, float]  # on validation, by task


class Selection:
    """The best epoch of a task so far, with its weights."""

    def __init__(self, patience: int = 0, interval: int = 1) -> None:
        self.validation: Experience | None = None  # the samples that epochs are compared on
        self.scores: dict[str, float] | None = None  # of the best epoch
        self._weights: dict[str, Tensor] = {}  # of the best epoch
        self._since_best = 0  # validations
        self._patience, self._interval = patience, interval

    def is_due(self, epoch: int) -> bool:
        """Whether the network is to be validated after so many epochs."""
        return epoch % self._interval == 0

    def consider(
        self, scores: Scores, learning: nn.Module, better: Callable[[Scores, Scores], bool]
    ) -> None:
        """Keep the weights as they are now, if they are better than the best so far."""
        if not scores:
            return
        if self.scores is None or better(scores, self.scores):
            self.scores, self._since_best = dict(scores), 0
            self._weights = copy.deepcopy(learning.state_dict())
        else:
            self._since_best += 1

    @property
    def out_of_patience(self) -> bool:
        """Whether too many validations in a row brought no gain."""
        return 0 < self._patience <= self._since_best

    def load_best(self, learning: nn.Module) -> Scores:
        """Go back to the best epoch; return its scores, none where nothing was validated."""
        if self.scores is None:
            return {}
        learning.load_state_dict(self._weights)
        return self.scores

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what is needed to go on: tensors and plain values."""
        if self.scores is None:
            return {}, {}
        return under("best", self._weights), {"best": self.scores, "since_best": self._since_best}

    def load_state(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on from such a state."""
        if "best" in facts:
            self.scores, self._weights = dict(facts["best"]), part("best", tensors)
            self._since_best = facts["since_best"]


def validation_interval(settings: TrainingSettings, epochs: int, budget: float) -> int:
    """Return how many epochs lie between two validations.

    Few samples mean many short epochs; as many validations as usual are enough.
    """
    usual = settings.epochs * max(1.0, budget / 100)
    return max(1, math.ceil(epochs / usual))


def validation_of(experience: Experience, eval_streams: Iterable[Any] | None) -> Experience | None:
    """Return the validation samples of an experience among the streams given to ``train``."""
    given = [
        other
        for stream in eval_streams or ()
        for other in (stream if isinstance(stream, Iterable) else [stream])
        if other is not experience  # which Avalanche gives where nothing is given
    ]
    same = [other for other in given if other.task_label == experience.task_label]
    if given and not same:
        raise UserError(f"no validation samples of {experience.task.name!r} were given")
    return same[0] if same else None
