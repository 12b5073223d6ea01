"""From COCO's caption files to samples of cap: the split of the 2014 challenge, as in the paper.

A training sample is one caption; of an image to evaluate on there is one sample, scored against all
captions of the image. Those are kept whole, in words that the vocabulary need not have
("reference words", which begin like "caption words"): a score is then the one that the captions as
published give.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.files import PublishedFile, check_folder, find
from benchmarks.worlds.visual_genome.annotations.glove import add_vectors, check_vectors
from benchmarks.worlds.visual_genome.annotations.json_lists import records
from benchmarks.worlds.visual_genome.annotations.parts import (
    Made,
    Table,
    prepare_part,
)
from benchmarks.worlds.visual_genome.annotations.records import image_of
from benchmarks.worlds.visual_genome.annotations.scenes import PreparedScenes
from benchmarks.worlds.visual_genome.annotations.splits import (
    SPLITS,
    TEST,
    split_by_standing,
    standing,
)
from benchmarks.worlds.visual_genome.annotations.tally import Summary
from benchmarks.worlds.visual_genome.annotations.vocabularies import (
    END,
    PADDING,
    START,
    UNKNOWN,
    Words,
)
from benchmarks.worlds.visual_genome.callbacks import Echo, Watch
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.text import tokenize_caption

PART = "coco.h5"
_MARKS = (PADDING, START, END, UNKNOWN)
_HOME = "cocodataset.org (annotations_trainval2014.zip)"
_LONGEST_REFERENCE = 64  # words: the longest published caption has fewer
_MOST_REFERENCES = 8


@dataclass(frozen=True)
class CocoOptions:
    """How captions are prepared."""

    train_on: str = "train"  # or train+val
    held_out: float = 5.0  # percent of the training images for val
    min_words: int = 5
    longest: int = 16
    limit: int | None = None


class Described(NamedTuple):
    """An image with its captions, as words."""

    image: int
    scene: int
    captions: list[list[str]]


def prepare_coco(
    source: Path, out: Path, glove: Path | None, options: CocoOptions, watch: Watch, echo: Echo
) -> Store:
    """Make coco.h5 of the published files, unless it is there already."""
    check_folder(source, "COCO's captions_train2014.json and captions_val2014.json")
    files = {
        subset: find(source, PublishedFile((f"captions_{subset}.json",), "cap", _HOME))
        for subset in ("train2014", "val2014")
    }
    check_vectors(glove)
    scenes = PreparedScenes(out)
    return prepare_part(
        out / PART,
        [*files.values(), *([glove] if glove else [])],
        options.__dict__,
        {"features": scenes.digest},
        lambda: make_coco(files, glove, scenes, options, watch),
        watch,
        echo,
    )


def make_coco(
    files: dict[str, Path],
    glove: Path | None,
    scenes: PreparedScenes,
    options: CocoOptions,
    watch: Watch,
) -> Made:
    """Read and number everything."""
    summary = Summary()
    described = {}
    for subset, path in files.items():
        with watch(f"reading {path.name}") as progress:
            described[subset] = read_captions(path, scenes, options.limit, summary, progress)
    by_split = _split(described, options)
    counts = Counter(
        word for image in by_split["train"] for caption in image.captions for word in caption
    )
    words = Words(counts, at_least=options.min_words, marks=_MARKS)
    written = _reference_words(words, by_split)
    tables: dict[str, Table] = {}
    for split, images in by_split.items():
        table = _table(images, words, written, options.longest, learned=split == "train")
        tables[f"{split}/cap"] = table
        summary.add(f"{split}: images", len(images))
        summary.add(f"{split}: captions", sum(len(image.captions) for image in images))
    cut = sum(len(c) > options.longest for i in by_split["train"] for c in i.captions)
    summary.tally.note(f"captions cut after {options.longest} words, for learning", times=cut)
    known = sum(count for word, count in counts.items() if word in words.number_of)
    summary.add("words of captions", len(words) - len(_MARKS))
    summary.add("training words that are among them", f"{known / max(1, counts.total()):.1%}")
    rows = [table["scene"] for table in tables.values()]
    summary.warnings += scenes.warn_of_simulated(np.concatenate(rows))
    made = Made({"caption words": words.names, "reference words": written.names}, tables, summary)
    if glove is not None:
        add_vectors(made, "caption", glove, words.names, len(_MARKS), watch)
    return made


def read_captions(
    path: Path,
    scenes: PreparedScenes,
    limit: int | None,
    summary: Summary,
    progress: ProgressCallback,
) -> list[Described]:
    """Read the captions of images that have features, in the order of their scenes."""
    tally = summary.tally
    listed = {image_of(record) for record in records(path, "images")}
    found: dict[int, list[list[str]]] = defaultdict(list)
    read = 0
    for record in records(path, "annotations", progress=progress):
        image = image_of(record) if isinstance(record, dict) and "image_id" in record else None
        text = record.get("caption") if image is not None else None
        if image is None or not isinstance(text, str):
            tally.note(f"damaged records in {path.name}: left out", "" if image is None else image)
            continue
        read += 1
        if image not in listed:
            tally.note(f"captions whose image is not listed in {path.name}: kept", image)
        words = tokenize_caption(text)
        if scenes.row("coco", image) is None:
            tally.note("captions of images without features: left out", image)
        elif not words:
            tally.note("captions without a word: left out", image)
        else:
            found[image].append(words)
    if not read:
        raise UserError(f"{path}: no annotation with image_id and caption")
    if not found:
        raise UserError(
            f"{scenes.path}: has features of none of the {read:,} captions' images in {path.name}; "
            "prepare features of COCO's train2014 and val2014"
        )
    summary.add(f"captions in {path.name}", read)
    described = [
        Described(image, row, captions)
        for image, captions in found.items()
        if (row := scenes.row("coco", image)) is not None
    ]
    return sorted(described, key=lambda one: one.scene)[:limit]


def _split(
    described: dict[str, list[Described]], options: CocoOptions
) -> dict[str, list[Described]]:
    """Return the images of each split: val2014 is tested on, or learned from with the rest."""
    together = options.train_on == "train+val"
    learned = [*described["train2014"], *(described["val2014"] if together else [])]
    stands = [standing("coco", image.image) for image in learned]
    splits = split_by_standing(stands, options.held_out, options.held_out if together else 0)
    by_split = {
        split: [learned[i] for i in np.flatnonzero(splits == number)]
        for number, split in enumerate(SPLITS)
    }
    if not together:
        by_split[SPLITS[TEST]] = described["val2014"]
    for split, images in by_split.items():
        if not images:
            raise UserError(f"no caption is left for {split}; prepare features of more images")
    return by_split


def _reference_words(words: Words, by_split: dict[str, list[Described]]) -> Words:
    """Return the vocabulary with every other word that someone wrote behind it."""
    others = Counter(
        word
        for images in by_split.values()
        for image in images
        for caption in image.captions
        for word in caption
        if word not in words.number_of
    )
    return Words(others, at_least=1, marks=words.names)


def _table(
    images: Sequence[Described], words: Words, written: Words, longest: int, *, learned: bool
) -> dict[str, NDArray[Any]]:
    """Return a sample for each caption to learn, or for the first one of each image."""
    scene, sentences, of_image = [], [], []
    for number, image in enumerate(images):
        for caption in image.captions if learned else image.captions[:1]:
            scene.append(image.scene)
            sentences.append(words.numbers([*caption, END], longest))
            of_image.append(number)
    most = min(_MOST_REFERENCES, max(len(image.captions) for image in images))
    long = max(len(caption) for image in images for caption in image.captions[:most])
    width = max(longest, min(long, _LONGEST_REFERENCE))
    references = np.zeros((len(images), most, width), "u2")
    for number, image in enumerate(images):
        for place, caption in enumerate(image.captions[:most]):
            references[number, place] = written.numbers(caption, width)
    return {
        "scene": np.array(scene, "i4"),
        "words": np.array(sentences, "u2"),
        "captions": references[of_image],
    }
