"""COCO's captions: words, splits, references, and what is counted."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions, prepare_coco
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.tasks.captions import CaptionTask, words_to_text
from pmn_cl.tasks.metrics import cider_d


def write_captions(folder: Path, **subsets: list[tuple[int, str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for subset, captions in subsets.items():
        whole = {
            "images": [{"id": image} for image, _ in captions],
            "annotations": [
                {"image_id": image, "id": n, "caption": text}
                for n, (image, text) in enumerate(captions)
            ],
        }
        (folder / f"captions_{subset}.json").write_text(json.dumps(whole))
    return folder


@pytest.fixture
def tiny(tmp_path: Path, features: Callable[..., Path]) -> Path:
    """A folder ``out`` with features, and captions of its images in ``coco``."""
    images = [*range(100, 120), *range(200, 204)]
    features(tmp_path / "out", {("coco", image): [[0, 0, 1, 1]] for image in images})
    train = [(i, f"A dog runs, number {i}.") for i in range(100, 120)]
    train += [(i, "The dog's running in the park!") for i in range(100, 120)]
    val = [(200, "A zebra runs."), (200, "dog"), (201, "A dog"), (202, "!"), (203, "a " * 20)]
    write_captions(tmp_path / "coco", train2014=train, val2014=val)
    return tmp_path


def prepare(folder: Path, watch: Any, **given: Any) -> Store:
    options = CocoOptions(**{"min_words": 2, **given})
    return prepare_coco(folder / "coco", folder / "out", None, options, watch, print)


def rows(store: Store, split: str) -> dict[str, Any]:
    return {name: column.load() for name, column in store.table(split, "cap").items()}


def test_a_caption_is_a_sample_and_its_words_are_numbers(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch)
    words = store.names["caption words"]
    assert words[:4] == ["", "<s>", "</s>", "<unk>"]
    assert set(words[4:]) == {"a", "dog", "runs", "number", "the", "'s", "running", "in", "park"}
    train, val, test = (rows(store, split) for split in ("train", "val", "test"))
    assert len(train["scene"]) == 2 * len(set(train["scene"]))  # each of two captions
    assert len(val["scene"]) == len(set(val["scene"])) == 20 - len(set(train["scene"]))
    first = [words[n] for n in train["words"][0]]
    assert first[:6] == ["a", "dog", "runs", "number", "<unk>", "</s>"] and first[6:] == [""] * 10
    written = store.names["reference words"]
    assert written[: len(words)] == words and {"zebra", "100"} <= set(written[len(words) :])
    told = [[words_to_text(row, written) for row in image] for image in test["captions"]]
    assert told[0] == ["a zebra runs", "dog"] and told[1] == ["a dog", ""]
    assert told[2][0] == " ".join(["a"] * 20)  # what is scored is not cut
    assert words_to_text(test["words"][2], words) == " ".join(["a"] * 16)  # what is learned is
    noted = store.header["summary"]["noted"]
    assert noted["captions without a word: left out"] == {"count": 1, "of": ["202"]}


def test_scores_are_those_of_the_captions_as_published(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch)
    test, words = rows(store, "test"), store.names["caption words"]
    said = ["a dog runs", "a dog", "a a a"]
    predictions = np.zeros((3, 16), int)
    for row, text in enumerate(said):
        predictions[row, : len(text.split())] = [words.index(word) for word in text.split()]
    found = CaptionTask().score(predictions, test, store.names)["cider_d"]
    references = {0: ["A zebra runs.", "dog"], 1: ["A dog"], 2: ["a " * 20]}
    assert found == pytest.approx(cider_d(dict(enumerate(said)), references)[0])
    assert found > 0


def test_both_parts_together(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch, train_on="train+val", held_out=20)
    scenes = [set(rows(store, split)["scene"].tolist()) for split in ("train", "val", "test")]
    assert sum(map(len, scenes)) == len(set.union(*scenes)) == 23
    assert all(scenes)


def test_the_limit_takes_the_first_images_of_each_part(tiny: Path, watch: Any) -> None:
    store = prepare(tiny, watch, limit=3)
    scenes = set.union(*(set(rows(store, s)["scene"].tolist()) for s in ("train", "val")))
    assert scenes == {0, 1, 2} and set(rows(store, "test")["scene"].tolist()) == {20, 21, 23}


def test_what_is_missing_or_damaged(tiny: Path, features: Callable[..., Path], watch: Any) -> None:
    path = tiny / "coco/captions_train2014.json"
    whole = json.loads(path.read_text())
    whole["images"] = whole["images"][:5]
    whole["annotations"] += [
        {"image_id": 100},
        {"caption": "a dog"},
        5,
        {"image_id": 9, "caption": "x"},
    ]
    path.write_text(json.dumps(whole))
    noted = prepare(tiny, watch).header["summary"]["noted"]
    assert noted[f"damaged records in {path.name}: left out"]["count"] == 3
    assert noted["captions of images without features: left out"] == {"count": 1, "of": ["9"]}
    # 15 of 20 images with two captions each, and image 9.
    assert noted[f"captions whose image is not listed in {path.name}: kept"]["count"] == 31
    features(tiny / "out", {("vg", 100): [[0, 0, 1, 1]]})
    with pytest.raises(UserError, match="features of none of the 41 captions' images"):
        prepare(tiny, watch)
    path.unlink()
    with pytest.raises(UserError, match=r"no captions_train2014\.json, needed by cap"):
        prepare(tiny, watch)


def test_real_captions_are_what_the_files_say(samples: Path, prepared: Path) -> None:
    store = Store(prepared / "coco.h5")
    image = Store(prepared / "features.h5").table("all", "scenes")["image"].load()
    written = store.names["reference words"]
    for part, splits in (("train", ("train", "val")), ("val", ("test",))):
        path = samples / f"coco_captions/captions_{part}2014.json"
        expected: dict[int, Counter[str]] = defaultdict(Counter)
        for record in json.loads(path.read_text())["annotations"]:
            letters = "".join(c for c in record["caption"].lower() if c.isalpha())
            expected[record["image_id"]][letters] += 1
        found: dict[int, Counter[str]] = {}
        for split in splits:
            table = rows(store, split)
            for row, scene in enumerate(table["scene"]):
                told = [words_to_text(r, written) for r in table["captions"][row] if r[0]]
                found[int(image[scene])] = Counter(
                    "".join(c for c in text if c.isalpha()) for text in told
                )
        assert found == expected
    noted = store.header["summary"]["noted"]  # as the samples' notes say: lists barely overlap
    assert (
        noted["captions whose image is not listed in captions_train2014.json: kept"]["count"] == 100
    )
    assert noted["captions whose image is not listed in captions_val2014.json: kept"]["count"] > 90
