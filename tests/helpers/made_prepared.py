"""Makes a small prepared folder by hand: the files that `pmn-bench prepare` makes of real ones.

A region's object decides where its features are large, so that tasks can be learned a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.data.store import Store, StoreWriter, build_store

SCENES, BOXES, WIDTH = 30, 6, 16
NAMES = {
    "features.h5": {"sources": ["coco", "vg"]},
    "genome.h5": {
        "objects": ["background", "dog", "cat", "desk", "plate", "tree"],
        "attributes": ["red", "wooden", "big"],
        "relations": ["on", "under"],
        "directions": ["object", "subject"],
        "rel kinds": ["object", "subject"],
    },
    "coco.h5": {"caption words": ["", "<s>", "</s>", "<unk>", "a", "dog", "cat"]},
    "vqa.h5": {
        "question words": ["", "<unk>", "how", "many", "dogs", "is", "it", "red"],
        "answers": ["yes", "no", "two", "dog"],
        "counts": [str(n) for n in range(13)],
        "cnt kinds": ["plain", "relational"],
        "vqa kinds": ["yes/no", "number", "other"],
    },
}
ROWS = {"train": 40, "val": 8, "test": 12}


def make_prepared(
    folder: Path, *, without: tuple[str, ...] = (), server: int = 9, vectors: int = 0
) -> Path:
    """Write all parts but those left out; the images have the ids 1000, 1001, …

    Words have vectors of so many numbers, or none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    write(folder / "features.h5", {"all/scenes": scenes(rng)}, {})
    header = {"features": Store(folder / "features.h5").digest, "summary": "made by hand"}
    parts: dict[str, dict[str, Mapping[str, NDArray[Any]]]] = {
        "genome.h5": {},
        "coco.h5": {},
        "vqa.h5": {},
    }
    for split, rows in ROWS.items():
        parts["genome.h5"] |= {f"{split}/{t}": samples(rng, t, rows) for t in ("obj", "att", "rel")}
        parts["coco.h5"][f"{split}/cap"] = samples(rng, "cap", rows)
        parts["vqa.h5"] |= {f"{split}/{task}": samples(rng, task, rows) for task in ("cnt", "vqa")}
    parts["vqa.h5"] |= {f"extra/{task}": samples(rng, task, 5) for task in ("cnt", "vqa")}
    asked = samples(rng, "vqa", server)
    parts["vqa.h5"]["server/vqa"] = {k: asked[k] for k in ("scene", "question", "question_id")}
    if vectors:
        parts["coco.h5"]["words/caption"] = word_vectors(NAMES["coco.h5"]["caption words"], vectors)
        parts["vqa.h5"]["words/question"] = word_vectors(NAMES["vqa.h5"]["question words"], vectors)
    for file, tables in parts.items():
        if file not in without:
            write(folder / file, tables, header)
    return folder


def write(
    path: Path, tables: Mapping[str, Mapping[str, NDArray[Any]]], header: Mapping[str, Any]
) -> None:
    def fill(store: StoreWriter) -> None:
        for what, names in NAMES[path.name].items():
            store.name_values(what, names)
        for table, columns in tables.items():
            for name, values in columns.items():
                store.create(f"{table}/{name}", len(values), values.shape[1:], values.dtype)
                store.append(f"{table}/{name}", values)

    build_store(path, fill, header=header, size=0)


def scenes(rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    corners = np.sort(rng.random((SCENES, BOXES, 2, 2)), axis=2).astype("f4")
    mask = np.ones((SCENES, BOXES), "?")
    mask[::5, -1] = False
    return {
        "regions": rng.standard_normal((SCENES, BOXES, WIDTH)).astype("f2"),
        "boxes": corners.reshape(SCENES, BOXES, 4),
        "mask": mask,
        "image": np.arange(1000, 1000 + SCENES),
        "source": np.zeros(SCENES, "u1"),
        "width": np.full(SCENES, 640, "i4"),
        "height": np.full(SCENES, 480, "i4"),
        "simulated": np.zeros(SCENES, "?"),
    }


def word_vectors(words: list[str], width: int) -> dict[str, NDArray[Any]]:
    """Vectors of 0.01, 1.01, … in the words' order, for words that are found: those of letters."""
    found = np.array([word.isalpha() for word in words])
    numbers = np.arange(len(words), dtype="f4") + np.float32(0.01)
    return {"vector": np.repeat(numbers[:, None], width, axis=1) * found[:, None], "found": found}


def samples(rng: np.random.Generator, task: str, rows: int) -> dict[str, NDArray[Any]]:
    names = {what: given for some in NAMES.values() for what, given in some.items()}
    scene = {"scene": rng.integers(0, SCENES, rows).astype("i4")}
    if task == "obj":
        label = rng.integers(0, len(names["objects"]), (rows, BOXES)).astype("i2")
        return {**scene, "label": label, "asked": np.ones((rows, BOXES), "?")}
    if task == "att":
        marked = rng.random((rows, BOXES, len(names["attributes"]))) < 0.4
        return {**scene, "attributes": marked, "asked": np.ones((rows, BOXES), "?")}
    if task == "rel":
        target = rng.integers(0, BOXES - 1, rows).astype("i1")
        direction = rng.integers(0, 2, rows).astype("i1")
        return {
            **scene,
            "box": rng.integers(0, BOXES - 1, rows).astype("i1"),
            "relation": rng.integers(0, 2, rows).astype("i1"),
            "direction": direction,
            "target": target,
            "satisfying": target[:, None] == np.arange(BOXES),
            "kind": direction.astype("u1"),
        }
    if task == "cap":
        words = np.zeros((rows, 16), "u2")
        words[:, :3] = rng.integers(3, len(names["caption words"]), (rows, 3))
        words[:, 3] = 2
        return {**scene, "words": words, "captions": np.repeat(words[:, None], 5, axis=1)}
    asked = {
        **scene,
        "question": rng.integers(1, len(names["question words"]), (rows, 14)).astype("u2"),
        "ask_box": np.full(rows, -1, "i1"),
        "ask_boxes": np.zeros((rows, BOXES), "?"),
        "ask_relation": np.full(rows, -1, "i1"),
        "ask_direction": np.full(rows, -1, "i1"),
    }
    if task == "cnt":
        count = rng.integers(0, 4, rows).astype("i1")
        return {**asked, "count": count, "kind": (np.arange(rows) % 2).astype("u1")}
    return {
        **asked,
        "answers": rng.integers(0, len(names["answers"]), (rows, 3)).astype("u2"),
        "scores": rng.random((rows, 3)).astype("f4"),
        "kind": rng.integers(0, 3, rows).astype("u1"),
        "question_id": 262_148_000_000 + rng.permutation(10 * rows)[:rows],
    }
