"""From sources to ``features.h5``: every image once, sorted, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.callbacks import Echo, Watch
from benchmarks.worlds.visual_genome.features import spool as spooling
from benchmarks.worlds.visual_genome.features.boxes import (
    MOST_BOXES,
    choose_regions,
    sides_exchanged,
)
from benchmarks.worlds.visual_genome.features.counts import Counts
from benchmarks.worlds.visual_genome.features.image_lists import COCO, SOURCES, Listed, read_lists
from benchmarks.worlds.visual_genome.features.images import Image, Skipped
from benchmarks.worlds.visual_genome.features.readers import DUPLICATE, NOT_NEEDED, Reader
from benchmarks.worlds.visual_genome.features.request import Request, Source, open_sources
from benchmarks.worlds.visual_genome.features.spool import HEAD, Spool
from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.errors import UserError
from pmn_cl.files import held, storing, write_whole
from pmn_cl.progress import ProgressCallback

STORE, SKIPPED = "features.h5", "features.skipped.txt"
NOTE_EVERY = 10.0  # seconds; so much is read again after an interruption
_RECIPE = 1  # raise it when the same sources give another store
_LISTED = 20  # skipped images that the summary names
_SIDES_DOUBTED = 3  # images with boxes that fit exchanged sides alone
_REPORT_EVERY = 16  # images


def prepare_features(request: Request, out: Path, watch: Watch, echo: Echo) -> Store:
    """Build ``features.h5`` in a folder, or go on building it, or find that it is there."""
    request.check()
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
    with held(out, "the folder"):
        try:
            sources, dimensions = open_sources(request, watch)
            made_of = {
                "recipe": _RECIPE,
                "sources": [source.describe() for source in sources],
                "limit": request.limit,
                "images": [
                    hashlib.sha256(path.read_bytes()).hexdigest() for path in request.images
                ],
            }
        except OSError as error:
            raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from error
        there = _there_already(out / STORE, made_of, echo)
        if there is not None:
            return there
        wanted = set(read_lists(request.images)) if request.images else None
        return _Preparation(request, out, sources, dimensions, wanted, made_of).run(watch, echo)


def _there_already(path: Path, made_of: dict[str, Any], echo: Echo) -> Store | None:
    """Return the store that is there, if it was made of the same; refuse to replace another."""
    if not path.exists():
        return None
    store = Store(path)
    if store.header.get("made_of") != made_of:
        files = [file for s in store.header.get("sources", ()) for file in s.get("files", ())]
        raise UserError(
            f"{path}: is there already, made of other sources or options "
            f"({', '.join(files[:5]) or 'unknown'}). Name another folder with --out, or delete it "
            "to prepare these"
        )
    if not store.verify():
        raise UserError(f"{path}: does not match its digest; delete it and prepare again")
    echo(f"{path} is there already, made of the same sources: nothing to do")
    return store


class _Preparation:
    """One prepare, with all that has to outlast an interruption."""

    def __init__(
        self,
        request: Request,
        out: Path,
        sources: list[Source],
        dimensions: int,
        wanted: set[Listed] | None,
        made_of: dict[str, Any],
    ) -> None:
        self.out, self.sources, self.dimensions = out, sources, dimensions
        self.limit, self.wanted, self.made_of = request.limit, wanted, made_of
        identity = json.dumps([made_of, dimensions], sort_keys=True).encode()
        self.identity = hashlib.sha256(identity).hexdigest()
        self.counts = [Counts() for _ in sources]
        self.skipped: list[tuple[int, int | str, str]] = []  # source, image, reason
        self.taken: tuple[set[int], set[int]] = (set(), set())  # images of either kind
        self.doubt = [0, 0]  # images whose boxes fit, and fit exchanged sides alone
        self.noted = monotonic()

    def run(self, watch: Watch, echo: Echo) -> Store:
        """Read what is not read yet, then write the store."""
        current, spool = self._resume(echo)
        with spool:
            self._read(spool, current, watch)
            if spool.count:
                self._write_store(spool, watch)
        if not spool.count:
            spooling.clear(self.out)
            raise UserError(self._nothing())
        self._list_skipped()
        spooling.clear(self.out)
        return Store(self.out / STORE)

    def _resume(self, echo: Echo) -> tuple[int, Spool]:
        """Return which source to go on with, and what is there."""
        note = spooling.read_note(self.out, self.identity)
        if note is None or not Spool.holds(self.out, self.dimensions, note["images"]):
            spooling.clear(self.out)
            return 0, Spool(self.out, self.dimensions)
        self.counts = [Counts.from_dict(kept) for kept in note["counts"]]
        self.skipped = [(source, image, reason) for source, image, reason in note["skipped"]]
        spool = Spool(self.out, self.dimensions, note["images"])
        heads = spool.heads()
        for kind, taken in enumerate(self.taken):
            taken.update(heads["image"][heads["source"] == kind].tolist())
        if note["source"] < len(self.sources):
            self.sources[note["source"]].reader.position = note["position"]
        echo(f"going on after {spool.count:,} images that were prepared before an interruption")
        return note["source"], spool

    def _read(self, spool: Spool, current: int, watch: Watch) -> None:
        sizes = [source.reader.disk_bytes() for source in self.sources]
        with watch("reading (MB)") as progress:
            for number in range(current, len(self.sources)):
                source, before = self.sources[number], sum(sizes[:number])
                source.reader.unwanted = self._reason_against(source)
                self.doubt = [0, 0]

                def report(reader: Reader = source.reader, number: int = number) -> float:
                    share = reader.position / max(1, reader.size)
                    done = sum(sizes[:number]) + share * sizes[number]
                    progress(*_megabytes(done, sum(sizes)))
                    return done / max(1, sum(sizes))

                try:
                    self._read_source(number, spool, report)
                except OSError as error:
                    raise UserError(
                        f"{source.reader.path}: cannot be read: {error.strerror or error}; what "
                        "was read is kept: run the same again to go on"
                    ) from error
                progress(*_megabytes(before + sizes[number], sum(sizes)))
                self._note(spool, number + 1, 0)

    def _read_source(self, number: int, spool: Spool, report: Callable[[], float]) -> None:
        source = self.sources[number]
        for count, item in enumerate(source.reader):
            if self._is_full(source.kind):
                break
            self._take(number, item, spool)
            if count % _REPORT_EVERY == 0:
                share = report()
                if monotonic() - self.noted > NOTE_EVERY:
                    self._check_space(spool, share)
                    self._note(spool, number, source.reader.position)

    def _reason_against(self, source: Source) -> Callable[[int], str]:
        """Return a function that gives the reason why an image of a source need not be read."""
        taken, wanted = self.taken[source.kind], self.wanted

        def reason(image: int) -> str:
            if wanted is not None and Listed(source.kind, image) not in wanted:
                return NOT_NEEDED
            if image in taken:  # what is made up is for those that have no features
                return NOT_NEEDED if source.simulated else DUPLICATE
            return ""

        return reason

    def _is_full(self, kind: int) -> bool:
        return self.limit is not None and len(self.taken[kind]) >= self.limit

    def _take(self, number: int, item: Image | Skipped, spool: Spool) -> None:
        """Keep an image, or note why not."""
        source, counts = self.sources[number], self.counts[number]
        if isinstance(item, Skipped):
            reason = item.reason
        elif not (reason := source.reader.unwanted(item.id)):
            if item.features.shape[1] != self.dimensions:
                reason = f"damaged: not {self.dimensions:,} features for a box"
            elif (regions := choose_regions(item, counts)) is None:
                reason = "no usable box"
            else:
                self._check_sides(source.reader, item)
                size = (item.width, item.height)
                spool.append(item.id, size, regions, source.kind, source.simulated)
                self.taken[source.kind].add(item.id)
                counts.images += 1
                return
        counts.skip(reason)
        if reason != NOT_NEEDED:
            self.skipped.append((number, item.id, reason))

    def _check_sides(self, reader: Reader, image: Image) -> None:
        """Refuse a form of another order of fields: width where height should be."""
        fits = sides_exchanged(image)
        self.doubt[fits < 0] += abs(fits)
        as_said, exchanged = self.doubt
        if exchanged >= _SIDES_DOUBTED and exchanged > as_said:
            raise UserError(
                f"{reader.path}: boxes of {exchanged} images fit only if width and height are "
                f"exchanged, expected {reader.summary}. Is it of another form (--format)?"
            )

    def _check_space(self, spool: Spool, share: float) -> None:
        """Refuse to go on where the disk would be full before the end."""
        expected = spool.count / max(share, 1e-9)
        if self.limit is not None:
            expected = min(expected, 2 * self.limit)
        needed = (2 * expected - spool.count) * spool.image_bytes
        free = shutil.disk_usage(self.out).free
        if free < needed:
            raise UserError(
                f"{self.out}: {free / 1e9:.1f} GB free, about {needed / 1e9:.1f} GB more needed; "
                "free some space and run the same again to go on, or name another folder"
            )

    def _note(self, spool: Spool, source: int, position: int) -> None:
        spool.note(
            {
                "identity": self.identity,
                "source": source,
                "position": position,
                "counts": [counts.as_dict() for counts in self.counts],
                "skipped": self.skipped,
            }
        )
        self.noted = monotonic()

    def _write_store(self, spool: Spool, watch: Watch) -> None:
        heads = spool.heads()
        self._check_space(spool, 1.0)
        for left in self.out.glob(f".{STORE}.*.partial"):  # the folder is ours alone
            with suppress(OSError):
                left.unlink()
        simulated = sum(
            counts.images
            for source, counts in zip(self.sources, self.counts, strict=True)
            if source.simulated
        )
        header = {
            "part": "features",
            "made_of": self.made_of,
            "sources": [
                {**source, "counts": counts.as_dict()}
                for source, counts in zip(self.made_of["sources"], self.counts, strict=True)
            ],
            "images": spool.count,
            "simulated": simulated,
            "lines": self._lines(heads["source"], simulated),
        }
        with watch("sorting and writing (images)") as progress:
            build_store(
                self.out / STORE,
                lambda store: _write_columns(store, spool, heads, progress),
                header=header,
                size=spool.count * spool.image_bytes,
                option="--out",
            )

    def _lines(self, kinds: Any, simulated: int) -> list[str]:
        """Say what was kept and what was not."""
        lines = []
        if simulated:
            lines.append(
                f"SIMULATED: features of {simulated:,} of {len(kinds):,} images are made up. "
                "They are for trying things out; scores on them say nothing about real images."
            )
        coco = int((kinds == COCO).sum())
        lines.append(
            f"{len(kinds):,} images ({coco:,} of COCO, {len(kinds) - coco:,} of Visual Genome), "
            f"at most {MOST_BOXES} boxes with {self.dimensions:,} features (float16)"
        )
        for source, counts in zip(self.sources, self.counts, strict=True):
            lines.append(f"{source.name} ({source.reader.summary}; ids of {source.owner}):")
            lines += [f"  {line}" for line in counts.lines(source.reader.fixed_is_ordered)]
        if self.skipped:
            some = [f"{image} ({reason})" for _, image, reason in self.skipped[:_LISTED]]
            more = len(self.skipped) - len(some)
            lines.append(f"skipped: {', '.join(some)}" + (f" and {more:,} more" * (more > 0)))
            lines.append(f"all of them are in {SKIPPED}")
        return lines

    def _nothing(self) -> str:
        reasons = sum((counts.skipped for counts in self.counts), Counter[str]())
        unneeded = sum(counts.not_needed for counts in self.counts)
        why = [f"{count:,} {reason}" for reason, count in reasons.most_common(5)]
        why += [f"{unneeded:,} not among --images"] if unneeded else []
        names = ", ".join(source.name for source in self.sources)
        return (
            f"{names}: no image could be taken ({'; '.join(why) or 'there is none'}); nothing was "
            "written. Check that the files are whole and of the form that --format names"
        )

    def _list_skipped(self) -> None:
        """Write all that was skipped beside the store."""
        path = self.out / SKIPPED
        if self.skipped:
            rows = ((image, self.sources[n].name, why) for n, image, why in self.skipped)
            write_whole(path, "".join("\t".join(map(str, row)) + "\n" for row in rows))
        else:
            with storing(path):
                path.unlink(missing_ok=True)


def _write_columns(
    store: StoreWriter, spool: Spool, heads: NDArray[np.void], progress: ProgressCallback
) -> None:
    """Write all images, sorted."""
    order = np.lexsort((heads["image"], heads["source"]))
    columns = {name: heads[name][order] for name in HEAD.names or () if name != "count"}
    columns["mask"] = np.arange(MOST_BOXES) < heads["count"][order][:, None]
    for name, values in columns.items():
        store.create(f"all/scenes/{name}", len(order), values.shape[1:], values.dtype)
        store.append(f"all/scenes/{name}", values)
    store.name_values("sources", SOURCES)
    shape = (MOST_BOXES, spool.dimensions)
    store.create("all/scenes/regions", len(order), shape, np.float16)
    done = 0
    for regions in spool.regions(order):
        store.append("all/scenes/regions", regions)
        done += len(regions)
        progress(done, len(order))


def _megabytes(done: float, total: float) -> tuple[int, int]:
    """Return both in MB; a small file has one."""
    whole = max(1, round(total / 1e6))
    return min(whole, round(done / max(1.0, total) * whole)), whole
