"""What is asked for, and the sources it is to be made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.worlds.visual_genome.callbacks import Watch
from benchmarks.worlds.visual_genome.features.image_lists import (
    COCO,
    SOURCES,
    VISUAL_GENOME,
    read_lists,
)
from benchmarks.worlds.visual_genome.features.images import Image
from benchmarks.worlds.visual_genome.features.readers import Reader, find_reader
from benchmarks.worlds.visual_genome.features.simulated import Simulated, SimulatedObjects
from pmn_cl.errors import UserError

_USUAL_DIMENSIONS = 2048
_LOOKED_AT = 5  # images that show how many features boxes have


@dataclass(frozen=True)
class Request:
    """What to prepare; images of ``sources`` have ids of COCO, those of ``vg`` Visual Genome's."""

    sources: tuple[Path, ...] = ()
    vg: tuple[Path, ...] = ()
    form: str | None = None
    limit: int | None = None
    images: tuple[Path, ...] = ()
    simulate: bool = False
    image_data: tuple[Path, ...] = ()
    objects: tuple[Path, ...] = ()
    dimensions: int | None = None
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be meant."""
        if self.simulate and not self.image_data:
            raise UserError(
                "--simulate without --image-data, expected a list of the images to make up: "
                "image_data.json of Visual Genome, questions of VQA or captions of COCO"
            )
        if not self.simulate and (self.image_data or self.objects or self.dimensions):
            raise UserError(
                "--image-data, --objects and --dimensions are for --simulate, which is not given; "
                "add it, or leave them out"
            )
        if not (self.sources or self.vg or self.simulate):
            raise UserError(
                "no SOURCE, expected files of region features as published (trainval_36.tsv, …), "
                "or --simulate with --image-data to try annotations without any"
            )


class Source(NamedTuple):
    """A reader, and the dataset whose ids its images have."""

    reader: Reader
    kind: int

    @property
    def simulated(self) -> bool:
        """Whether its images are made up."""
        return isinstance(self.reader, Simulated)

    @property
    def name(self) -> str:
        """What to call it."""
        if self.simulated:
            return f"made up for {', '.join(path.name for path in self.reader.files())}"
        return self.reader.path.name

    @property
    def owner(self) -> str:
        """The dataset whose ids its images have."""
        return ("COCO", "Visual Genome")[self.kind]

    def describe(self) -> dict[str, Any]:
        """Return what identifies it."""
        return {
            "files": [path.name for path in self.reader.files()][:10],
            "bytes": self.reader.disk_bytes(),
            "ids": SOURCES[self.kind],
            "form": self.reader.summary,
            "fingerprint": self.reader.fingerprint(),
        }


def open_sources(request: Request, watch: Watch) -> tuple[list[Source], int]:
    """Return all sources, those with features first, and how many features a box has."""
    sources = [Source(find_reader(path, request.form), COCO) for path in request.sources]
    sources += [Source(find_reader(path, request.form), VISUAL_GENOME) for path in request.vg]
    found = next(filter(None, (_dimensions(source.reader) for source in sources)), None)
    if found and request.dimensions not in (None, found):
        raise UserError(
            f"--dimensions {request.dimensions}, but the sources have {found} features for a box; "
            "leave it out"
        )
    dimensions = found or request.dimensions or _USUAL_DIMENSIONS
    if request.simulate:
        images, objects = read_lists(request.image_data), SimulatedObjects()
        for path in request.objects:
            with watch(f"reading {path.name}") as progress:
                objects.read(path, progress)
        known = objects.sealed() if request.objects else None
        paths = (*request.image_data, *request.objects)
        for kind in (COCO, VISUAL_GENOME):
            made = Simulated(paths, kind, images, known, dimensions, request.seed)
            if made.size:
                sources.append(Source(made, kind))
    return sources, dimensions


def _dimensions(reader: Reader) -> int | None:
    """Return the commonest length of a feature vector among a source's first images."""
    images = (item for item in reader if isinstance(item, Image))
    widths = Counter(image.features.shape[1] for image in islice(images, _LOOKED_AT))
    reader.position = 0
    return widths.most_common(1)[0][0] if widths else None
