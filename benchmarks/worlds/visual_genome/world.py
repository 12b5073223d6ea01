"""The paper's own data as a world: what ``pmn-bench prepare`` has made of the published files.

Nothing is built here. The folder is the one that the prepare commands wrote, with the regions of
all images in ``features.h5`` and the samples in ``genome.h5``, ``coco.h5`` and ``vqa.h5``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pmn_cl.data.joined_store import EXTRA, FEATURES, JoinedStore, Part
from pmn_cl.data.store import Store, StoreWriter
from pmn_cl.data.world import World, WorldOptions
from pmn_cl.errors import UserError
from pmn_cl.progress import ProgressCallback
from pmn_cl.tasks.counts import UNKNOWN

DATA = "PMN_BENCH_DATA"  # the environment variable with the folder that relative paths start from
ALL_TASKS = ("obj", "att", "rel", "cap", "cnt", "vqa")
REGIONS = Part(FEATURES, ALL_TASKS, "pmn-bench prepare features SOURCE")
PARTS = (
    Part("genome.h5", ("obj", "att", "rel"), "pmn-bench prepare visual-genome SOURCE"),
    Part("coco.h5", ("cap",), "pmn-bench prepare coco SOURCE"),
    Part("vqa.h5", ("cnt", "vqa"), "pmn-bench prepare vqa SOURCE"),
)


class PreparedOptions(WorldOptions):
    """What a stream may set about this world."""

    path: str = Field("prepared", min_length=1)  # the folder with the prepared files


class VisualGenome(World):
    """Photographs with bottom-up regions; the six tasks from people's annotations."""

    name = "visual_genome"
    summary = "photographs: Visual Genome, COCO captions, VQA 2.0, prepared from published files"
    Options = PreparedOptions
    extras: ClassVar = {"vqa": ("rel",), "cnt": ("obj",)}
    options: PreparedOptions

    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        """Refuse: the files are made by commands of their own, which know where the sources are."""
        raise UserError(f"{self.path()}: is made by `pmn-bench prepare`, not by a stream")

    def path(self, cache: Path | None = None) -> Path:
        """Return the folder: of several that a relative path may mean, the first that is there.

        It may be in $PMN_BENCH_DATA, in the working folder, or beside the stream's YAML, whose
        folder is where Python looks for a stream's own modules, too.
        """
        given = Path(self.options.path).expanduser()
        places = [Path(os.environ[DATA]).expanduser()] if os.environ.get(DATA) else []
        places += [Path(), *(Path(entry) for entry in sys.path if entry)]
        found = (place / given for place in places if (place / given / FEATURES).is_file())
        return next(found, places[0] / given)

    def prepare(self, cache: Path | None = None, progress: ProgressCallback | None = None) -> Store:
        """Open what was prepared."""
        folder = self.path()
        if not folder.is_dir():
            raise UserError(
                f"{folder}: no such folder, expected one that `pmn-bench prepare` has filled: "
                f"start with `{REGIONS.command} --out {folder}`; a relative path is looked for in "
                f"${DATA}, in the working folder and beside the stream's YAML"
            )
        return JoinedStore(folder, REGIONS, PARTS)

    def extra_samples(self, store: Store, task: str, source: str) -> dict[str, NDArray[Any]]:
        """Return the questions that were made of Visual Genome's objects or relations."""
        columns = store.table("train", task)
        try:
            made = store.table(EXTRA, task)
        except UserError:
            raise UserError(
                f"{store.path.parent / 'vqa.h5'}: has no questions made of {source!r} for "
                f"{task!r}; prepare it with Visual Genome's files, or leave `extra` out"
            ) from None
        added = {name: made[name].load() for name in columns if name in made}
        if task == "cnt":  # older files have how many were annotated: at most as many as there are
            relational = added["kind"] == store.names["cnt kinds"].index("relational")
            added["count"] = np.where(relational, UNKNOWN, added["count"])
        return added
