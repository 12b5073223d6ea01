"""Questions made of Visual Genome's annotations, as the paper makes them for M_cnt and a control.

Objects that were counted ("how many dogs are in this picture", section 4.1): one question for each
training image, about as many as the paper's 89,000. Relations that were counted ("how many plates
on table", "how many behind door", appendix B.2), with the query [b, r] that M_cnt should put to
M_rel; two for each image. Relations as plain questions ("what is on the desk", "laptop", section
4.3), for the M_vqa that does not call M_rel.

The relational ones train Q_{cnt→rel} alone, as in the paper, and have no answer: people do not
annotate all, so that the subjects that were annotated are at most as many as there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.genome.phrases import (
    count_question,
    is_plural,
    plural,
    related_count_question,
    relation_question,
)
from pmn_cl.data.store import Store

PLAIN_PER_IMAGE, RELATIONAL_PER_IMAGE = 1, 2
_SUBJECT = 1  # the direction of these queries: the object is given, the subject sought


class Synthetic(NamedTuple):
    """A question that was made, its answer, and the query [b, r] it should put to M_rel."""

    scene: int
    question: str
    answer: str | None  # None where it is not known
    boxes: NDArray[np.bool_] | None = None  # b, any of them; None where there is no such query
    relation: int = -1
    direction: int = -1


class SceneFacts:
    """What genome.h5 knows of its training images."""

    def __init__(self, genome: Store) -> None:
        self.objects = genome.names["objects"]
        self.relations = genome.names["relations"]
        self._counted = {n: c.load() for n, c in genome.table("facts", "objects").items()}
        self._related = {n: c.load() for n, c in genome.table("facts", "relations").items()}

    def plain_counts(self, image_of: NDArray[Any], most: int) -> Iterator[Synthetic]:
        """Ask for the number of some thing in each image, up to ``most``.

        Every number that occurs in an image is as likely to be asked for as another: most things
        are there once.
        """
        rows = zip(*(self._counted[n].tolist() for n in ("scene", "object", "count")), strict=True)
        for scene, of_scene in groupby(sorted(rows), key=lambda row: row[0]):
            there = {self.objects[thing]: count for _, thing, count in of_scene}
            by_count: dict[int, list[str]] = defaultdict(list)
            for thing, count in there.items():
                # "trees" in one box may be any number of trees.
                unsure = is_plural(thing) or plural(thing) in there
                if not unsure and count <= most:
                    by_count[count].append(thing)
            rng = Random(f"plain counts/{image_of[scene]}")
            for _ in range(PLAIN_PER_IMAGE):
                if by_count:
                    count = rng.choice(sorted(by_count))
                    thing = rng.choice(sorted(by_count[count]))
                    yield Synthetic(scene, count_question(thing), str(count))

    def related_counts(self, image_of: NDArray[Any]) -> Iterator[Synthetic]:
        """Ask how many, or how many of a kind, stand in a relation to a thing."""
        for scene, groups in self._by_scene():
            asked: set[tuple[int | None, int, int]] = set()
            for (relation, thing), members in groups.items():
                asked.add((None, relation, thing))
                for subject in self._related["subject"][members].tolist():
                    if not is_plural(self.objects[subject]):
                        asked.add((subject, relation, thing))
            choices = sorted(asked, key=lambda key: (-1 if key[0] is None else key[0], *key[1:]))
            rng = Random(f"relational counts/{image_of[scene]}")
            for subject_class, relation, thing in rng.sample(
                choices, min(RELATIONAL_PER_IMAGE, len(choices))
            ):
                name = None if subject_class is None else self.objects[subject_class]
                text = related_count_question(name, self.relations[relation], self.objects[thing])
                boxes = self._boxes(groups[relation, thing])
                yield Synthetic(scene, text, None, boxes, relation, _SUBJECT)

    def related_things(self) -> Iterator[Synthetic]:
        """Ask what stands in a relation to a thing, where only things of one class do."""
        for scene, groups in self._by_scene():
            for (relation, thing), members in sorted(groups.items()):
                subjects = set(self._related["subject"][members].tolist())
                if len(subjects) == 1:
                    text = relation_question(self.relations[relation], self.objects[thing])
                    answer, boxes = self.objects[subjects.pop()], self._boxes(members)
                    yield Synthetic(scene, text, answer, boxes, relation, _SUBJECT)

    def _by_scene(self) -> Iterator[tuple[int, dict[tuple[int, int], list[int]]]]:
        """Yield for each scene its triplets' rows by relation and class of the object."""
        columns = (self._related[name].tolist() for name in ("scene", "relation", "object"))
        rows = sorted(
            (scene, number, relation, thing)
            for number, (scene, relation, thing) in enumerate(zip(*columns, strict=True))
        )
        for scene, of_scene in groupby(rows, key=lambda row: row[0]):
            groups: dict[tuple[int, int], list[int]] = defaultdict(list)
            for _, number, relation, thing in of_scene:
                groups[relation, thing].append(number)
            yield scene, groups

    def _boxes(self, rows: list[int]) -> NDArray[np.bool_]:
        return np.asarray(self._related["object_boxes"][rows].any(axis=0))
