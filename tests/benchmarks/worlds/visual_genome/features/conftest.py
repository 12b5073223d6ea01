"""The same images in every form they are published in, written by code of the tests' own."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest

from benchmarks.worlds.visual_genome.features.preparation import prepare_features
from benchmarks.worlds.visual_genome.features.request import Request
from pmn_cl.data.store import Store
from pmn_cl.progress import ProgressCallback

Array = np.ndarray[Any, Any]


class Photo(NamedTuple):
    """An image as a test makes it."""

    id: int
    width: int
    height: int
    boxes: Array
    features: Array
    confidences: Array


def make_photos(count: int, *, boxes: int = 36, dimensions: int = 4, seed: int = 0) -> list[Photo]:
    """Images with boxes in order of confidence, in no order of ids."""
    rng = np.random.default_rng(seed)
    photos = []
    for number in rng.permutation(np.arange(1, count + 1) * 7).tolist():
        width, height = (int(side) for side in rng.integers(200, 641, 2))
        near = rng.uniform(0, 0.6, (boxes, 2))
        far = near + rng.uniform(0.1, 0.4, (boxes, 2))
        corners = np.concatenate([near, far], axis=1) * [width, height, width, height]
        photos.append(
            Photo(
                number,
                width,
                height,
                corners.astype("<f4"),
                rng.standard_normal((boxes, dimensions)).astype("<f4"),
                np.sort(rng.uniform(0.2, 1, boxes))[::-1].astype("<f4"),
            )
        )
    return photos


def text(values: Array) -> bytes:
    return base64.b64encode(np.ascontiguousarray(values).tobytes())


def bottom_up_line(photo: Photo) -> bytes:
    numbers = f"{photo.id}\t{photo.width}\t{photo.height}\t{len(photo.boxes)}\t".encode()
    return numbers + text(photo.boxes) + b"\t" + text(photo.features) + b"\n"


def lxmert_line(photo: Photo) -> bytes:
    classes = text(np.zeros(len(photo.boxes), "<i8"))
    fields = [
        f"COCO_val2014_{photo.id:012d}".encode(),
        str(photo.height).encode(),
        str(photo.width).encode(),
        *(classes, text(photo.confidences), classes, text(photo.confidences)),
        str(len(photo.boxes)).encode(),
        *(text(photo.boxes), text(photo.features)),
    ]
    return b"\t".join(fields) + b"\r\n"


def write_bottom_up(folder: Path, photos: list[Photo]) -> Path:
    path = folder / "photos_36.tsv"
    path.write_bytes(b"".join(map(bottom_up_line, photos)))
    return path


def write_lxmert(folder: Path, photos: list[Photo]) -> Path:
    path = folder / "photos_obj36.tsv"
    path.write_bytes(b"".join(map(lxmert_line, photos)))
    return path


def write_hdf5(folder: Path, photos: list[Photo]) -> Path:
    path = folder / "photos36.hdf5"
    sizes = [np.array([p.width, p.height] * 2, "f4") for p in photos]
    scaled = [p.boxes / size for p, size in zip(photos, sizes, strict=True)]
    with h5py.File(path, "w") as file:
        file["image_features"] = np.stack([p.features for p in photos])
        file["image_bb"] = np.stack([p.boxes for p in photos])
        file["spatial_features"] = np.stack(
            [np.concatenate([s, s[:, 2:] - s[:, :2]], axis=1) for s in scaled]
        ).astype("f4")
    rows = {photo.id: row for row, photo in enumerate(photos)}
    (folder / "photos36_imgid2idx.pkl").write_bytes(pickle.dumps(rows, protocol=2))
    return path


def write_npy(folder: Path, photos: list[Photo]) -> Path:
    path = folder / "photos_npy"
    path.mkdir(parents=True)
    for photo in photos:
        name = f"COCO_train2014_{photo.id:012d}"
        scores = np.stack([photo.confidences / 3, photo.confidences], axis=1)
        info = {
            "bbox": photo.boxes,
            "num_boxes": len(photo.boxes),
            "objects": np.zeros(len(photo.boxes), "i8"),
            "cls_prob": scores,
            "image_width": photo.width,
            "image_height": photo.height,
        }
        np.save(path / f"{name}.npy", photo.features)
        np.save(path / f"{name}_info.npy", info, allow_pickle=True)  # type: ignore[arg-type]
    return path


WRITERS = {
    "bottom_up": write_bottom_up,
    "lxmert": write_lxmert,
    "hdf5": write_hdf5,
    "npy": write_npy,
}


@contextmanager
def quiet(doing: str) -> Iterator[ProgressCallback]:
    yield lambda done, total: None


class Prepared(NamedTuple):
    """A store, and what was said while it was made."""

    store: Store
    said: list[str]

    @property
    def columns(self) -> dict[str, Array]:
        return {name: c.load() for name, c in self.store.table("all", "scenes").items()}

    @property
    def summary(self) -> str:
        return "\n".join(self.store.header["lines"])


@pytest.fixture(scope="session")
def photos() -> Callable[..., list[Photo]]:
    return make_photos


@pytest.fixture(scope="session")
def writers() -> dict[str, Callable[[Path, list[Photo]], Path]]:
    return WRITERS


@pytest.fixture(scope="session")
def line_of() -> Callable[[Photo], bytes]:
    """An image as a line of bottom-up attention's TSV."""
    return bottom_up_line


@pytest.fixture(scope="session")
def prepare() -> Callable[..., Prepared]:
    """Prepare sources into a folder, without a command around it."""

    def prepared(out: Path, *sources: Path, **options: Any) -> Prepared:
        said: list[str] = []
        request = Request(sources=sources, **options)
        return Prepared(prepare_features(request, out, quiet, said.append), said)

    return prepared
