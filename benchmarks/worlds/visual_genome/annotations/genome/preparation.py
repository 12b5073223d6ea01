"""From Visual Genome's files to genome.h5: which files, which images, then reading and matching."""

from __future__ import annotations

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
from benchmarks.worlds.visual_genome.annotations.genome.files import (
    Attributes,
    ImageObjects,
    ImageRecord,
    Images,
    Relations,
    join_attributes,
    read_attributes,
    read_images,
    read_objects,
    read_relations,
)
from benchmarks.worlds.visual_genome.annotations.genome.leakage import (
    check_ids,
    held_out_files,
    read_held_out,
)
from benchmarks.worlds.visual_genome.annotations.genome.matches import (
    Grouped,
    match_relations,
    owners,
)
from benchmarks.worlds.visual_genome.annotations.genome.tables import Labelled, make_tables
from benchmarks.worlds.visual_genome.annotations.parts import Made, prepare_part
from benchmarks.worlds.visual_genome.annotations.scenes import PreparedScenes
from benchmarks.worlds.visual_genome.annotations.tally import Summary
from benchmarks.worlds.visual_genome.annotations.vocabularies import Classes
from benchmarks.worlds.visual_genome.callbacks import Echo, Watch
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

PART = "genome.h5"

_HOME = "Visual Genome (homes.cs.washington.edu/~ranjay/visualgenome)"
_VOCABULARY_HOME = "bottom-up-attention (data/genome/1600-400-20)"
_VERSIONS = {
    "auto": ("", "_v1_4", "_v1_2", "_v1"),
    "1.4": ("_v1_4", ""),
    "1.2": ("_v1_2", ""),
    "1.0": ("_v1", ""),
}
_TASKS = {"objects": "obj, att and cnt", "attributes": "att", "relationships": "rel and cnt"}
_VOCABULARIES = {
    "objects": (PublishedFile(("objects_vocab.txt",), "obj, att and cnt", _VOCABULARY_HOME), 1600),
    "attributes": (PublishedFile(("attributes_vocab.txt",), "att", _VOCABULARY_HOME), 400),
    "relations": (PublishedFile(("relations_vocab.txt",), "rel and cnt", _VOCABULARY_HOME), 20),
}
_ALIASES = {"objects": "object_alias.txt", "relations": "relationship_alias.txt"}


@dataclass(frozen=True)
class GenomeOptions:
    """How Visual Genome is prepared."""

    version: str = "auto"
    held_out: float = 5.0  # percent of the images for val, and as many for test
    skip_leakage_check: bool = False
    other_vocab: bool = False
    limit: int | None = None


class GenomeFiles(NamedTuple):
    """Where the published files are."""

    images: Path
    objects: Path
    attributes: Path
    relationships: Path
    vocabularies: dict[str, Path]
    aliases: dict[str, Path]
    held_out: list[Path]

    def all(self) -> list[Path]:
        """Return each of them once."""
        annotated = [self.images, self.objects, self.attributes, self.relationships]
        return [*annotated, *self.vocabularies.values(), *self.aliases.values(), *self.held_out]


def prepare_genome(
    source: Path,
    out: Path,
    vocabulary: Path | None,
    coco: list[Path],
    options: GenomeOptions,
    watch: Watch,
    echo: Echo,
) -> Store:
    """Make genome.h5 of the published files, unless it is there already."""
    files = find_files(source, vocabulary or source, coco, options)
    scenes = PreparedScenes(out)
    return prepare_part(
        out / PART,
        files.all(),
        options.__dict__,
        {"features": scenes.digest},
        lambda: make_genome(files, scenes, options, watch),
        watch,
        echo,
    )


def find_files(
    source: Path, vocabulary: Path, coco: list[Path], options: GenomeOptions
) -> GenomeFiles:
    """Find all that is needed before anything long is begun."""
    check_folder(source, "Visual Genome's objects.json, attributes.json and relationships.json")
    needed = "obj, att, rel and cnt"
    images = find(source, PublishedFile(("image_data.json",), needed, _HOME))
    endings = _VERSIONS[options.version]
    annotated = {
        name: find(source, PublishedFile(tuple(f"{name}{e}.json" for e in endings), tasks, _HOME))
        for name, tasks in _TASKS.items()
    }
    vocabularies = {name: find(vocabulary, file) for name, (file, _) in _VOCABULARIES.items()}
    aliases = {
        name: path
        for name, file in _ALIASES.items()
        if (path := find_if_there(source, PublishedFile((file,), "", _HOME))) is not None
    }
    held_out = [] if options.skip_leakage_check else held_out_files([*coco, source])
    return GenomeFiles(
        images, **annotated, vocabularies=vocabularies, aliases=aliases, held_out=held_out
    )


def make_genome(
    files: GenomeFiles, scenes: PreparedScenes, options: GenomeOptions, watch: Watch
) -> Made:
    """Read, match and count everything; only attributes are spread out while writing."""
    summary = Summary()
    tally = summary.tally
    classes = {
        name: Classes.read(
            files.vocabularies[name],
            None if options.other_vocab else expected,
            files.aliases.get(name),
        )
        for name, (_, expected) in _VOCABULARIES.items()
    }
    with watch(f"reading {files.images.name}") as progress:
        listed = read_images(files.images, tally, progress)
    images = _kept_images(listed, files, scenes, options, summary)
    with watch(f"reading {files.objects.name}") as progress:
        objects = read_objects(files.objects, images, classes["objects"], tally, progress)
    with watch(f"reading {files.attributes.name}") as progress:
        attributes = join_attributes(
            objects,
            read_attributes(
                files.attributes,
                images,
                classes["objects"],
                classes["attributes"],
                tally,
                progress,
            ),
            tally,
        )
    with watch(f"reading {files.relationships.name}") as progress:
        relations = read_relations(
            files.relationships, images, classes["objects"], classes["relations"], tally, progress
        )
    found = _match(images, objects, attributes, relations, scenes, watch)
    made = make_tables(found, classes, summary, held_out=options.held_out, limit=options.limit)
    rows = [table["scene"] for table in made.tables.values()]
    summary.warnings += scenes.warn_of_simulated(np.concatenate(rows))
    return made


def _match(
    images: Images,
    objects: ImageObjects,
    attributes: Attributes,
    relations: Relations,
    scenes: PreparedScenes,
    watch: Watch,
) -> Labelled:
    """Find for every image which boxes show what, and which stand in relations."""
    owner = np.full((len(images), scenes.regions), -1, np.int64)
    matched = []
    things, triplets = Grouped(attributes.things), Grouped(relations.subject)
    with watch("matching boxes") as progress:
        for row, scene in enumerate(images.scene.tolist()):
            boxes, mask = scenes.boxes[scene], scenes.mask[scene]
            owner[row] = owners(boxes, mask, attributes.things.box, things.rows(row))
            matched.append(match_relations(boxes, mask, relations, triplets.rows(row)))
            if row % 100 == 0 or row + 1 == len(images):
                progress(row + 1, len(images))
    return Labelled(images, objects, attributes, relations, owner, matched)


def _kept_images(
    listed: list[ImageRecord],
    files: GenomeFiles,
    scenes: PreparedScenes,
    options: GenomeOptions,
    summary: Summary,
) -> Images:
    """Return the images that have features and may be learned from."""
    summary.add(f"images in {files.images.name}", len(listed), "over 108,000")
    if options.skip_leakage_check:
        summary.warnings.append(
            "LEAKAGE NOT CHECKED: images that COCO or VQA test on may be among those learned from"
        )
        leaking: frozenset[int] = frozenset()
    else:
        stated = [record.states_coco for record in listed]
        check_ids(files.images, [record.coco for record in listed], stated)
        held_out = read_held_out(files.held_out)
        leaking = held_out.val | held_out.test
        removed = {
            name: sum(record.coco in ids for record in listed)
            for name, ids in (("val2014", held_out.val), ("test2015", held_out.test))
        }
        for name, count in removed.items():
            summary.add(f"images removed, being COCO's {name}", count)
    kept: list[tuple[int, ImageRecord]] = []
    for record in listed:
        if record.coco is not None and record.coco in leaking:
            continue
        row = scenes.row("vg", record.id)
        if row is None and record.coco is not None:  # the same picture
            row = scenes.row("coco", record.coco)
        if row is None:
            summary.tally.note("images without features: left out", record.id)
        else:
            kept.append((row, record))
    if not kept:
        raise UserError(
            f"{scenes.path}: has features of none of the images that may be learned from; "
            "prepare features with --vg for Visual Genome's images"
        )
    kept.sort(key=lambda pair: pair[0])
    found = [record for _, record in kept]
    return Images(
        np.array([record.id for record in found], np.int64),
        np.array([row for row, _ in kept], np.int64),
        np.array([(record.width, record.height) for record in found], np.float64),
        np.array([-1 if r.coco is None else r.coco for r in found], np.int64),
        frozenset(record.id for record in listed),
    )
