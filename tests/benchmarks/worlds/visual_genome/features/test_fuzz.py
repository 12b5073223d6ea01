"""Five hundred damaged files: each gives a clear error or a store that is whole and sound."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pmn_cl.errors import UserError

FORMS = ("bottom_up", "lxmert", "hdf5", "npy")
FILES = 25  # in each of five batches of every form

Generator = np.random.Generator
STRANGE: tuple[Any, ...] = (None, "text", b"bytes", -1, 10**30, 1e300, float("nan"), [], {}, True)
HUGE = (b"99999999999999999999", b"-1", b"1e400", b"NaN", b"0x10", b"", b"\xff\xfe", b"2147483648")


def cut(data: bytearray, rng: Generator) -> bytearray:
    return data[: rng.integers(0, len(data))]


def flip_bits(data: bytearray, rng: Generator) -> bytearray:
    for place in rng.integers(0, len(data), rng.integers(1, 20)).tolist():
        data[place] ^= 1 << int(rng.integers(8))
    return data


def overwrite(data: bytearray, rng: Generator) -> bytearray:
    start = int(rng.integers(0, len(data)))
    length = int(rng.integers(1, 200))
    fill = (0, 255, 127, 9, 10)[rng.integers(5)]  # also tabs and line breaks
    data[start : start + length] = bytes([fill]) * len(data[start : start + length])
    return data


def move(data: bytearray, rng: Generator) -> bytearray:
    start, stop = sorted(rng.integers(0, len(data), 2).tolist())
    place = int(rng.integers(0, len(data)))
    return data[:place] + data[start:stop] + data[place:]


def replace_field(data: bytearray, rng: Generator) -> bytearray:
    """Put something else where a field of a line was; anywhere, where there are no fields."""
    fields = bytes(data).split(b"\t")
    fields[rng.integers(len(fields))] = HUGE[rng.integers(len(HUGE))]
    return bytearray(b"\t".join(fields))


DAMAGES: list[Callable[[bytearray, Generator], bytearray]] = [
    cut,
    flip_bits,
    overwrite,
    move,
    replace_field,
]


def change_types(path: Path, rng: Generator) -> None:
    """Put values of other types and sizes into a file that still is what it says it is."""
    strange = STRANGE[rng.integers(len(STRANGE))]
    if path.name.endswith("_info.npy"):
        info = np.load(path, allow_pickle=True).item()
        info[list(info)[rng.integers(len(info))]] = strange
        np.save(path, info)
    elif path.suffix == ".pkl":
        rows = pickle.loads(path.read_bytes())
        rows[list(rows)[rng.integers(len(rows))]] = strange
        path.write_bytes(pickle.dumps(strange if rng.random() < 0.3 else rows))
    elif path.suffix == ".npy":
        dtype = ("f8", "f2", "i4", "S5", "?")[rng.integers(5)]
        np.save(path, np.load(path).astype(dtype).reshape(-1, 2 ** int(rng.integers(3))))
    elif path.suffix == ".hdf5":
        with h5py.File(path, "r+") as file, np.errstate(all="ignore"):
            name = list(file)[rng.integers(len(file))]
            values = file[name][:] * (1e38, np.nan, np.inf, -1, 0)[rng.integers(5)]
            del file[name]
            file[name] = values.astype(("f4", "f8", "i4")[rng.integers(3)])
    else:
        path.write_bytes(bytes(replace_field(bytearray(path.read_bytes()), rng)))


def damage(path: Path, rng: Generator) -> None:
    """Damage one of the files of a source."""
    files = sorted(path.parent.rglob("photos*")) if path.is_file() else sorted(path.iterdir())
    file = files[rng.integers(len(files))]
    if rng.random() < 0.25:
        change_types(file, rng)
    else:
        found = DAMAGES[rng.integers(len(DAMAGES))](bytearray(file.read_bytes()), rng)
        file.write_bytes(bytes(found))


def check_sound(columns: dict[str, Any]) -> None:
    """Check what every store promises."""
    assert np.isfinite(columns["regions"]).all()
    boxes, mask = columns["boxes"], columns["mask"]
    assert (boxes >= 0).all() and (boxes <= 1).all()
    assert (boxes[..., 2:] > boxes[..., :2]).all(axis=-1)[mask].all()
    assert mask.any(axis=1).all() and not boxes[~mask].any() and not columns["regions"][~mask].any()
    assert (np.diff(columns["image"]) > 0).all()
    assert (columns["width"] > 0).all() and (columns["height"] > 0).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("batch", range(5))
@pytest.mark.parametrize("form", FORMS)
def test_damaged_files(
    tmp_path: Path, photos: Any, writers: Any, prepare: Any, form: str, batch: int
) -> None:
    original = photos(4, boxes=3, dimensions=4)
    refused = []
    for number in range(FILES):
        rng = np.random.default_rng([FORMS.index(form), batch, number])
        folder = tmp_path / str(number)
        folder.mkdir()
        path = writers[form](folder, original)
        lines = set(path.read_bytes().splitlines()) if path.suffix == ".tsv" else set()
        damage(path, rng)
        try:
            made = prepare(folder / "out", path, form=form if rng.random() < 0.5 else None)
        except UserError as error:
            refused.append(str(error))
            assert len(refused[-1]) > 40 and not (folder / "out/features.h5").exists()
            continue
        columns = made.columns
        assert made.store.verify() and not list((folder / "out").glob("*partial*"))
        check_sound(columns)
        counts = made.store.header["sources"][0]["counts"]
        assert counts["images"] == len(columns["image"])
        skipped = folder / "out/features.skipped.txt"
        listed = skipped.read_text().splitlines() if skipped.exists() else []
        assert len(listed) == sum(counts["skipped"].values())
        if lines:  # an image whose line was not touched is there as it was, or listed
            untouched = lines & set(path.read_bytes().splitlines())
            missing = {line.split("\t")[0] for line in listed}
            for photo in original:
                if any(line.startswith(f"{photo.id}\t".encode()) for line in untouched):
                    row = np.flatnonzero(columns["image"] == photo.id)
                    assert len(row) == 1 or str(photo.id) in missing
        shutil.rmtree(folder)
    assert len(refused) < FILES
