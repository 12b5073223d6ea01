"""The world as a whole: draws scenes, asks about them, and writes the store.

Every scene has its own random generator, seeded by (seed, split, number): scenes do not depend
on how many there are, and a store is the same to the byte wherever it is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits

from benchmarks.worlds.digit_scenes.columns import create_columns, name_values
from benchmarks.worlds.digit_scenes.concepts import MOST_REGIONS, RELATIONS
from benchmarks.worlds.digit_scenes.detector import Detector
from benchmarks.worlds.digit_scenes.extra_questions import extra_counts, extra_questions
from benchmarks.worlds.digit_scenes.phrasing import FAMILIES, RELATION_PHRASES
from benchmarks.worlds.digit_scenes.programs.executor import DigitExecutor
from benchmarks.worlds.digit_scenes.render import draw, split_handwriting
from benchmarks.worlds.digit_scenes.rows import Row, read_scene, rows_about
from benchmarks.worlds.digit_scenes.scenes import draw_scene
from pmn_cl.data.store import Store, StoreWriter
from pmn_cl.data.world import World, WorldOptions
from pmn_cl.progress import ProgressCallback

SPLITS = ("train", "val", "test", "novel")
_CHUNK = 250  # scenes held in memory at a time
_PICTURE_SCALE = 4
_QUESTION_KINDS = {
    "plain": ("query", "verify"),
    "relational": ("query_related", "exist_related"),
    "counting": ("count", "count_related"),
    "caption": ("arrangement", "majority", "ground"),
}


class SceneCounts(WorldOptions):
    """How many scenes each split has."""

    train: int = Field(10_000, ge=1)
    val: int = Field(1_000, ge=1)
    test: int = Field(2_000, ge=1)
    novel: int = Field(2_000, ge=1)


class DigitOptions(WorldOptions):
    """What a stream may set about the digit world."""

    seed: int = Field(0, ge=0, le=2**32 - 1)
    scenes: SceneCounts = Field(default_factory=lambda: SceneCounts.model_validate({}))
    features: int = Field(128, ge=8, le=4096)  # width of a region's feature vector
    noise: float = Field(0.1, ge=0)  # of the detector: the world's difficulty
    duplicates: float = Field(0.6, ge=0, le=2)  # further boxes per object, on average
    backgrounds: int = Field(3, ge=0, le=6)  # boxes that show no object, at most


class DigitScenes(World):
    """Scenes of handwritten digits with six tasks and a split of novel compositions."""

    name = "digits"
    summary = "scenes of real handwritten digits; all six tasks, exact truth, no download"
    version = 1
    Options = DigitOptions
    extras: ClassVar = {"vqa": ("rel",), "cnt": ("obj",)}
    options: DigitOptions

    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        """Draw, look at and ask about every scene of every split."""
        name_values(store)
        counts = {split: getattr(self.options.scenes, split) for split in SPLITS}
        for split, count in counts.items():
            create_columns(store, split, count, self.options.features)
        done = 0
        # The detector's products are small: handing them to several threads only costs time.
        with threadpool_limits(1, user_api="blas"):
            for split, count in counts.items():
                for chunk in self._chunks(split, count):
                    for table, rows in chunk.items():
                        for column in rows[0]:
                            values = [row[column] for row in rows]
                            store.append(f"{split}/{table}/{column}", values)
                    done += len(chunk["scenes"])
                    progress(done, sum(counts.values()))

    def expected_bytes(self) -> int:
        """Return about how large the store will be."""
        scenes: int = sum(getattr(self.options.scenes, split) for split in SPLITS)
        return scenes * (MOST_REGIONS * (2 * self.options.features + 60) + 3500)

    def extra_samples(self, store: Store, task: str, source: str) -> dict[str, NDArray[Any]]:
        """Ask about the relations of the training split, or count its objects."""
        return extra_questions(store) if task == "vqa" else extra_counts(store)

    def picture(self, store: Store, split: str, scene: int) -> NDArray[np.uint8]:
        """Draw a scene, large enough to look at."""
        return draw(read_scene(store, split, scene), _PICTURE_SCALE)

    def question_kinds(self, store: Store, split: str) -> dict[str, NDArray[np.bool_]]:
        """Return which questions are of which kind; counted relations are "counting" ones."""
        family = store.table(split, "vqa")["family"].array
        return {
            kind: np.isin(family, [FAMILIES.index(name) for name in names])
            for kind, names in _QUESTION_KINDS.items()
        }

    @classmethod
    def executor(cls) -> DigitExecutor:
        """Return what executes its programs."""
        return DigitExecutor()

    def relation_phrases(self) -> dict[str, str]:
        """Return relations as questions word them."""
        first = (phrases[0] for phrases in RELATION_PHRASES)
        return dict(zip(RELATIONS, first, strict=True))

    def preview(self, store: Store, path: Path) -> None:
        """Draw some test scenes with boxes, truth and questions."""
        from benchmarks.worlds.digit_scenes.preview import draw_preview

        draw_preview(store, path)

    def _chunks(self, split: str, count: int) -> Iterator[dict[str, list[Row]]]:
        """Yield the rows of every table, some scenes at a time."""
        options = self.options
        images = split_handwriting(options.seed)[split]
        detector = Detector(options.seed, width=options.features, noise=options.noise)
        for start in range(0, count, _CHUNK):
            chunk: dict[str, list[Row]] = {}
            for number in range(start, min(start + _CHUNK, count)):
                for table, rows in self._rows(split, number, images, detector).items():
                    chunk.setdefault(table, []).extend(rows)
            yield chunk

    def _rows(
        self, split: str, number: int, images: list[list[int]], detector: Detector
    ) -> dict[str, list[Row]]:
        """Draw one scene and return the rows about it."""
        options = self.options
        rng = Random(f"{options.seed}/{split}/{number}")
        scene = draw_scene(
            rng,
            images,
            duplicates=options.duplicates,
            backgrounds=options.backgrounds,
            novel=split == "novel",
        )
        noise = np.random.default_rng([options.seed, 3, SPLITS.index(split), number])
        features = detector(draw(scene), np.array(scene.regions), noise)
        return rows_about(scene, features, rng, split, number)
