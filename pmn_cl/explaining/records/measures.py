"""How faithful explanations are: every measure, what it means and its value by chance. No torch.

A network is asked questions of which the world knows the regions and the relation that they are
about. All measures are means over questions; arrays have a row for each, and a column for each
region, padding included (which gets no attention).

Attention is that of M_vqa's steps, averaged: the maps of Ω and M_rel, by their gates. Gates and
queries are those of the step in which the gate is widest, as the sentence has them. The module that
an explanation names is, of those that give where to look and of the others each, the one with the
widest gate. To remove a module, its gate is shut and its share goes to the others of its group; to
mask regions, the whole network, captions included, is asked again without them. "changed" is the
share of questions whose answer is another then, "drop" the loss of the right answer's probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Marks = NDArray[np.bool_]

MASS, POINTING = "attention mass", "pointing"
ASKED = ("asked box", "asked relation", "asked both")
GATES = {"rel": "relational", "cnt": "counting", "cap": "caption"}  # for which questions a gate is
NAMED, OTHER, APART = "named removed", "other removed", "named - other removed"
ATTENDED, ELSEWHERE, BETWEEN = "attended masked", "others masked", "attended - others masked"
CHANGED, DROP = "changed", "drop"

MEASURES = {
    MASS: "attention on the regions the question is about; chance: their share of all regions",
    POINTING: "the most attended region is one of them; chance: the same",
    ASKED[0]: "relational questions: the box given to M_rel is right; chance: any box",
    ASKED[1]: "… the relation and its direction are right; chance: any of them",
    ASKED[2]: "… both are",
    **{
        f"gate {callee} AUC": f"M_{callee}'s gate is wider on a {kind} question than on another; "
        "chance: 0.5"
        for callee, kind in GATES.items()
    },
    NAMED: "without the module that the explanation names",
    OTHER: "without another module of its group, on average",
    APART: "the difference: above 0 where explanations name what matters; chance: 0",
    ATTENDED: "without the fewest regions that have half of the attention",
    ELSEWHERE: "without as many other regions, drawn at random",
    BETWEEN: "the difference; chance: 0",
    "without": "without one module, by its name",
}


def mean(values: NDArray[Any]) -> float | None:
    """Return the mean; none where there is nothing to average."""
    return float(np.mean(values)) if len(values) else None


def points_at(attention: Floats, about: Marks) -> Marks:
    """Return whether the most attended region is one of those meant."""
    found: Marks = np.take_along_axis(about, attention.argmax(1)[:, None], axis=1)[:, 0]
    return found


def at_widest(values: NDArray[Any], gate: Floats) -> NDArray[Any]:
    """Return what (n, steps, …) was at the step in which the gate (n, steps) is widest."""
    widest = gate.argmax(1).reshape(-1, 1, *[1] * (values.ndim - 2))
    return np.asarray(np.take_along_axis(values, widest, axis=1)[:, 0])


def auc(values: Floats, positive: Marks) -> float | None:
    """Return how often a positive question has a larger value than a negative; ties are halves."""
    from scipy.stats import rankdata

    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    ranks = rankdata(values)[positive].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def half_of(attention: Floats) -> Marks:
    """Mark the fewest regions that together have at least half of each question's attention."""
    order = np.argsort(-attention, axis=1, kind="stable")
    ranked = np.take_along_axis(attention, order, axis=1)
    before = ranked.cumsum(1) - ranked
    needed = before < attention.sum(1, keepdims=True) / 2
    marks = np.zeros(needed.shape, dtype=bool)
    np.put_along_axis(marks, order, needed, axis=1)
    return marks


def as_many_others(marked: Marks, mask: Marks, rng: np.random.Generator) -> Marks:
    """Mark as many regions at random among those that are not marked, as far as there are."""
    free = mask & ~marked
    order = np.argsort(np.where(free, rng.random(free.shape), 2.0), axis=1)
    rank = np.argsort(order, axis=1)
    return np.asarray((rank < marked.sum(1, keepdims=True)) & free)


def named_and_others(
    gates: Mapping[str, Floats], groups: Sequence[Sequence[str]], effect: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """Return what removing the named module and what removing another does, for each question.

    ``gates`` (n,) are the widest of each callee, ``effect`` what removing it does. Of each group
    with a choice the callee with the widest gate is the one named; the others count as one, by
    their mean. Several groups count alike.
    """
    named, others = [], []
    for group in (group for group in groups if len(group) > 1):
        widest = np.stack([gates[k] for k in group]).argmax(0)  # (n,)
        effects = np.stack([effect[k] for k in group]).astype(float)  # (callees, n)
        chosen = np.take_along_axis(effects, widest[None], axis=0)[0]
        named.append(chosen)
        others.append((effects.sum(0) - chosen) / (len(group) - 1))
    return np.mean(named, axis=0), np.mean(others, axis=0)
