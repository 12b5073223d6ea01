"""The things of a scene as classifiers see them: regions that show something, duplicates merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.concepts import (
    ABOVE,
    ATTRIBUTES,
    BELOW,
    LEFT,
    NEAREST,
    RELATIONS,
    RIGHT,
    SAME_COLOUR,
    SAME_DIGIT,
)
from benchmarks.worlds.digit_scenes.descriptions import VALUES, Description
from pmn_cl.data.programs import SeenRegions

Floats = NDArray[np.floating[Any]]

# Boxes that overlap by more (intersection over union) show one thing. With 0.45, 2% of the training
# scenes have a thing too many, as duplicates are jittered; with 0.3, none has one too many or few.
_SAME_THING = 0.3
_NARROWLY = 1e-6  # so that exact diagonals are left or right, neither above nor below


@dataclass(frozen=True, eq=False)
class SeenThings:
    """K things: what each looks like, where it is, and which regions show it."""

    looks: Mapping[str, Floats]  # by property: log-probabilities (K, values)
    boxes: Floats  # (K, 4)
    regions: Sequence[Sequence[int]]  # of each thing

    def __len__(self) -> int:
        return len(self.boxes)

    def values(self, prop: str) -> NDArray[np.int64]:
        """Return each thing's likeliest value of a property (K,)."""
        return np.asarray(self.looks[prop].argmax(1))

    def fit(self, description: Description) -> NDArray[np.bool_]:
        """Return which things look as described (K,)."""
        fitting = np.ones(len(self), bool)
        for prop, value in description._asdict().items():
            if value is not None:
                fitting &= self.values(prop) == value
        return fitting

    def best_fit(self, description: Description) -> int:
        """Return the thing that most probably is the one described."""
        fits = np.zeros(len(self))
        for prop, value in description._asdict().items():
            if value is not None:
                fits = fits + self.looks[prop][:, value]
        return int(fits.argmax())

    def shown_by(self, region: int) -> int | None:
        """Return the thing that a region shows, if any."""
        return next((k for k, regions in enumerate(self.regions) if region in regions), None)

    @cached_property
    def related(self) -> Floats:
        """Return how surely s stands in each relation to o (relations, K (o), K (s)).

        0.5 and more is yes. The four directions split the plane along its diagonals, as
        ``relations`` says; below 0.5 they still say which thing comes closest to it.
        """
        centres = self.boxes[:, :2] + self.boxes[:, 2:]  # twice the centre: the truth is whole
        apart = centres[None] - centres[:, None]  # s seen from o
        dx, dy = apart[..., 0], apart[..., 1]
        away = np.maximum(np.abs(dx) + np.abs(dy), 1e-9)
        distance = (apart**2).sum(2) + np.where(np.eye(len(self), dtype=bool), np.inf, 0)
        found = np.zeros((len(RELATIONS), len(self), len(self)))
        found[LEFT] = 0.5 + 0.5 * (-dx - np.abs(dy)) / away + _NARROWLY
        found[RIGHT] = 0.5 + 0.5 * (dx - np.abs(dy)) / away + _NARROWLY
        found[ABOVE] = 0.5 + 0.5 * (-dy - np.abs(dx)) / away - _NARROWLY
        found[BELOW] = 0.5 + 0.5 * (dy - np.abs(dx)) / away - _NARROWLY
        for relation, prop in ((SAME_DIGIT, "digit"), (SAME_COLOUR, "colour")):
            probable = np.exp(self.looks[prop])
            found[relation] = probable @ probable.T
        nearest = distance.min(1, keepdims=True, initial=np.inf)
        found[NEAREST] = distance <= nearest * (1 + _NARROWLY)  # all that are equally near
        found[:, np.arange(len(self)), np.arange(len(self))] = -1  # nothing is related to itself
        return found


class SeenScenes:
    """The things of all scenes of a split, worked out when a scene is asked for."""

    def __init__(self, seen: SeenRegions) -> None:
        self._boxes, self._mask = seen.boxes, seen.mask
        self._shows = _log_softmax(seen.objects)  # 0 is background, then the digits
        self._looks = {"digit": self._shows[..., 1:]}
        for prop in ("colour", "size", "texture"):
            first = ATTRIBUTES.index(VALUES[prop][0])
            own = seen.attributes[..., first : first + len(VALUES[prop])]
            self._looks[prop] = _log_softmax(own)
        self._things: dict[int, SeenThings] = {}

    def __getitem__(self, scene: int) -> SeenThings:
        if scene not in self._things:
            self._things[scene] = self.things(scene)
        return self._things[scene]

    def things(self, scene: int, known: int | None = None) -> SeenThings:
        """Return the things of a scene; a region that is known to show one counts anyway."""
        shown = self._mask[scene] & (self._shows[scene].argmax(1) > 0)
        if known is not None:
            shown[known] = True
        boxes = self._boxes[scene]
        groups = _merged(np.flatnonzero(shown), _overlaps(boxes))
        # Duplicates are several looks at one thing: what they say is added up, and weighed anew.
        looks = {
            prop: _log_softmax(np.array([own[scene, group].sum(0) for group in groups]))
            if groups
            else np.zeros((0, own.shape[2]))
            for prop, own in self._looks.items()
        }
        middle = [boxes[group].mean(0) for group in groups]
        return SeenThings(looks, np.array(middle).reshape(-1, 4), groups)


def _merged(regions: NDArray[np.int64], overlaps: Floats) -> list[list[int]]:
    """Put each region to the first thing that one of its regions overlaps, or make it a new one."""
    groups: list[list[int]] = []
    for region in regions.tolist():
        for group in groups:
            if (overlaps[region, group] > _SAME_THING).any():
                group.append(region)
                break
        else:
            groups.append([region])
    return groups


def _overlaps(boxes: Floats) -> Floats:
    """Return the intersection over union of all pairs of boxes (N, N)."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    union = area[:, None] + area[None, :] - shared
    return np.asarray(shared / np.maximum(union, 1e-9))


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
