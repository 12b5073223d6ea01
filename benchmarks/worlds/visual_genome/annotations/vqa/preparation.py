"""From VQA 2.0's files to samples of cnt and vqa, and to further ones made of Visual Genome.

``train/cnt`` and ``train/vqa`` hold people's questions alone. What is made of Visual Genome's
training images is in ``extra/cnt`` and ``extra/vqa``, with the same columns: a stream adds them
with ``extra: obj`` for cnt, as the paper does, and with ``extra: rel`` for vqa, as its control
does. ``server/vqa`` holds test2015's questions, whose answers are not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.worlds.visual_genome.annotations.files import (
    PublishedFile,
    check_folder,
    find,
    find_if_there,
)
from benchmarks.worlds.visual_genome.annotations.genome.preparation import PART as GENOME
from benchmarks.worlds.visual_genome.annotations.genome.synthetic import SceneFacts
from benchmarks.worlds.visual_genome.annotations.glove import add_vectors, check_vectors
from benchmarks.worlds.visual_genome.annotations.parts import (
    Made,
    Table,
    prepare_part,
)
from benchmarks.worlds.visual_genome.annotations.scenes import PreparedScenes
from benchmarks.worlds.visual_genome.annotations.splits import (
    SPLITS,
    TEST,
    split_by_standing,
    standing,
)
from benchmarks.worlds.visual_genome.annotations.tally import Summary, Tally
from benchmarks.worlds.visual_genome.annotations.vocabularies import PADDING, UNKNOWN, Words
from benchmarks.worlds.visual_genome.annotations.vqa.files import (
    ANSWER_TYPES,
    Answers,
    PublishedQuestion,
    read_answered,
    read_questions,
)
from benchmarks.worlds.visual_genome.annotations.vqa.tables import (
    COUNT_KINDS,
    MOST_COUNTED,
    PLAIN,
    RELATIONAL,
    Numbering,
    Sample,
    natural,
    synthetic,
)
from benchmarks.worlds.visual_genome.callbacks import Echo, Watch
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

PART = "vqa.h5"
_MARKS = (PADDING, UNKNOWN)
_HOME = "visualqa.org"
_TASKS = "cnt and vqa"
_NO_FEATURES = "questions about images without features: left out"


@dataclass(frozen=True)
class VqaOptions:
    """How VQA 2.0 is prepared."""

    train_on: str = "train"  # or train+val, for the evaluation server
    held_out: float = 5.0  # percent of the training images for val
    min_answers: int = 9
    min_words: int = 3
    longest: int = 14
    synthetic: bool = True
    limit: int | None = None


class VqaFiles(NamedTuple):
    """Where the published files are: questions and annotations by their part of COCO."""

    questions: dict[str, Path]
    annotations: dict[str, Path]
    glove: Path | None

    def all(self) -> list[Path]:
        """Return each of them once."""
        given = [*self.questions.values(), *self.annotations.values()]
        return [*given, self.glove] if self.glove is not None else given


def prepare_vqa(
    source: Path, out: Path, glove: Path | None, options: VqaOptions, watch: Watch, echo: Echo
) -> Store:
    """Make vqa.h5 of the published files, unless it is there already."""
    files = find_files(source, glove)
    scenes = PreparedScenes(out)
    genome = _open_genome(out, scenes) if options.synthetic else None
    parts = {"features": scenes.digest, **({"genome": genome.digest} if genome else {})}
    return prepare_part(
        out / PART,
        files.all(),
        options.__dict__,
        parts,
        lambda: make_vqa(files, scenes, genome, options, watch),
        watch,
        echo,
    )


def find_files(source: Path, glove: Path | None) -> VqaFiles:
    """Find all that is needed before anything long is begun."""
    check_folder(source, "VQA 2.0's questions and annotations")
    questions, annotations = {}, {}
    for subset in ("train2014", "val2014"):
        named = f"v2_OpenEnded_mscoco_{subset}_questions.json"
        questions[subset] = find(source, PublishedFile((named,), _TASKS, _HOME))
        named = f"v2_mscoco_{subset}_annotations.json"
        annotations[subset] = find(source, PublishedFile((named,), _TASKS, _HOME))
    named = "v2_OpenEnded_mscoco_test2015_questions.json"
    server = find_if_there(source, PublishedFile((named,), _TASKS, _HOME))
    if server is not None:
        questions["test2015"] = server
    check_vectors(glove)
    return VqaFiles(questions, annotations, glove)


def _open_genome(out: Path, scenes: PreparedScenes) -> Store:
    """Open genome.h5, which synthetic questions are made of."""
    if not (out / GENOME).is_file():
        raise UserError(
            f"{out / GENOME}: not there, and counting questions are made of it; run `pmn-bench "
            f"prepare visual-genome SOURCE --out {out}` first, or add --no-synthetic"
        )
    genome = Store(out / GENOME)
    if genome.header.get("features") != scenes.digest:
        raise UserError(
            f"{genome.path}: about other features than {scenes.path}; prepare visual-genome again"
        )
    return genome


def make_vqa(
    files: VqaFiles,
    scenes: PreparedScenes,
    genome: Store | None,
    options: VqaOptions,
    watch: Watch,
) -> Made:
    """Read and number everything."""
    summary = Summary()
    kept = {
        subset: _with_features(questions, scenes, options.limit, summary.tally)
        for subset, questions in _read(files, summary, watch).items()
    }
    by_split = _split(kept, options, summary.tally)
    counted, related = ([], []) if genome is None else _synthetic(genome, scenes)
    answers = Answers([s.truth for s in by_split["train"] if s.truth], options.min_answers)
    asked = [*by_split["train"], *counted, *related]
    words = Words(
        Counter(word for sample in asked for word in sample.words),
        at_least=options.min_words,
        marks=_MARKS,
    )
    numbering = Numbering(words, answers, scenes.regions, options.longest, summary.tally)
    tables: dict[str, Table] = {}
    for split in SPLITS:
        tables[f"{split}/cnt"] = numbering.counts(by_split[split])
        write = numbering.to_learn if split == "train" else numbering.to_evaluate
        tables[f"{split}/vqa"] = write(by_split[split], f"questions of {split}")
    if by_split["server"]:
        tables["server/vqa"] = numbering.to_evaluate(by_split["server"], "questions of server")
    if genome is not None:
        tables["extra/cnt"] = numbering.counts(counted)
        tables["extra/vqa"] = numbering.to_learn(related, "questions made of relations")
    _count(tables, summary)
    summary.add("answers", len(answers))
    summary.add("words of questions", len(words) - len(_MARKS))
    rows = [table["scene"] for table in tables.values()]
    summary.warnings += scenes.warn_of_simulated(np.concatenate(rows))
    names = {
        "question words": words.names,
        "answers": answers.names,
        "counts": [str(number) for number in range(MOST_COUNTED + 1)],
        "cnt kinds": list(COUNT_KINDS),
        "vqa kinds": list(ANSWER_TYPES),
    }
    made = Made(names, tables, summary)
    if files.glove is not None:
        add_vectors(made, "question", files.glove, words.names, len(_MARKS), watch)
    return made


def _read(files: VqaFiles, summary: Summary, watch: Watch) -> dict[str, list[PublishedQuestion]]:
    """Read the questions of each part of COCO, with their answers where these are published."""
    asked: dict[str, list[PublishedQuestion]] = {}
    for subset, path in files.questions.items():
        with watch(f"reading {path.name}") as progress:
            questions = read_questions(path, subset, summary.tally, progress)
        if subset in files.annotations:
            annotated = files.annotations[subset]
            with watch(f"reading {annotated.name}") as progress:
                asked[subset] = read_answered(annotated, questions, subset, summary.tally, progress)
        else:
            asked[subset] = list(questions.values())
        summary.add(f"questions in {subset}", len(asked[subset]))
    return asked


def _with_features(
    questions: Sequence[PublishedQuestion], scenes: PreparedScenes, limit: int | None, tally: Tally
) -> list[Sample]:
    """Return the questions about images that have features, in the order of their scenes.

    Where images are limited, the first ones are taken that have a question for cnt as well; of
    those without answers, any.
    """
    found = []
    for question in questions:
        scene = scenes.row("coco", question.image)
        if scene is None:
            tally.note(_NO_FEATURES, question.image)
            continue
        sample = natural(question, scene)
        if sample.words:
            found.append(sample)
        else:
            tally.note("questions without a word: left out", question.id)
    found.sort(key=lambda sample: (sample.scene, sample.id))
    if limit is not None:
        complete = {s.scene for s in found if s.countable or s.truth is None}
        first = set(sorted(complete)[:limit])
        found = [sample for sample in found if sample.scene in first]
    return found


def _split(
    kept: dict[str, list[Sample]], options: VqaOptions, tally: Tally
) -> dict[str, list[Sample]]:
    """Return the samples of each split: val2014 is tested on, or learned from with the rest."""
    together = options.train_on == "train+val"
    learned = [*kept["train2014"], *(kept["val2014"] if together else [])]
    images = sorted({sample.image for sample in learned})
    stands = [standing("coco", image) for image in images]
    splits = split_by_standing(stands, options.held_out, options.held_out if together else 0)
    split_of = dict(zip(images, splits.tolist(), strict=True))
    by_split: dict[str, list[Sample]] = {split: [] for split in (*SPLITS, "server")}
    for sample in learned:
        by_split[SPLITS[split_of[sample.image]]].append(sample)
    if not together:
        by_split[SPLITS[TEST]] = kept["val2014"]
    by_split["server"] = kept.get("test2015", [])
    for split in SPLITS:
        if not by_split[split]:
            raise UserError(
                f"no question is left for {split}: {tally[_NO_FEATURES]:,} are about images "
                "without features. Prepare features of COCO's train2014 and val2014"
            )
    return by_split


def _synthetic(genome: Store, scenes: PreparedScenes) -> tuple[list[Sample], list[Sample]]:
    """Make questions for cnt and for vqa from what genome.h5 holds of its training images."""
    facts = SceneFacts(genome)
    plain = facts.plain_counts(scenes.image, MOST_COUNTED)
    relational = facts.related_counts(scenes.image)
    counted = [synthetic(made, PLAIN) for made in plain]
    counted += [synthetic(made, RELATIONAL) for made in relational]
    return counted, [synthetic(made) for made in facts.related_things()]


def _count(tables: dict[str, Table], summary: Summary) -> None:
    """Put the publication's figures beside ours."""
    for split in SPLITS:
        summary.add(f"{split}: questions", len(tables[f"{split}/vqa"]["scene"]))
        paper = "about 50,000" if split == "train" else ""
        summary.add(f"{split}: of them how many", len(tables[f"{split}/cnt"]["scene"]), paper)
    if "server/vqa" in tables:
        summary.add("server: questions", len(tables["server/vqa"]["scene"]))
    if "extra/cnt" in tables:
        kinds = tables["extra/cnt"]["kind"]
        summary.add("extra: plain counting questions", int((kinds == PLAIN).sum()), "about 89,000")
        summary.add("extra: relational counting questions", int((kinds == RELATIONAL).sum()))
        summary.add("extra: questions of relations", len(tables["extra/vqa"]["scene"]))
