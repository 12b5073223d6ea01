"""Damaged files: a clear refusal or a counted skip, never a traceback, never half a store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions, prepare_coco
from benchmarks.worlds.visual_genome.annotations.genome.preparation import (
    GenomeOptions,
    prepare_genome,
)
from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions, prepare_vqa
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

ROUNDS = 70  # for each of three commands: 210 damaged files
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 10**30, float("nan"), float("inf"), "", "\ud800", "x" * 10_000),
    *([], {}, [[]], {"x": {}}, ["a", None], [{"answer": None}], {"image_id": 1}),
)


def damaged_value(rng: random.Random, value: Any) -> Any:
    """Change one place somewhere inside of what a file says."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        chance = rng.random()
        if chance < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if chance < 0.15:
            return {("other" if k == key else k): v for k, v in value.items()}
        return {**value, key: damaged_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        chance = rng.random()
        if chance < 0.1:
            return [*value, *value[: place + 1]]  # twice
        if chance < 0.15:
            return value[:place]
        return [*value[:place], damaged_value(rng, value[place]), *value[place + 1 :]]
    return rng.choice(ODD)


def damaged_bytes(rng: random.Random, whole: bytes) -> bytes:
    """Cut, flip, repeat or exchange some bytes."""
    place = rng.randrange(len(whole))
    kind = rng.randrange(4)
    if kind == 0:
        return whole[:place]
    if kind == 1:
        flipped = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 2:
        return whole[:place] + whole[place // 2 :]
    return (
        whole[:place] + rng.choice([b"[" * 3000, b"9" * 6000, b"\x00", b"}", b'"']) + whole[place:]
    )


def damage(rng: random.Random, path: Path) -> None:
    whole = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.6:
        value = json.loads(whole)
        for _ in range(rng.randrange(1, 8)):
            value = damaged_value(rng, value)
        path.write_text(json.dumps(value))
    else:
        path.write_bytes(damaged_bytes(rng, whole))


def first_images(samples: Path, folder: Path) -> None:
    """Write a few records of every real file, small enough to be read hundreds of times."""
    for name in ("image_data", "objects", "attributes", "relationships"):
        records = json.loads((samples / f"visual_genome/{name}.json").read_text("utf-8"))[:6]
        for record in records:
            for key in ("objects", "attributes", "relationships"):
                if key in record:
                    record[key] = record[key][:8]
        (folder / f"{name}.json").write_text(json.dumps(records))
    for part in ("train", "val"):
        for path, key in (
            (samples / f"vqa_v2/v2_OpenEnded_mscoco_{part}2014_questions.json", "questions"),
            (samples / f"vqa_v2/v2_mscoco_{part}2014_annotations.json", "annotations"),
            (samples / f"coco_captions/captions_{part}2014.json", "annotations"),
        ):
            whole = json.loads(path.read_text("utf-8"))
            whole[key] = whole[key][:20]
            whole["images"] = whole.get("images", [])[:5]
            (folder / path.name).write_text(json.dumps(whole))
    for path in (samples / "vocab").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())


def commands(watch: Any) -> dict[str, tuple[str, Callable[[Path, list[str]], Store]]]:
    """What is damaged for each command, and how it is called."""
    genome = GenomeOptions(skip_leakage_check=True)
    vqa, coco = VqaOptions(min_answers=1, synthetic=False), CocoOptions(min_words=1)
    return {
        "visual-genome": (
            "[aior]*",  # image_data, attributes, objects, relationships and the vocabularies
            lambda at, said: prepare_genome(at, at / "out", None, [], genome, watch, said.append),
        ),
        "vqa": (
            "v2_*",
            lambda at, said: prepare_vqa(at, at / "out", None, vqa, watch, said.append),
        ),
        "coco": (
            "captions_*",
            lambda at, said: prepare_coco(at, at / "out", None, coco, watch, said.append),
        ),
    }


@pytest.mark.parametrize("command", ["visual-genome", "vqa", "coco"])
def test_damaged_files_are_refused_or_counted(
    command: str, samples: Path, tmp_path: Path, features: Callable[..., Path], watch: Any
) -> None:
    first_images(samples, tmp_path)
    boxes = [[x / 4, y / 4, (x + 2) / 4, (y + 2) / 4] for x in range(3) for y in range(3)]
    images = {("vg", image): [*boxes, [0, 0, 1, 1]] for image in range(1, 7)}
    for path in tmp_path.glob("*2014*.json"):
        whole = json.loads(path.read_text())
        for record in [*whole.get("questions", []), *whole.get("annotations", [])]:
            images["coco", record["image_id"]] = boxes
    features(tmp_path / "out", images)
    pattern, prepare = commands(watch)[command]
    files = sorted(tmp_path.glob(pattern))
    files = [path for path in files if path.is_file()]
    assert len(files) == {"visual-genome": 7, "vqa": 4, "coco": 2}[command]
    good = {path: path.read_bytes() for path in files}
    prepare(tmp_path, [])  # what is not damaged is taken
    refused = taken = 0
    for number in range(ROUNDS):
        rng = random.Random(f"{command} {number}")
        path = rng.choice(files)
        damage(rng, path)
        for left in (tmp_path / "out").glob("*.h5"):
            if left.name != "features.h5":
                left.unlink()
        said: list[str] = []
        refusal = ""
        try:
            store = prepare(tmp_path, said)
        except UserError as error:
            refusal = str(error)
        if refusal:
            refused += 1
            assert len(refusal) < 1500, refusal
            assert [p.name for p in (tmp_path / "out").iterdir()] == ["features.h5"]
        else:
            taken += 1
            assert Store(store.path).verify()
            "\n".join(said).encode("utf-8")  # any terminal can show it
        path.write_bytes(good[path])
    assert refused > 5 and taken > 5, (refused, taken)
