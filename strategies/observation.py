"""What a validation shows of a task's questions, beside its score, in the same single pass.

Only what a network lets be seen: one of a user's own need not show anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmn_cl.strategy.base import Experience, Observation
from pmn_cl.tasks.attention import attention_mass, mean_of_asked

if TYPE_CHECKING:
    from strategies.loop import TaskTemplate

GATE = "gate "  # begins the names of metrics that are the gates of a module
_DIGITS = 4  # as many as a curve needs


def observe(strategy: TaskTemplate, experience: Experience) -> tuple[dict[str, float], Observation]:
    """Score a task, and return its metrics with what is seen meanwhile."""
    task, samples = experience.task, experience.samples
    columns, names = samples.columns, samples.store.names
    watch = getattr(strategy.model, "attention_seen", None) if "about" in columns else None
    with nullcontext([]) if watch is None else watch(task.name) as maps:
        scores = strategy.score(experience)
    looks = by_step(maps, len(samples))
    mass = {}
    if looks:
        about = columns["about"]
        found = np.mean([attention_mass(look, about) for look in looks], axis=0)
        mass = mean_of_asked(found, about, task.families(columns, names))
    gates = {key.removeprefix(GATE): v for key, v in scores.items() if key.startswith(GATE)}
    return scores, Observation(
        families=_rounded(task.family_scores(scores)),
        mass=_rounded(mass),
        gates=_rounded({callee: v for callee, v in gates.items() if ", " not in callee}),
    )


def by_step(seen: Sequence[Tensor], count: int) -> list[NDArray[Any]]:
    """Return what a module did in each of its steps, with a row for each of so many samples.

    It was seen batch after batch in the samples' order, all steps of a batch in a row. Nothing
    where it was not seen of every sample.
    """
    steps, rest = divmod(sum(map(len, seen)), count)
    if rest or len(seen) % max(1, steps):
        return []
    return [torch.cat(list(seen[step::steps])).float().cpu().numpy() for step in range(steps)]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in values.items()}
