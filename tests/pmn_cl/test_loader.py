"""Batches: the right rows, in an order that (seed, epoch) decide, however they are read."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from pmn_cl.loader import Batches, BatchLoader, Scenes
from pmn_cl.samples import Samples
from pmn_cl.store import Store
from pmn_cl.tasks import AnswerTask, ObjectTask, RelationTask, Task

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
    monkeypatch.setattr("pmn_cl.loader.MEMORY_LIMIT", size)
    assert Scenes(digits, "val").in_memory
    monkeypatch.setattr("pmn_cl.loader.MEMORY_LIMIT", size - 1)
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


def test_without_shuffling_the_order_is_the_tables(digits: Store) -> None:
    batches = make(digits, AnswerTask())
    x, y = next(iter(BatchLoader(batches, 10, shuffle=False)))
    assert same((x, y), batches[np.arange(10)])


@pytest.mark.parametrize("in_memory", [True, False])
def test_worker_processes_give_the_same_batches(digits: Store, in_memory: bool) -> None:
    batches = make(digits, AnswerTask(), in_memory=in_memory)
    alone = list(BatchLoader(batches, 128, seed=5, workers=0))
    helped = list(BatchLoader(batches, 128, seed=5, workers=2))
    assert len(alone) == len(helped) == 4
    assert all(same(a, b) for a, b in zip(alone, helped, strict=True))


def test_mapped_scenes_are_read_ahead_and_those_in_memory_are_not(
    digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_here: list[int] = []
    take = Scenes.take

    def noted(scenes: Scenes, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        read_here.append(len(rows))
        return take(scenes, rows)

    monkeypatch.setattr(Scenes, "take", noted)
    mapped = list(BatchLoader(make(digits, ObjectTask(), in_memory=False), 25))
    assert read_here == []  # by other processes
    in_memory = list(BatchLoader(make(digits, ObjectTask()), 25))
    assert read_here == [25, 25]
    assert all(same(a, b) for a, b in zip(mapped, in_memory, strict=True))


def test_reading_ahead_draws_no_random_numbers(digits: Store) -> None:
    """A run that was cut off reads part of an epoch again: what it draws must not depend on it."""
    torch.manual_seed(3)
    before = torch.get_rng_state()
    list(BatchLoader(make(digits, ObjectTask(), in_memory=False), 25, workers=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_maps_are_let_go_of_after_so_many_bytes(
    digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = make(digits, ObjectTask(), in_memory=False)
    column = digits.table("val", "scenes")["regions"]
    scene = 24 * (128 * 2 + 4 * 4 + 1)  # bytes: features as halves, corners, mask
    monkeypatch.setattr("pmn_cl.loader._MAPPED_AT_ONCE", 10 * scene)
    column.forget()
    regions = batches[np.arange(10)][0]["regions"]
    assert column._map is not None
    more = batches[np.arange(1)][0]["regions"]  # that is one too many
    assert column._map is None
    assert torch.equal(batches[np.arange(10)][0]["regions"], regions)
    assert torch.equal(more[0], regions[0])


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
