"""What the store of this world holds: its tables, their columns, and what numbers mean.

``ask_boxes`` (any of them is right; ``ask_box`` is the first), ``ask_relation`` and
``ask_direction`` are the query that a relational question should send to the relation module (no
box and -1 where there is none), ``about`` marks the regions one has to look at, and
``novelty`` is 1 for a novel digit-colour pair, plus 2 for a novel relation-colour pair.
"""

from __future__ import annotations

from benchmarks.worlds.digit_scenes.captions import LONGEST_CAPTION, REFERENCES, caption_vocabulary
from benchmarks.worlds.digit_scenes.concepts import (
    ARRANGEMENTS,
    ATTRIBUTES,
    DIRECTIONS,
    GROUND_NAMES,
    MOST_OBJECTS,
    MOST_REGIONS,
    OBJECT_CLASSES,
    RELATIONS,
)
from benchmarks.worlds.digit_scenes.descriptions import VALUES
from benchmarks.worlds.digit_scenes.phrasing import FAMILIES, LONGEST_QUESTION, question_vocabulary
from benchmarks.worlds.digit_scenes.questions import ANSWER_TYPES, ANSWERS, MOST_COUNTED
from pmn_cl.data.store import StoreWriter

RELATION_QUERIES, COUNT_QUESTIONS, QUESTIONS = 8, 4, 10  # per scene
LONGEST_PROGRAM = 112  # characters

Columns = dict[str, tuple[tuple[int, ...], str]]  # name → shape of a row, type


def name_values(store: StoreWriter) -> None:
    """Keep the words behind the numbers; "<task> kinds" name the strata of a task's samples."""
    store.name_values("objects", OBJECT_CLASSES)
    for prop, values in VALUES.items():
        store.name_values(prop, values)
    store.name_values("arrangement", ARRANGEMENTS)
    store.name_values("ground", GROUND_NAMES)
    store.name_values("attributes", ATTRIBUTES)
    store.name_values("relations", RELATIONS)
    store.name_values("directions", DIRECTIONS)
    store.name_values("caption words", caption_vocabulary())
    store.name_values("question words", question_vocabulary())
    store.name_values("answers", ANSWERS)
    store.name_values("counts", [str(number) for number in range(MOST_COUNTED + 1)])
    store.name_values("families", FAMILIES)
    store.name_values("rel kinds", DIRECTIONS)
    store.name_values("cnt kinds", ("plain", "relational"))
    store.name_values("vqa kinds", ANSWER_TYPES)


def captions_to_learn(split: str) -> int:
    """Return how many captions of a scene are samples: training learns each of them."""
    return REFERENCES if split == "train" else 1


def create_columns(store: StoreWriter, split: str, scenes: int, features: int) -> None:
    """Declare every column: rows per scene, then columns with their shape and type."""
    per_region, per_thing = (MOST_REGIONS,), (MOST_OBJECTS,)
    asked: Columns = {
        "question": ((LONGEST_QUESTION,), "u1"),
        "ask_box": ((), "i1"),
        "ask_boxes": (per_region, "?"),
        "ask_relation": ((), "i1"),
        "ask_direction": ((), "i1"),
        "about": (per_region, "?"),
        "family": ((), "u1"),
        "phrasing": ((), "u1"),
        "novelty": ((), "u1"),
        "program": ((), f"S{LONGEST_PROGRAM}"),
    }
    tables: dict[str, tuple[int, Columns]] = {
        "scenes": (
            1,
            {
                "regions": ((MOST_REGIONS, features), "f2"),
                "boxes": ((MOST_REGIONS, 4), "f4"),
                "mask": (per_region, "?"),
                "owner": (per_region, "i1"),
                "thing_box": ((MOST_OBJECTS, 4), "i2"),
                "image": (per_thing, "i2"),
                **dict.fromkeys(("digit", "colour", "size", "texture"), (per_thing, "i1")),
                "arrangement": ((), "u1"),
                "ground": ((), "u1"),
            },
        ),
        "obj": (1, {"label": (per_region, "i1"), "asked": (per_region, "?")}),
        "att": (
            1,
            {"attributes": ((MOST_REGIONS, len(ATTRIBUTES)), "?"), "asked": (per_region, "?")},
        ),
        "rel": (
            RELATION_QUERIES,
            {
                "box": ((), "i1"),
                "relation": ((), "i1"),
                "direction": ((), "i1"),
                "target": ((), "i1"),
                "satisfying": (per_region, "?"),
                "kind": ((), "u1"),
            },
        ),
        "cap": (
            captions_to_learn(split),
            {
                "words": ((LONGEST_CAPTION,), "u1"),
                "captions": ((REFERENCES, LONGEST_CAPTION), "u1"),
            },
        ),
        "cnt": (COUNT_QUESTIONS, {**asked, "count": ((), "i1"), "kind": ((), "u1")}),
        "vqa": (
            QUESTIONS,
            {
                **asked,
                "answers": ((1,), "u1"),
                "scores": ((1,), "f4"),
                "hops": ((), "u1"),
                "kind": ((), "u1"),
            },
        ),
    }
    for table, (rows, columns) in tables.items():
        if table != "scenes":
            store.create(f"{split}/{table}/scene", scenes * rows, (), "i4")
        for column, (shape, dtype) in columns.items():
            store.create(f"{split}/{table}/{column}", scenes * rows, shape, dtype)
