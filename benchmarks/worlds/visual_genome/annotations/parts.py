"""A part of a prepared folder, built once: the same files give the same part, which is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from benchmarks.worlds.visual_genome.annotations.files import digests
from benchmarks.worlds.visual_genome.annotations.tally import Summary
from benchmarks.worlds.visual_genome.callbacks import Echo, Watch
from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.errors import UserError

_RECIPE = 1  # raise it when the same files give other tables

Table = Mapping[str, NDArray[Any]]


@dataclass
class Made:
    """What a part is made of: tables by "split/task", and what their numbers mean."""

    names: dict[str, list[str]]
    tables: dict[str, Table]
    summary: Summary
    size: int = 0  # about, in bytes, of what ``write_more`` writes
    write_more: Callable[[StoreWriter], None] = field(default=lambda store: None)

    def write(self, store: StoreWriter) -> None:
        """Write all of it."""
        for of, names in self.names.items():
            store.name_values(of, names)
        for table, columns in self.tables.items():
            for name, column in columns.items():
                store.create(f"{table}/{name}", len(column), column.shape[1:], column.dtype)
                store.append(f"{table}/{name}", column)
        self.write_more(store)


def prepare_part(
    path: Path,
    files: Iterable[Path],
    options: Mapping[str, Any],
    parts: Mapping[str, str],
    make: Callable[[], Made],
    watch: Watch,
    echo: Echo,
) -> Store:
    """Build a part, unless it is there already, made of the same files, options and other parts.

    ``parts`` are the digests of the parts that it is about, by their names.
    """
    with watch("looking at the files") as progress:
        made_of = {
            "recipe": _RECIPE,
            "files": digests(files, progress),
            "options": dict(options),
            "parts": dict(parts),
        }
    there = _kept(path, made_of, echo)
    if there is not None:
        _report(there, echo)
        return there
    made = make()
    empty = [name for name, table in made.tables.items() if not len(next(iter(table.values())))]
    if empty:
        made.summary.warnings.append(f"nothing is left for {', '.join(empty)}")
    tables = (column.nbytes for table in made.tables.values() for column in table.values())
    header = {
        "part": path.stem,
        "made_of": made_of,
        **parts,
        "summary": made.summary.as_header(),
        "lines": made.summary.lines(),
    }
    size = made.size + sum(tables)
    build_store(path, made.write, header=header, size=size, option="--out")
    store = Store(path)
    _report(store, echo)
    return store


def _kept(path: Path, made_of: Mapping[str, Any], echo: Echo) -> Store | None:
    """Return the part that is there, if it is whole and the same would be made again."""
    if not path.exists():
        return None
    try:
        store = Store(path)
    except UserError as error:
        echo(f"{error}: it is made anew")
        return None
    if store.header.get("made_of") != made_of:
        echo(f"{path} was made of other files or options: it is made anew")
        return None
    if not store.verify():
        echo(f"{path} does not match its digest: it is made anew")
        return None
    echo(f"{path} is there already, made of the same files: nothing to do")
    return store


def _report(store: Store, echo: Echo) -> None:
    for line in store.header["lines"]:
        echo(line)
    echo(f"{store.path}: {store.path.stat().st_size:,} bytes, digest {store.digest}")
