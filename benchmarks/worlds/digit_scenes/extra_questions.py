"""Further questions, made of what other tasks are taught: relations to ask about, objects to count.

Objects: section 4.1 of the paper counts the boxes of Visual Genome's objects ("how many dogs are in
this picture?") and gives these synthetic questions to M_cnt. Here every digit that a training scene
shows is counted once. Boxes that a detector drew twice are one object, as in annotations by people.

Relations: the control for what a relation module brings by its data alone.

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

from benchmarks.worlds.digit_scenes.concepts import DIRECTIONS
from benchmarks.worlds.digit_scenes.descriptions import Description
from benchmarks.worlds.digit_scenes.families import count_of, query_related_to
from benchmarks.worlds.digit_scenes.questions import Question, View
from benchmarks.worlds.digit_scenes.rows import Row, answer_row, count_row, read_scene
from benchmarks.worlds.digit_scenes.scenes import Scene
from pmn_cl.data.store import Store

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
    return _columns(store, "vqa", rows)


def extra_counts(store: Store) -> dict[str, NDArray[Any]]:
    """Return a cnt sample for every kind of digit in every scene of the training split.

    The columns are those of the store's cnt table. The same store gives the same questions.
    """
    rows: list[Row] = []
    for number in range(len(store.table("train", "scenes")["mask"].array)):
        view = View(read_scene(store, "train", number))
        rng = Random(f"extra counts/{number}")
        for digit in sorted({thing.digit for thing in view.things}):
            question = count_of(view, Description(digit=digit))
            rows.append({**count_row(view, question, rng, test=False), "scene": number})
    return _columns(store, "cnt", rows)


def _columns(store: Store, table: str, rows: list[Row]) -> dict[str, NDArray[Any]]:
    """Return rows as the columns of a table of the training split."""
    return {
        name: np.array([row[name] for row in rows], column.dtype).reshape(-1, *column.shape[1:])
        for name, column in store.table("train", table).items()
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
