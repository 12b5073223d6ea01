"""The memory: what is worked out once, what is kept, and with which bits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pmn_cl import registry
from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import recall
from pmn_cl.modules.runtime.memory import Memory


class Owner(nn.Module):
    """Has results; frozen when it has an identity."""

    def __init__(self, identity: str | None = "frozen") -> None:
        super().__init__()
        self.identity = identity


class Finder:
    """Works out the mean of each region's features, and notes how many scenes it looked at."""

    def __init__(self) -> None:
        self.looked: list[int] = []

    def __call__(self, env: Environment) -> Tensor:
        self.looked.append(len(env))
        return env.regions.mean(2)


def batches_of(digits: Store, split: str, task: str = "rel") -> Batches:
    samples = Samples.whole(digits, split, registry.load(registry.TASKS[task])())
    return Batches(samples, Scenes(digits, split))


def through(batches: Batches, memory: Memory | None, size: int, epoch: int = 0) -> list[Any]:
    """Environments of all samples in an order that the epoch decides."""
    loader = BatchLoader(batches, size, epoch=epoch)
    return [Environment.of(x, memory) for x, _ in loader]


def test_every_scene_is_looked_at_once(digits: Store) -> None:
    memory, find, owner = Memory(), Finder(), Owner()
    batches = batches_of(digits, "train")
    memory.attach(batches.scenes)
    for epoch in (0, 1):
        for env in through(batches, memory, 50, epoch):
            recall(env, owner, "mean", find)
        # One scene alone may be looked at first, for the shape of what is found.
        assert sum(count for count in find.looked if count > 1) == len(batches.scenes) == 300
        assert len(find.looked) < len(batches) / 50  # scenes come in blocks, not one by one


def test_what_is_remembered_is_what_is_found(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    batches = batches_of(digits, "train")
    memory.attach(batches.scenes)
    for env in through(batches, memory, 50):
        found = recall(env, owner, "mean", Finder())
        assert torch.allclose(found, env.scenes.regions.mean(2), atol=1e-5)


def test_findings_have_the_same_bits_in_whatever_order_scenes_come(digits: Store) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(128, 33)  # whose rounding depends on how many rows are multiplied at once

    def find(env: Environment) -> Tensor:
        return layer(env.regions).tanh()

    kept: list[dict[int, Tensor]] = []
    batches = batches_of(digits, "train")
    for size, epoch in ((50, 0), (7, 1), (1000, 2)):
        memory, owner, seen = Memory(), Owner(), {}
        memory.attach(batches.scenes)
        for env in through(batches, memory, size, epoch):
            found = recall(env, owner, "named", find)
            seen.update(zip(env.scenes["scene"].tolist(), found, strict=True))
        kept.append(seen)
    assert kept[0].keys() == kept[1].keys() == kept[2].keys()
    for scene, found in kept[0].items():
        assert torch.equal(found, kept[1][scene])
        assert torch.equal(found, kept[2][scene])


def test_beyond_its_limit_a_memory_keeps_nothing_and_is_right(digits: Store) -> None:
    batches = batches_of(digits, "val")
    one_table = len(batches.scenes) * 24 * 4  # 50 scenes, 24 regions, 4 bytes
    for limit, kept in ((one_table, True), (one_table - 1, False)):
        memory, find, owner = Memory(limit=limit), Finder(), Owner()
        memory.attach(batches.scenes)
        looks = []
        for epoch in (0, 1):
            for env in through(batches, memory, 50, epoch):
                found = recall(env, owner, "mean", find)
                assert torch.allclose(found, env.scenes.regions.mean(2), atol=1e-5)
            looks.append(len(find.looked))
        assert (looks[0] == looks[1]) == kept


def test_a_limit_is_for_all_findings_together(digits: Store) -> None:
    batches = batches_of(digits, "val")
    memory, owner = Memory(limit=len(batches.scenes) * 24 * 4), Owner()
    memory.attach(batches.scenes)
    one, other = Finder(), Finder()
    for epoch in (0, 1):
        for env in through(batches, memory, 50, epoch):
            recall(env, owner, "one", one)
            recall(env, owner, "other", other)
    assert sum(count for count in one.looked if count > 1) == len(batches.scenes)
    assert sum(count for count in other.looked if count > 1) > 2 * len(batches.scenes)


def test_two_splits_do_not_mix(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    splits = [batches_of(digits, split) for split in ("train", "val", "test")]
    for batches in splits:
        memory.attach(batches.scenes)
    environments = [through(batches, memory, 64) for batches in splits]
    for together in zip(*environments, strict=False):  # in turn, a batch of each
        for env in together:
            found = recall(env, owner, "mean", Finder())
            assert torch.allclose(found, env.scenes.regions.mean(2), atol=1e-5)


def test_a_batch_from_two_splits_is_answered_rightly(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    parts = []
    for split in ("train", "val"):
        batches = batches_of(digits, split)
        memory.attach(batches.scenes)
        parts.append(batches[torch.arange(5)][0])
    env = Environment.of(torch.cat(parts), memory)
    found = recall(env, owner, "mean", Finder())
    assert torch.allclose(found, env.scenes.regions.mean(2), atol=1e-5)


def test_scenes_that_nobody_attached_are_answered_rightly(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    memory.attach(Scenes(digits, "train"))
    for env in through(batches_of(digits, "novel"), memory, 100):
        found = recall(env, owner, "mean", Finder())
        assert torch.allclose(found, env.scenes.regions.mean(2), atol=1e-5)


def test_owners_and_things_are_remembered_apart(digits: Store) -> None:
    batches, memory = batches_of(digits, "val"), Memory()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(8)]
    owners = {"a": Owner("a"), "b": Owner("b")}
    for name, owner in owners.items():
        for number, what in enumerate(("one", "two")):
            value = number + 10 * (name == "b")
            env = Environment.of(x, memory)
            recall(env, owner, what, lambda e, v=value: e.regions.new_full((len(e), 1), v))
    nobody = Finder()
    found = {
        (name, what): recall(Environment.of(x, memory), owner, what, nobody)[0].item()
        for name, owner in owners.items()
        for what in ("one", "two")
    }
    assert nobody.looked == []
    assert found == {("a", "one"): 0, ("a", "two"): 1, ("b", "one"): 10, ("b", "two"): 11}


def test_what_a_learning_module_finds_out_is_not_kept(digits: Store) -> None:
    batches, memory, find = batches_of(digits, "val"), Memory(), Finder()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(40)]
    scenes = len(torch.unique(x["scene"]))
    learning = Owner(identity=None)
    for _ in range(2):
        env = Environment.of(x, memory)
        recall(env, learning, "mean", find)
        recall(env, learning, "mean", find)
    assert find.looked == [scenes, scenes]  # once for a batch, and each of its scenes
    assert 1 < scenes < 40


def test_a_batch_that_does_not_know_its_scenes_is_not_remembered(digits: Store) -> None:
    batches, memory, find = batches_of(digits, "val"), Memory(), Finder()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(8)]
    recall(Environment.of(x.exclude("scene"), memory), Owner(), "mean", find)
    assert find.looked == [8]


def test_what_is_remembered_needs_no_gradient(digits: Store) -> None:
    batches, memory = batches_of(digits, "val"), Memory()
    memory.attach(batches.scenes)
    layer = nn.Linear(128, 2)
    x, _ = batches[torch.arange(8)]
    found = recall(Environment.of(x, memory), Owner(), "x", lambda env: layer(env.regions))
    assert not found.requires_grad
