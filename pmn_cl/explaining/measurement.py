"""Measures how faithful the explanations of a run are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmn_cl.explaining.explainer import Explainer
from pmn_cl.explaining.interventions import Intervention, masked, observe, probabilities, without
from pmn_cl.explaining.records import measures
from pmn_cl.explaining.records.faithfulness import Faithfulness, Measured, now
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.attention import attention_mass, share_of

_AT_ONCE = 500  # questions
_KINDS = ("plain", *measures.GATES.values())  # of questions that attention is measured for


def measure_run(
    explainer: Explainer,
    split: str = "test",
    *,
    questions: int = 4000,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Faithfulness:
    """Return how faithful a run is, measured on so many questions of a split."""
    count = min(questions, len(explainer.table(split)["scene"]))
    rows = np.sort(explainer.sample(count, seed=seed, split=split))
    measured = _Measurement(explainer, split, rows, seed, progress or (lambda done, total: None))
    result = explainer.result
    return Faithfulness(
        run=result.key,
        strategy=result.name,
        seed=result.seed,
        weights=result.weights[-1],
        splits={split: measured.all()},
    )


class _Measurement:
    """Answers some questions several times: as they are, and without parts of the network."""

    def __init__(
        self,
        explainer: Explainer,
        split: str,
        rows: NDArray[Any],
        seed: int,
        progress: ProgressCallback,
    ) -> None:
        self.explainer, self.rows, self.seed = explainer, rows, seed
        self.network, self.names = explainer.network, explainer.store.names
        self._terms = explainer.terms
        self.columns = {name: c.array[rows] for name, c in explainer.table(split).items()}
        self.kinds = {kind: marks[rows] for kind, marks in explainer.kinds(split).items()}
        self.experience = explainer.experience(split)
        explainer.strategy.attach_scenes(
            self.experience
        )  # so that frozen modules remember its scenes
        groups = explainer.tracer.module.G.groups
        self.groups = [group for group in groups if len(group) > 1]
        self.removable = [callee for group in self.groups for callee in group]
        self._advance, self._done = progress, 0
        self._total = (3 + len(self.removable)) * len(rows)
        self.values: dict[str, float] = {}
        self.chance: dict[str, float] = {}

    def all(self) -> Measured:
        """Return every measure that the network and the world's truth allow."""
        seen = Intervention.joined(
            [observe(self.network, x, self._terms) for x, _ in self._batches()]
        )
        self.mask = np.concatenate([x["mask"].numpy() for x, _ in self._batches(uncounted=True)])
        attention = seen.attended.mean(1)
        if "about" in self.columns:
            self._attention(attention)
        if seen.asked_box is not None and "ask_relation" in self.columns:
            self._queries(seen)
        self._gates(seen)
        self._removal(seen)
        self._masking(seen, attention)
        return Measured(
            questions=len(self.rows), values=self.values, chance=self.chance, measured=now()
        )

    def _attention(self, attention: NDArray[Any]) -> None:
        about = self.columns["about"]
        asked = about.any(1)
        mass = attention_mass(attention, about)
        pointing = measures.points_at(attention, about)
        share = share_of(about, self.mask)
        for kind, chosen in [("", asked), *self._by_kind(asked)]:
            for name, found in ((measures.MASS, mass), (measures.POINTING, pointing)):
                self._put(f"{name}{kind}", measures.mean(found[chosen]))
                self._put(f"{name}{kind}", measures.mean(share[chosen]), self.chance)

    def _by_kind(self, asked: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        for kind in _KINDS:
            if kind in self.kinds:
                yield f", {kind}", asked & self.kinds[kind]

    def _queries(self, seen: Intervention) -> None:
        """Evaluate [b, r] on the questions that need a relation from M_vqa itself."""
        assert seen.asked_box is not None
        assert seen.asked_relation is not None
        needs = self.columns["ask_relation"] >= 0
        if "counting" in self.kinds:
            needs &= ~self.kinds["counting"]
        gate = seen.gates["rel"][needs]
        box = measures.at_widest(seen.asked_box[needs], gate)
        relation = measures.at_widest(seen.asked_relation[needs], gate).argmax(1)
        relations, codes = len(self.names["relations"]), seen.asked_relation.shape[2]
        truth = self.columns["ask_direction"][needs].astype(int) * relations
        truth += self.columns["ask_relation"][needs]
        boxes = self.columns["ask_boxes"][needs]
        right = [measures.points_at(box, boxes), relation == truth]
        share = share_of(boxes, self.mask[needs])
        by_chance = [share, np.full(len(share), 1 / codes)]
        for name, found, guessed in zip(
            measures.ASKED,
            [*right, right[0] & right[1]],
            [*by_chance, by_chance[0] * by_chance[1]],
            strict=True,
        ):
            self._put(name, measures.mean(found))
            self._put(name, measures.mean(guessed), self.chance)

    def _gates(self, seen: Intervention) -> None:
        """Measure whether gates open for the questions that a module is for."""
        for callee, kind in measures.GATES.items():
            if callee in self.removable and kind in self.kinds:
                widest, fitting = seen.gates[callee].max(1), self.kinds[kind]
                self._put(f"gate {callee} AUC", measures.auc(widest, fitting))
                self._put(f"gate {callee} AUC", 0.5, self.chance)
                self._put(f"gate {callee}, {kind}", measures.mean(widest[fitting]))
                self._put(f"gate {callee}, others", measures.mean(widest[~fitting]))

    def _removal(self, seen: Intervention) -> None:
        """Measure whether the module that is named is the one that matters."""
        if not self.removable:
            return
        effects: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for callee in self.removable:
            with without(self.network, callee):
                effects[callee] = self._effect(seen, self._ask())
        gates = {callee: seen.gates[callee].max(1) for callee in self.removable}
        for place, what in enumerate((measures.CHANGED, measures.DROP)):
            effect = {callee: both[place] for callee, both in effects.items()}
            named, others = measures.named_and_others(gates, self.groups, effect)
            self._compare(named, others, what, measures.NAMED, measures.OTHER, measures.APART)
            for callee, found in effect.items():
                self._put(f"without {callee}: {what}", measures.mean(found))

    def _masking(self, seen: Intervention, attention: NDArray[Any]) -> None:
        """Measure whether the regions that are looked at are those that matter."""
        looked = measures.half_of(attention) & self.mask
        rng = np.random.default_rng(self.seed)
        others = measures.as_many_others(looked, self.mask, rng)
        looked &= (self.mask & ~looked).any(1)[:, None]  # no scene loses all regions
        effects = [
            self._effect(seen, self._ask(lambda x, rows, hide=hide: masked(x, hide[rows])))
            for hide in (looked, others)
        ]
        names = (measures.ATTENDED, measures.ELSEWHERE, measures.BETWEEN)
        for place, what in enumerate((measures.CHANGED, measures.DROP)):
            ours, theirs = (effect[place] for effect in effects)
            self._compare(ours, theirs, what, *names)
        self._put("regions masked", measures.mean(looked.sum(1)))

    def _compare(self, ours: NDArray[Any], theirs: NDArray[Any], what: str, *names: str) -> None:
        for name, found in zip(names, (ours, theirs, ours.astype(float) - theirs), strict=True):
            self._put(f"{name}: {what}", measures.mean(found))
        self._put(f"{names[2]}: {what}", 0.0, self.chance)

    def _effect(
        self, seen: Intervention, after: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.floating[Any]]]:
        """Return whose answer changed, and how much of the right answer's probability was lost."""
        right = np.take_along_axis(
            self.columns["answers"], self.columns["scores"].argmax(1)[:, None], axis=1
        ).astype(int)
        drop = np.take_along_axis(seen.probabilities - after, right, axis=1)[:, 0]
        return seen.probabilities.argmax(1) != after.argmax(1), drop

    def _ask(self, change: Callable[..., Mapping[str, Tensor]] | None = None) -> NDArray[Any]:
        """Return the probabilities of all answers, of questions that may be changed first."""
        return np.concatenate(
            [
                probabilities(self.network, x if change is None else change(x, rows), self._terms)
                for x, rows in self._batches()
            ]
        )

    def _batches(self, uncounted: bool = False) -> Iterator[tuple[Any, slice]]:
        for start in range(0, len(self.rows), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            x, _ = self.experience.batches[torch.from_numpy(self.rows[rows])]
            yield x, rows
            if not uncounted:
                self._done += len(x)
                self._advance(self._done, self._total)

    def _put(self, name: str, value: float | None, where: dict[str, float] | None = None) -> None:
        if value is not None:
            (self.values if where is None else where)[name] = value
