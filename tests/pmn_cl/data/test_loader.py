"""Batches: the right rows, in an order that (seed, epoch) decide, however they are read."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from pmn_cl.data.loader import READERS, Batch, Batches, BatchLoader, Scenes, _Recycled
from pmn_cl.data.samples import Rows, Samples
from pmn_cl.data.store import Store
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import RelationTask

Pair = tuple[TensorDict, TensorDict]


def make(store: Store, task: Task, split: str = "val", in_memory: bool = True) -> Batches:
    samples = Samples.whole(store, split, task)
    return Batches(samples, Scenes(store, split, in_memory=in_memory))


def same(one: Pair, other: Pair) -> bool:
    return all(
        set(a.keys()) == set(b.keys())
        and all(torch.equal(a[key].float(), b[key].float()) for key in a.keys())  # noqa: SIM118
        for a, b in zip(one, other, strict=True)
    )


def test_a_batch_holds_what_the_store_holds(digits: Store) -> None:
    rows = np.array([7, 0, 123, 7])
    x, y = make(digits, RelationTask())[rows]
    table, scenes = digits.table("val", "rel"), digits.table("val", "scenes")
    scene = table["scene"].array[rows]
    assert x.batch_size == y.batch_size == torch.Size([4])
    assert set(x.keys()) == {
        *("regions", "boxes", "mask", "scene", "sample"),
        *("box", "relation", "direction"),
    }
    assert x["sample"].tolist() == rows.tolist()
    assert set(y.keys()) == {"target", "satisfying", "task"}
    assert x["scene"].tolist() == (300 + scene).tolist()  # after the training scenes
    assert np.array_equal(x["regions"].numpy(), scenes["regions"].array[scene])
    assert np.array_equal(x["mask"].numpy(), scenes["mask"].array[scene])
    assert np.array_equal(x["relation"].numpy(), table["relation"].array[rows])
    assert np.array_equal(y["satisfying"].numpy(), table["satisfying"].array[rows])


def test_types_are_those_that_losses_expect(digits: Store) -> None:
    x, y = make(digits, AnswerTask())[np.arange(3)]
    assert x["regions"].dtype == x["boxes"].dtype == y["scores"].dtype == torch.float32
    assert x["question"].dtype == y["answers"].dtype == torch.int64
    assert x["mask"].dtype == torch.bool


def test_one_sample_is_a_row_of_a_batch(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    one, many = batches[5], batches[np.array([5, 6])]
    assert one[0].batch_size == torch.Size([])
    assert same(one, (many[0][0], many[1][0]))


def test_memory_map_and_memory_give_the_same(digits: Store) -> None:
    rows = np.arange(0, 400, 7)
    mapped = make(digits, AnswerTask(), in_memory=False)
    assert same(make(digits, AnswerTask())[rows], mapped[rows])
    assert mapped[rows][0]["regions"].dtype == torch.float32


def test_half_leaves_mapped_regions_as_they_are_stored(digits: Store) -> None:
    samples = Samples.whole(digits, "val", AnswerTask())
    half = Batches(samples, Scenes(digits, "val", in_memory=False, half=True))
    rows = np.arange(10)
    assert half[rows][0]["regions"].dtype == torch.float16
    assert same(half[rows], make(digits, AnswerTask())[rows])


def test_a_batch_says_which_task_it_is_of(digits: Store) -> None:
    samples = Samples.whole(digits, "val", AnswerTask())
    _, y = Batches(samples, Scenes(digits, "val"), task_label=5)[np.arange(3)]
    assert y["task"].tolist() == [5, 5, 5]


def test_small_worlds_are_read_into_memory_and_large_ones_are_not(
    digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 50 scenes of 24 regions, each 128 features, 4 coordinates and a mask, as 4 bytes
    size = 50 * 24 * (128 + 4 + 1) * 4
    monkeypatch.setattr("pmn_cl.data.loader.MEMORY_LIMIT", size)
    assert Scenes(digits, "val").in_memory
    monkeypatch.setattr("pmn_cl.data.loader.MEMORY_LIMIT", size - 1)
    assert not Scenes(digits, "val").in_memory


def rows_in_order(batches: Batches, **options: int) -> list[list[int]]:
    """The samples of each batch, recognised by their place in the table."""
    loader = BatchLoader(batches, 64, **options)
    return [rows.tolist() for rows in loader._rows]


def test_an_epoch_has_every_sample_once_in_an_order_of_its_own(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    first = rows_in_order(batches, seed=1, epoch=0)
    assert sorted(itertools.chain(*first)) == list(range(len(batches)))
    assert [len(rows) for rows in first] == [64] * 7 + [52]  # 500 questions
    assert first == rows_in_order(batches, seed=1, epoch=0)
    assert first != rows_in_order(batches, seed=1, epoch=1)
    assert first != rows_in_order(batches, seed=2, epoch=0)
    assert rows_in_order(batches, seed=1, epoch=1) != rows_in_order(batches, seed=2, epoch=0)


def test_starting_at_a_batch_gives_the_rest_of_the_epoch(digits: Store) -> None:
    batches = make(digits, ObjectTask())
    whole = list(BatchLoader(batches, 8, seed=3, epoch=2))
    rest = list(BatchLoader(batches, 8, seed=3, epoch=2, start=4))
    assert len(whole) == 7
    assert len(rest) == len(BatchLoader(batches, 8, start=4)) == 3
    assert all(same(a, b) for a, b in zip(whole[4:], rest, strict=True))


@pytest.mark.parametrize("start", [-1, 8, 99])
def test_a_start_outside_the_epoch_is_refused(digits: Store, start: int) -> None:
    batches = make(digits, ObjectTask())
    assert len(BatchLoader(batches, 8, start=7)) == 0  # an epoch that was just finished
    with pytest.raises(ValueError, match="0 to 7 batches"):
        BatchLoader(batches, 8, start=start)


def by_scene(batches: Batches, size: int, **given: Any) -> list[Pair]:
    return list(BatchLoader(batches, size, by_scene=True, **given))


def told_apart(epoch: list[Pair]) -> tuple[list[int], list[int]]:
    """The samples of an epoch in their order, and the scene of each."""
    samples, scenes = ([int(n) for x, _ in epoch for n in x[what]] for what in ("sample", "scene"))
    return samples, scenes


@pytest.mark.parametrize("percent", [100, 23])  # all questions of a scene, and some
@pytest.mark.parametrize("size", [16, 50, 1000])
def test_by_scene_an_epoch_has_every_sample_once_and_those_of_a_scene_together(
    size: int, percent: float, digits: Store
) -> None:
    samples = Samples.whole(digits, "val", AnswerTask()).fraction(percent, seed=0)
    batches = Batches(samples, Scenes(digits, "val"))
    epoch = by_scene(batches, size, seed=4, epoch=1)
    rows, scenes = told_apart(epoch)
    assert sorted(rows) == list(range(len(batches)))
    runs = [scene for scene, _ in itertools.groupby(scenes)]
    assert len(runs) == len(set(scenes))  # no scene comes back
    for _, run in itertools.groupby(zip(rows, scenes, strict=True), key=lambda pair: pair[1]):
        within = [row for row, _ in run]
        assert within == sorted(within)
    assert [len(x) for x, _ in epoch] == [len(x) for x, _ in BatchLoader(batches, size, seed=4)]
    assert runs != sorted(runs)
    stored = samples.columns["scene"]
    assert [300 + stored[row] for row in rows] == scenes  # each sample with its own


def test_by_scene_the_order_depends_on_seed_and_epoch_alone(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    orders = {
        (seed, epoch): told_apart(by_scene(batches, 32, seed=seed, epoch=epoch))[0]
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len({tuple(order) for order in orders.values()}) == 4
    torch.manual_seed(9)
    np.random.seed(9)
    for (seed, epoch), order in orders.items():
        assert told_apart(by_scene(batches, 70, seed=seed, epoch=epoch))[0] == order


@pytest.mark.parametrize("start", [1, 7, 15])
def test_by_scene_starting_at_a_batch_gives_the_rest_of_the_epoch(
    start: int, digits: Store
) -> None:
    batches = make(digits, AnswerTask())
    whole = by_scene(batches, 32, seed=3, epoch=2)
    rest = by_scene(batches, 32, seed=3, epoch=2, start=start)
    assert len(rest) == len(whole) - start > 0
    assert all(same(one, other) for one, other in zip(whole[start:], rest, strict=True))


def test_without_shuffling_scenes_stay_in_the_tables_order(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    assert told_apart(by_scene(batches, 32, shuffle=False))[0] == list(range(len(batches)))


def test_without_shuffling_the_order_is_the_tables(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    x, y = next(iter(BatchLoader(batches, 10, shuffle=False)))
    assert same((x, y), batches[np.arange(10)])


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_same_batches(digits: Store, in_memory: bool, workers: int) -> None:
    batches = make(digits, AnswerTask(), in_memory=in_memory)
    alone = list(BatchLoader(batches, 48, seed=5, workers=0))
    helped = list(BatchLoader(batches, 48, seed=5, workers=workers))
    assert len(alone) == len(helped) == 11  # 500 questions
    assert all(same(a, b) for a, b in zip(alone, helped, strict=True))


def test_scenes_from_the_file_are_read_ahead_and_those_in_memory_are_not(
    digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_here: list[bool] = []
    take = Scenes.take

    def noted(scenes: Scenes, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        read_here.append(threading.current_thread() is threading.main_thread())
        return take(scenes, rows)

    monkeypatch.setattr(Scenes, "take", noted)
    mapped = list(BatchLoader(make(digits, ObjectTask(), in_memory=False), 25))
    in_memory = list(BatchLoader(make(digits, ObjectTask()), 25))
    assert read_here == [False, False, True, True]
    assert all(same(a, b) for a, b in zip(mapped, in_memory, strict=True))


class Spoiled(Batches):
    """Notes what is read, and cannot read one of the samples."""

    spoiled = -1

    def __getitem__(self, index: int | Rows | torch.Tensor) -> Batch:
        rows = torch.as_tensor(index).tolist()
        self.__dict__.setdefault("read", []).append(rows)
        if self.spoiled in rows:
            raise OSError("a scratch on the disk")
        return super().__getitem__(index)


def make_spoiled(store: Store, spoiled: int = -1) -> Spoiled:
    batches = Spoiled(
        Samples.whole(store, "val", AnswerTask()), Scenes(store, "val", in_memory=False)
    )
    batches.spoiled = spoiled
    return batches


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_comes_in_the_place_of_its_batch(digits: Store, workers: int) -> None:
    threads = threading.active_count()
    loader = iter(BatchLoader(make_spoiled(digits, 35), 10, shuffle=False, workers=workers))
    assert [next(loader)[0]["sample"][0].item() for _ in range(3)] == [0, 10, 20]
    with pytest.raises(OSError, match="scratch"):
        next(loader)
    assert threading.active_count() == threads


def test_readers_are_a_few_batches_ahead_and_end_when_nobody_listens(digits: Store) -> None:
    threads = threading.active_count()
    batches = make_spoiled(digits)
    loader = iter(BatchLoader(batches, 10, shuffle=False, workers=2))
    assert threading.active_count() == threads  # none before somebody asks
    for _ in range(3):
        next(loader)
    assert threading.active_count() == threads + 2
    del loader
    assert threading.active_count() == threads
    read = batches.__dict__["read"]
    assert 3 <= len(read) <= 3 + 2  # a batch for each reader
    assert sorted(rows[0] for rows in read) == [10 * place for place in range(len(read))]
    list(BatchLoader(batches, 10, workers=2))
    assert threading.active_count() == threads


def test_a_process_may_be_forked_after_an_epoch_and_end_in_the_middle_of_one(digits: Store) -> None:
    """A child has none of its parent's threads: it must start its own."""
    script = f"""
import os
from pathlib import Path
import torch
from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.tasks.answers import AnswerTask

torch.set_num_threads(1)
store = Store(Path({str(digits.path)!r}))
scenes = Scenes(store, "val", in_memory=False)
batches = Batches(Samples.whole(store, "val", AnswerTask()), scenes)
first = [x["regions"] for x, _ in BatchLoader(batches, 20)]
child = os.fork()
if child == 0:
    again = [x["regions"] for x, _ in BatchLoader(batches, 20)]
    os._exit(0 if len(again) == 25 and all(map(torch.equal, first, again)) else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
half_way = iter(BatchLoader(batches, 20))
next(half_way)
print("done")
"""
    here = Path(__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=here)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_reading_ahead_draws_no_random_numbers(digits: Store) -> None:
    """A run that was cut off reads part of an epoch again: what it draws must not depend on it."""
    torch.manual_seed(3)
    before = torch.get_rng_state()
    list(BatchLoader(make(digits, ObjectTask(), in_memory=False), 25, workers=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_regions_are_converted_a_few_at_a_time(
    digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = 24 * 128 * 2  # bytes of its regions
    monkeypatch.setattr("pmn_cl.data.loader._CONVERTED_AT_ONCE", 3 * scene)
    scenes = torch.tensor([7, 0, 49, 7, 8, 9, 1])  # as three, three and one
    taken = Scenes(digits, "val", in_memory=False).take(scenes)["regions"]
    column = digits.table("val", "scenes")["regions"]
    assert np.array_equal(taken.numpy(), column.array[scenes.numpy()].astype(np.float32))


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("scene", [-1, 50])
def test_a_scene_that_is_not_there_is_refused(digits: Store, scene: int, half: bool) -> None:
    scenes = Scenes(digits, "val", in_memory=False, half=half)
    with pytest.raises(IndexError, match="of a column of 50"):
        scenes.take(torch.tensor([3, scene]))


def test_memory_is_used_again_only_when_nobody_holds_it() -> None:
    recycled = _Recycled(most=2)
    dtype = np.dtype(np.float32)
    held = torch.from_numpy(recycled.array((2, 3), dtype))
    place = held.data_ptr()
    row = held.fill_(1.0)[1]
    del held
    other = recycled.array((2, 3), dtype)  # the row is still held
    other.fill(2.0)
    assert row.tolist() == [1.0, 1.0, 1.0]
    as_numpy = row.numpy()
    del row
    third = recycled.array((2, 3), dtype)
    third.fill(3.0)
    assert as_numpy.tolist() == [1.0, 1.0, 1.0]
    del as_numpy
    again = recycled.array((5,), np.dtype(np.float16))  # smaller: it fits
    assert again.ctypes.data == place
    del again
    assert recycled.array((7,), dtype).ctypes.data != place  # larger: it does not


def test_batches_that_are_kept_stay_as_they_are(digits: Store) -> None:
    batches = make(digits, AnswerTask(), in_memory=False)
    kept = [x["regions"] for x, _ in BatchLoader(batches, 40, seed=2)][::3]
    before = [regions.clone() for regions in kept]
    for _ in range(2 * READERS):
        list(BatchLoader(batches, 40, seed=3))
    assert all(torch.equal(a, b) for a, b in zip(kept, before, strict=True))


def test_a_column_is_in_memory_once(digits: Store) -> None:
    one, other = (Scenes(digits, "val", in_memory=True) for _ in range(2))
    held = [scenes._columns["regions"] for scenes in (one, other)]
    assert held[0] is held[1]


def test_a_freshly_started_process_can_read_what_it_is_handed(digits: Store) -> None:
    """Pickled, mapped scenes take their path along, not their data."""
    batches = make(digits, AnswerTask(), in_memory=False)
    rows = np.arange(20)
    before = batches[rows]
    handed = pickle.dumps(batches)
    regions = digits.table("val", "scenes")["regions"].nbytes
    assert same(pickle.loads(handed)[rows], before)
    assert len(handed) < regions
