"""What a run is measured against: scores and attention that take no learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from pmn_cl.data.store import SCENES
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.attention import mean_of_asked, share_of

Experiences = Mapping[str, Sequence[Experience]]  # by split


def constant_scores(experiences: Experiences, splits: Sequence[str]) -> dict[str, list[float]]:
    """Return by split what the best constant answer, found in training, scores on each task."""
    training = experiences["train"]
    answers = [e.task.constant(e.samples.columns, e.samples.store.names) for e in training]
    return {
        split: [_score(a, b) for a, b in zip(answers, experiences[split], strict=True)]
        for split in splits
    }


def _score(answer: NDArray[Any], experience: Experience) -> float:
    import numpy as np

    samples, task = experience.samples, experience.task
    given = np.broadcast_to(answer, (len(samples), *answer.shape))
    return task.score(given, samples.columns, samples.store.names)[task.metric]


def family_floors(experiences: Experiences, splits: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return by task what its question families come to: of tasks that have any in this world."""
    found: dict[str, dict[str, Any]] = {}
    for place, validation in enumerate(experiences["val"]):
        task, names = validation.task, validation.samples.store.names
        some = {split: experiences[split][place].samples for split in splits}
        scores = {split: task.family_floors(s.columns, names) for split, s in some.items()}
        if any(scores.values()):
            found[task.name] = {"scores": scores, "mass": uniform_mass(validation)}
    return found


def uniform_mass(experience: Experience) -> dict[str, float]:
    """Return by family how much of an attention on all regions alike is on those asked about."""
    samples = experience.samples
    columns = samples.columns
    if "about" not in columns:
        return {}
    table = samples.store.table(samples.split, SCENES)
    about, mask = columns["about"], table["mask"].array[columns["scene"]]
    families = experience.task.families(columns, samples.store.names)
    return mean_of_asked(share_of(about, mask), about, families)
