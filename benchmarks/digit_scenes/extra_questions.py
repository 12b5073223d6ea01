"""Relations as further questions: the control for what a relation module brings by its data alone.

Section 4.3 of the paper turns the triplets that M_rel learns from into questions ("what is on top
of the desk?", "laptop") and gives them to the M_vqa that does not call M_rel. Here a triplet
"subject relation object" of the training split becomes a question of the family
``query_related``, such as "what colour is the symbol left of the seven": a property of the subject
is asked, the object is named. Words, phrasings and which property is asked are the world's own.

A triplet is left out where the question would not be sound: several things stand so to the object,
nothing short fits the object alone, or naming it needs a composition that training does without.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.digit_scenes.concepts import DIRECTIONS
from benchmarks.digit_scenes.families import query_related_to
from benchmarks.digit_scenes.questions import Question, View
from benchmarks.digit_scenes.rows import Row, answer_row, read_scene
from benchmarks.digit_scenes.scenes import Scene
from pmn_cl.store import Store

Triplet = tuple[int, int, int]  # subject, relation, object; the ends are things
_TRIES = 20  # descriptions of the object: another one may do without what is novel


def extra_questions(store: Store) -> dict[str, NDArray[Any]]:
    """Return a vqa sample for every triplet of the training split that makes a sound question.

    The columns are those of the store's vqa table. The same store gives the same questions.
    """
    relations = store.table("train", "rel")
    names = ("scene", "box", "relation", "direction", "target")
    samples = np.stack([relations[name].array for name in names], axis=1).tolist()
    rows: list[Row] = []
    for number, of_scene in groupby(sorted(samples), key=itemgetter(0)):
        view = View(read_scene(store, "train", number))
        rng = Random(f"extra questions/{number}")
        # Triplets that were drawn twice, or from both of their ends, are asked about once.
        for triplet in sorted({_triplet(view.scene, *sample[1:]) for sample in of_scene}):
            question = _ask_about(view, rng, triplet)
            if question is not None:
                rows.append({**answer_row(view, question, rng, test=False), "scene": number})
    return {
        name: np.array([row[name] for row in rows], column.dtype).reshape(-1, *column.shape[1:])
        for name, column in store.table("train", "vqa").items()
    }


def _triplet(scene: Scene, box: int, relation: int, direction: int, target: int) -> Triplet:
    """Return the triplet that a sample of rel gives one end of, as things."""
    given, sought = scene.owners[box], scene.owners[target]
    if DIRECTIONS[direction] == "subject":
        return sought, relation, given
    return given, relation, sought


def _ask_about(view: View, rng: Random, triplet: Triplet) -> Question | None:
    """Ask for the subject of a triplet, if that is a sound question."""
    subject, relation, anchor = triplet
    if view.subjects[relation][anchor] != [subject]:
        return None
    for _ in range(_TRIES):
        question = query_related_to(view, rng, relation, anchor)
        if question is not None and not any(view.needs_novel(question)):
            return question
    return None
