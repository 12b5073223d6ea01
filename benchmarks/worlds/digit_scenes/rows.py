"""From a scene to the rows of the store, how truth becomes numbers, and back to the scene."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.worlds.digit_scenes import families
from benchmarks.worlds.digit_scenes.captions import (
    LONGEST_CAPTION,
    caption_vocabulary,
    write_captions,
)
from benchmarks.worlds.digit_scenes.columns import (
    COUNT_QUESTIONS,
    RELATION_QUERIES,
    captions_to_learn,
)
from benchmarks.worlds.digit_scenes.concepts import (
    ATTRIBUTES,
    CANVAS,
    COLOUR_NAMES,
    DIRECTIONS,
    MOST_OBJECTS,
    MOST_REGIONS,
    RELATIONS,
    SIZE_NAMES,
)
from benchmarks.worlds.digit_scenes.phrasing import (
    FAMILIES,
    LONGEST_QUESTION,
    choose_phrasing,
    question_vocabulary,
)
from benchmarks.worlds.digit_scenes.questions import (
    ANSWER_TYPES,
    ANSWERS,
    Maker,
    Question,
    View,
    ask,
)
from benchmarks.worlds.digit_scenes.relations import inverse
from benchmarks.worlds.digit_scenes.scenes import BACKGROUND, Scene, Thing
from pmn_cl.data.store import Store

Row = dict[str, Any]
_CAPTION_IDS = {word: number for number, word in enumerate(caption_vocabulary())}
_QUESTION_IDS = {word: number for number, word in enumerate(question_vocabulary())}
_ANSWER_IDS = {answer: number for number, answer in enumerate(ANSWERS)}
_YES_NO = (
    families.exist,
    families.verify,
    families.same,
    families.more,
    families.exist_related,
)


def rows_about(
    scene: Scene, features: NDArray[np.float16], rng: Random, split: str, number: int
) -> dict[str, list[Row]]:
    """Return the rows of every table that are about one scene, the so many-th of its split."""
    novel, test = split == "novel", split in ("test", "novel")
    view = View(scene)
    # Three yes/no questions per scene: two of one answer here, two of the other in the next.
    wanted = ("yes", "no", "yes" if number % 2 else "no")
    samples = {
        "obj": [_object_row(scene, novel)],
        "att": [_attribute_row(scene, novel)],
        "rel": _relation_rows(view, rng, novel),
        "cap": _caption_rows(view, rng, captions_to_learn(split)),
        "cnt": [count_row(view, q, rng, test) for q in _count_questions(view, rng, novel)],
        "vqa": [answer_row(view, q, rng, test) for q in _questions(view, rng, wanted, novel)],
    }
    for rows in samples.values():
        for row in rows:
            row["scene"] = number
    return {"scenes": [_scene_row(scene, features)], **samples}


def read_scene(store: Store, split: str, number: int) -> Scene:
    """Rebuild a scene from its row in the store."""
    row = {name: column.array[number] for name, column in store.table(split, "scenes").items()}
    columns = [row[p].tolist() for p in ("digit", "colour", "size", "texture", "image")]
    columns.append([tuple(box) for box in row["thing_box"].tolist()])
    things = tuple(Thing(*look) for look in zip(*columns, strict=True) if look[0] >= 0)
    boxes = (row["boxes"][row["mask"]] * CANVAS).round().astype(int).tolist()
    regions: list[Any] = [tuple(box) for box in boxes]
    owners = tuple(row["owner"][row["mask"]].tolist())
    return Scene(things, int(row["arrangement"]), int(row["ground"]), tuple(regions), owners)


def _padded(values: ArrayLike, length: int, fill: int, dtype: str) -> NDArray[Any]:
    """Return the values as an array, filled up to a length along the first axis."""
    given = np.asarray(values, dtype=dtype)
    out = np.full((length, *given.shape[1:]), fill, dtype=dtype)
    out[: len(given)] = given
    return out


def _regions_of(scene: Scene, things: Container[int | None]) -> NDArray[Any]:
    """Mark the regions that show one of these things (MOST_REGIONS,)."""
    return _padded([owner in things for owner in scene.owners], MOST_REGIONS, False, "?")


def _scene_row(scene: Scene, features: NDArray[np.float16]) -> Row:
    row = {
        "regions": _padded(features, MOST_REGIONS, 0, "f2"),
        "boxes": _padded(scene.regions, MOST_REGIONS, 0, "f4") / np.float32(CANVAS),
        "mask": _padded([True] * len(scene.regions), MOST_REGIONS, False, "?"),
        "owner": _padded(scene.owners, MOST_REGIONS, BACKGROUND, "i1"),
        "thing_box": _padded([t.box for t in scene.things], MOST_OBJECTS, -1, "i2"),
        "arrangement": scene.arrangement,
        "ground": scene.ground,
    }
    for prop in ("image", "digit", "colour", "size", "texture"):
        row[prop] = _padded([getattr(t, prop) for t in scene.things], MOST_OBJECTS, -1, "i2")
    return row


def _asked(scene: Scene, novel: bool) -> NDArray[Any]:
    """Mark the regions that count: all, or in the novel split those that show what is novel."""
    if not novel:
        return _padded([True] * len(scene.regions), MOST_REGIONS, False, "?")
    return _regions_of(scene, [i for i, thing in enumerate(scene.things) if thing.novel])


def _object_row(scene: Scene, novel: bool) -> Row:
    labels = [0 if o == BACKGROUND else scene.things[o].digit + 1 for o in scene.owners]
    return {"label": _padded(labels, MOST_REGIONS, 0, "i1"), "asked": _asked(scene, novel)}


def _attribute_row(scene: Scene, novel: bool) -> Row:
    attributes = np.zeros((MOST_REGIONS, len(ATTRIBUTES)), dtype=bool)
    for region, owner in enumerate(scene.owners):
        if owner != BACKGROUND:
            thing = scene.things[owner]
            sizes_start = len(COLOUR_NAMES)
            textures_start = sizes_start + len(SIZE_NAMES)
            for at in (thing.colour, sizes_start + thing.size, textures_start + thing.texture):
                attributes[region, at] = True
    return {"attributes": attributes, "asked": _asked(scene, novel)}


def _relation_rows(view: View, rng: Random, novel: bool) -> list[Row]:
    """Draw triplets: one end and the relation are given, a box of the other end is sought."""
    ends = {"subject": view.subjects, "object": inverse(view.subjects)}
    rows: list[Row] = []
    while len(rows) < RELATION_QUERIES:
        relation, direction = rng.randrange(len(RELATIONS)), rng.randrange(len(DIRECTIONS))
        sought = ends[DIRECTIONS[direction]][relation]
        triplets = [
            (given, found)
            for given, all_found in enumerate(sought)
            for found in all_found
            if not novel or view.things[given].novel or view.things[found].novel
        ]
        if not triplets:
            continue
        # Where many fit, which one was drawn matters little: prefer those with few.
        given, target = rng.choices(triplets, [1 / len(sought[g]) ** 2 for g, _ in triplets])[0]
        rows.append(
            {
                "box": rng.choice(view.scene.regions_of(given)),
                "relation": relation,
                "direction": direction,
                "target": rng.choice(view.scene.regions_of(target)),
                "satisfying": _regions_of(view.scene, sought[given]),
                "kind": direction,
            }
        )
    return rows


def _caption_rows(view: View, rng: Random, count: int) -> list[Row]:
    """Return a sample for each of the first captions, with all of them to be scored against."""
    captions = [
        _padded([_CAPTION_IDS[w] for w in (*text.split(), "</s>")], LONGEST_CAPTION, 0, "u1")
        for text in write_captions(view, rng)
    ]
    return [{"words": words, "captions": np.stack(captions)} for words in captions[:count]]


def _count_questions(view: View, rng: Random, novel: bool) -> list[Question]:
    makers: Sequence[Maker] = (families.count, families.count_related) * (COUNT_QUESTIONS // 2)
    return [ask(view, rng, [make], families.count, novel=novel) for make in makers]


def _questions(view: View, rng: Random, wanted: Sequence[str], novel: bool) -> list[Question]:
    """Ask ten questions: yes/no with the answers wanted, two numbers, five others."""
    asked = []
    for answer in wanted:
        makers = [partial(make, answer=answer) for make in _YES_NO]
        asked.append(ask(view, rng, makers, families.count, novel=novel))
    # A question about the whole needs no composition: the novel split has another instead.
    whole = families.query_related if novel else families.overall
    others: list[Maker] = [families.count, families.count_related, whole]
    others += [families.query, families.query_related] * 2
    asked += [ask(view, rng, [make], families.count, novel=novel) for make in others]
    return asked


def _question_row(view: View, question: Question, rng: Random, test: bool) -> Row:
    phrasing = choose_phrasing(rng, question.family, test=test)
    words = question.word(rng, phrasing).split()
    pair, relation = view.needs_novel(question)
    return {
        "question": _padded([_QUESTION_IDS[w] for w in words], LONGEST_QUESTION, 0, "u1"),
        "ask_box": -1 if question.anchor is None else view.scene.regions_of(question.anchor)[0],
        "ask_boxes": _regions_of(view.scene, (question.anchor,)),
        "ask_relation": -1 if question.relation is None else question.relation,
        # "The symbol left of the seven": the object is given, the subject is sought.
        "ask_direction": -1 if question.relation is None else DIRECTIONS.index("subject"),
        "about": _regions_of(view.scene, question.about),
        "family": FAMILIES.index(question.family),
        "phrasing": phrasing,
        "novelty": pair + 2 * relation,
        "program": question.program.encode(),
    }


def count_row(view: View, question: Question, rng: Random, test: bool) -> Row:
    """Return the row of a counting task's question, in words drawn for its split."""
    row = _question_row(view, question, rng, test)
    return {**row, "count": int(question.answer), "kind": question.relation is not None}


def answer_row(view: View, question: Question, rng: Random, test: bool) -> Row:
    """Return the row of a question that is no counting task's, in words drawn for its split."""
    return {
        **_question_row(view, question, rng, test),
        "answers": [_ANSWER_IDS[question.answer]],
        "scores": [1.0],
        "hops": 1 if question.relation is None else 2,
        "kind": ANSWER_TYPES.index(question.answer_type),
    }
