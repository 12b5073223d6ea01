"""Questions made of what Visual Genome's training images show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.genome.synthetic import SceneFacts
from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions, prepare_vqa
from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.errors import UserError


def facts_store(
    folder: Path, objects: list[tuple[int, ...]], related: list[tuple[int, ...]]
) -> Store:
    """A genome.h5 that knows only these facts: (scene, object, count), and triplets.

    A triplet is (scene, subject, subject's number, relation, object, box of the object).
    """

    def write(store: StoreWriter) -> None:
        store.name_values("objects", ["background", "cup", "table", "trees", "tree", "plate"])
        store.name_values("relations", ["on", "has"])
        columns = np.array(objects).reshape(-1, 3).T
        for name, values in zip(("scene", "object", "count"), columns, strict=True):
            store.create(f"facts/objects/{name}", len(values), (), "i4")
            store.append(f"facts/objects/{name}", values)
        columns = np.array(related).reshape(-1, 6).T
        names = ("scene", "subject", "subject_thing", "relation", "object")
        for name, values in zip(names, columns[:5], strict=True):
            store.create(f"facts/relations/{name}", len(values), (), "i4")
            store.append(f"facts/relations/{name}", values)
        boxes = np.eye(4, dtype=bool)[columns[5]]
        store.create("facts/relations/object_boxes", len(boxes), (4,), "?")
        store.append("facts/relations/object_boxes", boxes)

    build_store(folder / "genome.h5", write, header={}, size=0)
    return Store(folder / "genome.h5")


CUP, TABLE, TREES, TREE, PLATE = range(1, 6)
ON, HAS = range(2)
IMAGES = np.arange(10) + 500
SOME = [(0, CUP, 0, ON, TABLE, 2)]


def test_objects_are_counted_where_their_boxes_can_be(tmp_path: Path) -> None:
    objects = [
        (0, CUP, 3),
        (0, TABLE, 13),
        (1, TREES, 2),
        (2, TREE, 4),
        (2, TREES, 1),
        (3, TREE, 4),
    ]
    facts = SceneFacts(facts_store(tmp_path, objects, SOME))
    asked = [(q.scene, q.question, q.answer) for q in facts.plain_counts(IMAGES, 12)]
    # 13 are too many; "trees" is no single thing, and where there are trees, a tree is not counted.
    assert asked == [
        (0, "how many cups are in this picture", "3"),
        (3, "how many trees are in this picture", "4"),
    ]
    assert all(q.boxes is None and q.relation == -1 for q in facts.plain_counts(IMAGES, 12))


def test_questions_about_relations_ask_for_all_things_that_fit_and_have_no_count(
    tmp_path: Path,
) -> None:
    related = [
        (0, CUP, 0, ON, TABLE, 2),
        (0, CUP, 1, ON, TABLE, 3),  # on another table
        (0, CUP, 1, ON, TABLE, 3),  # annotated twice
        (0, PLATE, 2, ON, TABLE, 2),
    ]
    facts = SceneFacts(facts_store(tmp_path, [(0, CUP, 2)], related))
    found: dict[str, Any] = {}
    for image in range(40):  # which two are asked depends on the image
        for q in facts.related_counts(np.full(10, image)):
            found[q.question] = (q.answer, q.boxes.tolist(), q.relation, q.direction)  # type: ignore[union-attr]
    tables = [False, False, True, True]
    assert found == {
        "how many cups on table": (None, tables, ON, 1),
        "how many plates on table": (None, tables, ON, 1),
        "how many on table": (None, tables, ON, 1),
    }
    again = list(facts.related_counts(IMAGES))
    assert [q.question for q in again] == [q.question for q in facts.related_counts(IMAGES)]
    assert len(again) == 2


def test_relations_become_questions_where_one_class_answers(tmp_path: Path) -> None:
    related = [
        (0, CUP, 0, ON, TABLE, 2),
        (0, CUP, 1, ON, TABLE, 3),
        (1, CUP, 5, ON, TABLE, 0),
        (1, PLATE, 6, ON, TABLE, 0),  # a cup or a plate? not sound
        (1, TREE, 7, HAS, PLATE, 1),
    ]
    facts = SceneFacts(facts_store(tmp_path, [(0, CUP, 2)], related))
    asked = [(q.scene, q.question, q.answer, q.relation) for q in facts.related_things()]
    assert asked == [(0, "what is on the table", "cup", ON), (1, "what has the plate", "tree", HAS)]


def test_without_genome_it_says_what_to_do(
    samples: Path, tmp_path: Path, features: Callable[..., Path], watch: Any
) -> None:
    features(tmp_path, {("coco", 1): [[0, 0, 1, 1]]})
    with pytest.raises(UserError, match=r"prepare visual-genome SOURCE .*--no-synthetic"):
        prepare_vqa(samples / "vqa_v2", tmp_path, None, VqaOptions(), watch, print)
    facts_store(tmp_path, [(0, CUP, 2)], SOME)  # about no features that are known
    with pytest.raises(UserError, match="about other features"):
        prepare_vqa(samples / "vqa_v2", tmp_path, None, VqaOptions(), watch, print)


def test_real_synthetic_questions_hold_in_their_image(samples: Path, prepared: Path) -> None:
    store, genome = Store(prepared / "vqa.h5"), Store(prepared / "genome.h5")
    scenes = Store(prepared / "features.h5").table("all", "scenes")
    extra = {name: column.load() for name, column in store.table("extra", "cnt").items()}
    assert list(extra) == list(store.table("train", "cnt"))  # a stream can add them
    assert list(store.table("extra", "vqa")) == list(store.table("train", "vqa"))
    # No image that is not learned from, and of Visual Genome's alone.
    learned = set(genome.table("train", "obj")["scene"].array.tolist())
    assert set(extra["scene"].tolist()) <= learned
    assert (scenes["source"].array[extra["scene"]] == 1).all()
    words = store.names["question words"]
    objects = json.loads((samples / "visual_genome/objects.json").read_text())
    by_image = {
        r["image_id"]: [n.lower().strip() for o in r["objects"] for n in o["names"][:1]]
        for r in objects
    }
    checked = 0
    for row in np.flatnonzero(extra["kind"] == 1):
        text = " ".join(words[n] for n in extra["question"][row] if n)
        thing = text.removeprefix("how many ").removesuffix(" are in this picture")
        names = by_image[int(scenes["image"].array[extra["scene"][row]])]
        # Aliases make a class count more than its own name; never less.
        singular = [n for n in names if f"{n}s" == thing]
        if thing.endswith("s") and singular:
            assert extra["count"][row] >= len(singular)
            checked += 1
    assert checked > 10
    relational = extra["kind"] == 2
    assert relational.any() and (extra["ask_direction"][relational] == 1).all()
    # People do not annotate every relation: how many there are is not known.
    assert (extra["count"][relational] == -1).all() and (extra["count"][~relational] >= 0).all()
    assert extra["ask_boxes"][relational].any(axis=1).all()
    first = extra["ask_boxes"][relational].argmax(axis=1)
    assert extra["ask_box"][relational].tolist() == first.tolist()
    for row in np.flatnonzero(relational):
        relation = genome.names["relations"][extra["ask_relation"][row]]
        text = " ".join(words[n] for n in extra["question"][row] if n)
        assert relation in text or "<unk>" in text
