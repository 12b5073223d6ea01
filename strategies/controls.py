"""Samples for a control: each with the targets of another, so that y does not depend on x.

What remains to be learned is how common each target is among scenes with so many regions.
"""

from __future__ import annotations

import copy

import numpy as np
import torch

from pmn_cl.data.loader import Batches
from pmn_cl.data.samples import Rows, Samples
from pmn_cl.data.store import SCENES
from pmn_cl.strategy.base import Experience
from strategies.loaders import task_seed


def shuffled(experience: Experience, seed: int) -> Experience:
    """Return an experience with the same scenes and queries, and the targets of other samples."""
    changed = copy.copy(experience)
    changed.batches = ShuffledTargets(experience, seed)
    return changed


class ShuffledTargets(Batches):
    """The samples of an experience as batches: x is their own, y another's, in all epochs alike."""

    def __init__(self, experience: Experience, seed: int) -> None:
        super().__init__(experience.samples, experience.batches.scenes, experience.task_label)
        source = exchange(experience.samples, task_seed(seed, f"shuffled {experience.task.name}"))
        rows = torch.from_numpy(source)
        self._target = {name: column[rows] for name, column in self._target.items()}


def exchange(samples: Samples, seed: int) -> Rows:
    """Return for each sample the row whose targets it gets: one with the same regions.

    So padding never becomes a target. Among their like, samples hand their targets on in a
    random circle: none keeps its own, unless it is the only one of its kind.
    """
    mask = samples.store.table(samples.split, SCENES)["mask"].load()
    _, kinds = np.unique(mask, axis=0, return_inverse=True)  # of scenes, by where regions are
    alike = kinds.ravel()[samples.columns["scene"]]
    rng = np.random.default_rng(seed)
    source = np.empty(len(samples), np.int64)
    for kind in np.unique(alike):
        circle = rng.permutation(np.flatnonzero(alike == kind))
        source[circle] = np.roll(circle, 1)
    return source
