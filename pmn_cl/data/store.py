"""One file that holds a prepared world: written once as a stream, read by memory map.

Layout: ``<split>/scenes/<column>`` (regions, boxes, mask, and whatever truth a world keeps) and
``<split>/<task>/<column>``, where a task's ``scene`` column is the scene a sample is about.
Datasets are contiguous and uncompressed, so that rows can be read at the dataset's offset, by
memory map or one by one, several times faster than through the HDF5 library.

A store is trusted only when it was finished: it is built beside its final name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import h5py
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pmn_cl.errors import UserError

FORMAT, FORMAT_VERSION = "pmn-bench store", 1
SCENES = "scenes"
ENVIRONMENT = ("regions", "boxes", "mask")  # what every scene must have
_MOST_TOUCHED = 1 << 24  # bytes read from a map, each page of which may bring in 2 MB around it
_ABANDONED = 3600  # seconds without a write after which a partial file is abandoned


class StoreWriter:
    """Appends rows to columns whose lengths are declared beforehand."""

    def __init__(self, file: h5py.File, path: Path, option: str = "--cache") -> None:
        self._file, self._path, self._option = file, path, option
        self._filled: dict[str, int] = {}
        self._hashes: dict[str, Any] = {}
        self._names: dict[str, list[str]] = {}

    def create(
        self, name: str, rows: int, shape: tuple[int, ...] = (), dtype: DTypeLike = np.int64
    ) -> None:
        """Declare a column ``split/table/column`` of so many rows of this shape."""
        parts = name.split("/")
        if len(parts) != 3 or not all(parts):
            raise UserError(f"{self._path}: column {name!r}, expected split/table/column")
        whole = (int(rows), *map(int, shape))
        with _storing(self._path, self._option):
            self._file.create_dataset(name, whole, np.dtype(dtype), track_times=False)
        self._filled[name] = 0
        self._hashes[name] = hashlib.sha256(f"{name} {np.dtype(dtype)} {whole}".encode())

    def append(self, name: str, values: ArrayLike) -> None:
        """Write the next rows of a column."""
        dataset = self._file[name]
        block = np.ascontiguousarray(values, dtype=dataset.dtype)
        start, stop = self._filled[name], self._filled[name] + len(block)
        if stop > len(dataset) or block.shape[1:] != dataset.shape[1:]:
            raise UserError(
                f"{self._path}: {name}: rows {start} to {stop} of shape {block.shape[1:]}, "
                f"expected at most {len(dataset)} of shape {dataset.shape[1:]}"
            )
        with _storing(self._path, self._option):
            dataset[start:stop] = block
        self._filled[name] = stop
        self._hashes[name].update(block.data)

    def name_values(self, of: str, names: tuple[str, ...] | list[str]) -> None:
        """Keep what the numbers of a column mean: words, answers, relations, …"""
        self._names[of] = list(names)

    def finish(self, header: Mapping[str, Any]) -> str:
        """Check that every column is full, seal the store and return its digest."""
        for name, filled in self._filled.items():
            if filled != (rows := len(self._file[name])):
                raise UserError(f"{self._path}: {name}: {filled} rows written, {rows} declared")
        digest = _combine(self._names, {n: h.hexdigest() for n, h in self._hashes.items()})
        sealed = {**header, "names": self._names, "digest": digest}
        # Bytes, not str: HDF5 keeps these under a checksum. Damaged str can hang its reader.
        with _storing(self._path, self._option):
            self._file.attrs["header"] = np.bytes_(json.dumps(sealed, sort_keys=True))
            self._file.attrs["format"] = np.bytes_(FORMAT)
            self._file.attrs["version"] = FORMAT_VERSION
        return digest


def build_store(
    path: Path,
    write: Callable[[StoreWriter], None],
    *,
    header: Mapping[str, Any],
    size: int,
    option: str = "--cache",
) -> None:
    """Build a store of about ``size`` bytes, whole or not at all.

    ``option`` is that of the command line which names another folder, where this one will not do.
    """
    with _storing(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
        _forget_abandoned(path)
        free = shutil.disk_usage(path.parent).free
    if free < size:
        raise UserError(
            f"{path.parent}: {free / 1e6:.0f} MB free, about {size / 1e6:.0f} MB needed; "
            f"free some space or name another folder with {option}"
        )
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        _write_file(partial, path, write, header, option)
        with ThreadPoolExecutor(1) as pool:  # the disk and the processor at once
            on_disk = pool.submit(_flush, partial)
            whole = Store(partial).verify()  # a full disk is not always noticed while writing
        with _storing(path, option):
            on_disk.result()
        if not whole:
            raise UserError(f"{path}: what was written cannot be read back; check the disk")
        with _storing(path, option):
            partial.replace(path)
    finally:
        with suppress(OSError):  # not there, or its folder is none
            partial.unlink()


def _write_file(
    partial: Path,
    path: Path,
    write: Callable[[StoreWriter], None],
    header: Mapping[str, Any],
    option: str,
) -> None:
    with _storing(path, option):
        file = _create_file(partial)
    try:
        writer = StoreWriter(file, path, option)
        write(writer)
        writer.finish(header)
    except BaseException:
        with suppress(Exception):  # on a full disk closing fails as well
            file.close()
        raise
    with _storing(path, option):
        file.close()


def _flush(path: Path) -> None:
    """Wait until all of a file is on disk."""
    with path.open("rb") as written:
        os.fsync(written.fileno())


def _create_file(path: Path) -> h5py.File:
    """Create a HDF5 file whose writes fail at once, not when a forgotten buffer is flushed."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_obj_track_times(False)  # the same data make the same bytes at any time
    name, mode = os.fsencode(path), h5py.h5f.ACC_EXCL
    return h5py.File(h5py.h5f.create(name, mode, fcpl=creation, fapl=access))


@contextmanager
def _storing(path: Path, option: str) -> Iterator[None]:
    """Raise what is wrong where the store itself, not the world, cannot be written."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises both
        raise UserError(
            f"{path}: could not be written ({error}); nothing was kept. "
            f"Check the folder's space and permissions, or name another with {option}"
        ) from error


def _forget_abandoned(path: Path) -> None:
    """Remove what builds that were killed have left in this folder."""
    for left in path.parent.glob(".*.h5.*.partial"):
        with suppress(FileNotFoundError):  # another builder was done with it just now
            if time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


class MappedArray:
    """Rows of one column, read from the file when asked for; opened once in each process."""

    def __init__(
        self, path: Path, offset: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.path, self.offset, self.shape, self.dtype = path, offset, shape, dtype
        # In one: threads may open it at the same time, and the array must be of this very map.
        self._opened: tuple[mmap.mmap | None, NDArray[np.uint8]] | None = None
        self._touched = 0  # bytes of the map that were read, and may be in this process's memory

    def __getstate__(self) -> dict[str, Any]:
        """Leave the map out: another process opens its own instead of copying the data."""
        return {**self.__dict__, "_opened": None}

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Return the size of the whole column in bytes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def array(self) -> NDArray[Any]:
        """Return the column as an array that is read from disk as it is used."""
        return np.ndarray(self.shape, self.dtype, self._map()[1])

    def _map(self) -> tuple[mmap.mmap | None, NDArray[np.uint8]]:
        """Return the map, and the column's bytes in it: numbers there may lie at odd places."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> tuple[mmap.mmap | None, NDArray[np.uint8]]:
        if self.offset is None:  # nothing was ever written: no rows
            return None, np.empty(0, np.uint8)
        before = self.offset % mmap.ALLOCATIONGRANULARITY
        place = {"length": before + self.nbytes, "offset": self.offset - before}
        with self.path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), **place, access=mmap.ACCESS_READ)
        return pages, np.frombuffer(pages, np.uint8, offset=before)

    def blocks(self, most: int = 1 << 24) -> Iterator[bytes]:
        """Read the column piece by piece, past the map, which would fill memory with the file."""
        left = self.nbytes if self.offset is not None else 0
        with self.path.open("rb") as file:
            file.seek(self.offset or 0)
            while left and (block := file.read(min(left, most))):
                left -= len(block)
                yield block

    def read(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        """Copy rows into a contiguous array of the column's type.

        Pages of the map go back to the system when there are many: they would fill this process
        with the whole file. Any number of threads may do so at once, and other Python code goes on
        meanwhile.
        """
        if len(rows) == 0:
            return
        if self.offset is None or rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a column of {len(self)}")
        if self.path.stat().st_size < self.offset + self.nbytes:  # a map would end the process
            raise UserError(f"{self.path}: was cut off; delete it and prepare again")
        pages, stored = self._map()
        # As bytes: numpy copies all of a column of numbers at odd places. "raise" copies, too.
        places = into.reshape(len(into), -1).view(np.uint8)
        np.take(stored.reshape(len(self), -1), rows, axis=0, out=places, mode="clip")
        self._touched += into.nbytes
        if pages is not None and self._touched > _MOST_TOUCHED:
            self._touched = 0
            pages.madvise(mmap.MADV_DONTNEED)

    def load(self) -> NDArray[Any]:
        """Return a copy of the whole column in memory."""
        return np.array(self.array)


class Store:
    """A finished store, opened for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: dict[str, dict[str, MappedArray]] = {}
        try:
            with h5py.File(path, "r") as file:
                if file.attrs.get("format") != FORMAT.encode() or "header" not in file.attrs:
                    raise UserError(f"{path}: a HDF5 file, but no finished {FORMAT}; delete it")
                version = file.attrs.get("version")
                if version != FORMAT_VERSION:
                    raise UserError(
                        f"{path}: {FORMAT} of version {version}, expected "
                        f"{FORMAT_VERSION}; delete it and prepare again"
                    )
                self.header: dict[str, Any] = json.loads(file.attrs["header"])
                file.visititems(self._note_column)
            self.names: dict[str, list[str]] = self.header["names"]
            self.digest: str = self.header["digest"]
        except FileNotFoundError:
            raise UserError(f"{path}: no such file; prepare the world first") from None
        except (OSError, RuntimeError, KeyError, ValueError) as error:  # h5py raises all of these
            raise UserError(
                f"{path}: not a readable store ({error}); delete it and prepare again"
            ) from error

    def _note_column(self, name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            table, column = name.rsplit("/", 1)
            self._columns.setdefault(table, {})[column] = MappedArray(
                self.path, item.id.get_offset(), item.shape, item.dtype
            )

    @property
    def splits(self) -> list[str]:
        """Return the names of the splits, training first."""
        found = {table.split("/")[0] for table in self._columns}
        usual = ["train", "val", "test", "novel"]
        return [s for s in usual if s in found] + sorted(found - set(usual))

    def tasks(self, split: str) -> list[str]:
        """Return the tasks that a split has samples of."""
        prefix = f"{split}/"
        tables = [t[len(prefix) :] for t in self._columns if t.startswith(prefix)]
        return [table for table in tables if table != SCENES]

    def table(self, split: str, table: str) -> dict[str, MappedArray]:
        """Return the columns of a task's samples, or of the scenes, of one split."""
        try:
            return self._columns[f"{split}/{table}"]
        except KeyError:
            raise UserError(
                f"{self.path}: no table {table!r} in split {split!r}; "
                f"it has {', '.join(sorted(self._columns))}"
            ) from None

    def verify(self) -> bool:
        """Read everything and return whether it still has the digest it was sealed with."""
        hashes = {}
        for table, columns in self._columns.items():
            for column, mapped in columns.items():
                name = f"{table}/{column}"
                found = hashlib.sha256(f"{name} {mapped.dtype} {mapped.shape}".encode())
                for block in mapped.blocks():
                    found.update(block)
                hashes[name] = found.hexdigest()
        return _combine(self.names, hashes) == self.digest


def _combine(names: Mapping[str, list[str]], hashes: Mapping[str, str]) -> str:
    """Return one digest for all columns and the meaning of their numbers."""
    return hashlib.sha256(json.dumps([names, hashes], sort_keys=True).encode()).hexdigest()
