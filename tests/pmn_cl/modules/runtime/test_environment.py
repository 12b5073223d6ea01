"""The environment and its memory: what is refused, what is worked out once, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from pmn_cl import registry
from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.environment import Environment, Memory, products, select, weighted_sum
from pmn_cl.modules.runtime.trace import Trace

Batch = Callable[..., dict[str, Tensor]]


class Owner(nn.Module):
    """Somebody who finds things out; frozen when it has an identity."""

    def __init__(self, identity: str | None = "frozen") -> None:
        super().__init__()
        self.identity = identity


class Finder:
    """Finds out the mean of each region's features, and notes how many scenes it looked at."""

    def __init__(self) -> None:
        self.looked: list[int] = []

    def __call__(self, env: Environment) -> Tensor:
        self.looked.append(len(env))
        return env.regions.mean(2)


def test_a_batch_that_lacks_its_scenes_is_refused(batch: Batch) -> None:
    x = batch()
    del x["boxes"], x["mask"]
    with pytest.raises(UserError, match=r"no boxes, mask; it has .*question, regions"):
        Environment.of(x)


def test_a_scene_without_regions_is_refused(batch: Batch) -> None:
    x = batch()
    x["mask"][1] = False
    with pytest.raises(UserError, match="a scene has no regions"):
        Environment.of(x)


def test_scenes_of_no_regions_at_all_are_refused(batch: Batch) -> None:
    x = batch()
    none = {name: x[name][:, :0] for name in ("regions", "boxes", "mask")}
    with pytest.raises(UserError, match="a scene has no regions"):
        Environment.of({**x, **none})


def test_a_field_that_is_not_there_is_named_with_those_that_are(batch: Batch) -> None:
    env = Environment.of(batch())
    assert torch.equal(env["question"], batch()["question"])
    with pytest.raises(UserError, match="no field 'words'; it has regions, boxes, mask, box"):
        env["words"]


def test_attention_is_on_what_is_there(batch: Batch) -> None:
    env = Environment.of(batch())
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    attention = env.softmax(logits)
    for b, count in enumerate((5, 3, 4)):
        expected = logits[b, :count].exp() / logits[b, :count].exp().sum()
        assert torch.allclose(attention[b, :count], expected)
        assert (attention[b, count:] == 0).all()
        seen = sum(attention[b, i] * env.regions[b, i] for i in range(count))
        assert torch.allclose(env.attended(attention)[b], seen, atol=1e-6)


def test_the_mean_region_leaves_padding_out(
    batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    found = Environment.of(padded(batch())).mean_region()
    for b, count in enumerate((5, 3, 4)):
        expected = sum(batch()["regions"][b, i] for i in range(count)) / count
        assert torch.allclose(found[b], expected, atol=1e-6)


@pytest.mark.parametrize("width", [3, 256, 257, 400])  # wide vectors are multiplied differently
def test_sums_and_products_at_every_width(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    vectors = torch.randn(2, 4, width, generator=generator, dtype=torch.float64)
    key = torch.randn(2, width, generator=generator, dtype=torch.float64)
    for b in range(2):
        total = sum(weights[b, i] * vectors[b, i] for i in range(4))
        assert torch.allclose(weighted_sum(weights, vectors)[b], total)
        dots = [float((key[b] * vectors[b, i]).sum()) for i in range(4)]
        assert products(key, vectors)[b].tolist() == pytest.approx(dots)


@pytest.mark.parametrize("learns", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("width", [3, 257])
def test_gradients_of_products_are_those_of_finite_differences(
    width: int, learns: tuple[bool, bool]
) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, width), (2, 3, width))
    drawn = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    key, vectors = (x.requires_grad_(needed) for x, needed in zip(drawn, learns, strict=True))
    assert torch.autograd.gradcheck(products, (key, vectors), fast_mode=True)
    assert torch.autograd.gradgradcheck(products, (key, vectors), fast_mode=True)
    products(key, vectors).sum().backward()
    assert [x.grad is not None for x in (key, vectors)] == list(learns)


def test_rows_are_the_environments_of_some_samples(batch: Batch) -> None:
    env = Environment.of(batch(), trace=Trace())
    env.once(env_owner := Owner(), "x", lambda: torch.zeros(3))
    some = env.rows(torch.tensor([2, 0]))
    assert len(some) == 2
    assert torch.equal(some.regions, env.regions[[2, 0]])
    assert torch.equal(some["question"], env["question"][[2, 0]])
    assert some.trace is None
    # What was found out about all must not be taken for what there is to know of these.
    assert len(some.once(env_owner, "x", lambda: torch.zeros(2))) == 2


def test_of_parts_every_sample_is_looked_at_once(batch: Batch) -> None:
    env, owner, find = Environment.of(batch()), Owner(), Finder()
    for chosen in ([], [2, 0], [0], [1, 2, 1], [0, 1, 2]):
        part = env.rows(torch.tensor(chosen, dtype=torch.long))
        assert torch.equal(part.recall(owner, "mean", find), env.regions[chosen].mean(2))
    part = env.rows(torch.tensor([2, 1])).rows(torch.tensor([1, 1, 0]))  # a part of a part
    assert torch.equal(part.recall(owner, "mean", find), env.regions[[1, 1, 2]].mean(2))
    assert sum(find.looked) == len(env) == 3


def test_parts_know_what_is_known_of_the_whole(batch: Batch) -> None:
    env, owner = Environment.of(batch()), Owner()
    whole = env.recall(owner, "sum", lambda seen: seen.regions.sum(2))
    part = env.rows(torch.tensor([2, 0]))
    assert torch.equal(part.recall(owner, "sum", Finder()), whole[[2, 0]])


def test_a_batch_is_asked_once_for_each_owner_and_thing(batch: Batch) -> None:
    env, find = Environment.of(batch()), Finder()
    one, other = Owner(), Owner()
    for _ in range(3):
        env.once(one, "a", lambda: find(env))
    assert len(find.looked) == 1
    env.once(one, "b", lambda: find(env))
    env.once(other, "a", lambda: find(env))
    assert len(find.looked) == 3


def test_rows_of_queries() -> None:
    class Pair(NamedTuple):
        one: Tensor
        other: Tensor

    chosen = torch.tensor([2, 0])
    found = select(Pair(torch.arange(3), torch.arange(6).view(3, 2)), chosen)
    assert isinstance(found, Pair)
    assert found.one.tolist() == [2, 0]
    assert found.other.tolist() == [[4, 5], [0, 1]]
    assert select(torch.arange(3), chosen).tolist() == [2, 0]
    assert select(None, chosen) is None
    assert select("greedy", chosen) == "greedy"


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
            env.recall(owner, "mean", find)
        # One scene alone may be looked at first, for the shape of what is found.
        assert sum(count for count in find.looked if count > 1) == len(batches.scenes) == 300
        assert len(find.looked) < len(batches) / 50  # scenes come in blocks, not one by one


def test_what_is_remembered_is_what_is_found(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    batches = batches_of(digits, "train")
    memory.attach(batches.scenes)
    for env in through(batches, memory, 50):
        assert torch.allclose(env.recall(owner, "mean", Finder()), env.regions.mean(2), atol=1e-5)


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
            found = env.recall(owner, "named", find)
            seen.update(zip(env["scene"].tolist(), found, strict=True))
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
                found = env.recall(owner, "mean", find)
                assert torch.allclose(found, env.regions.mean(2), atol=1e-5)
            looks.append(len(find.looked))
        assert (looks[0] == looks[1]) == kept


def test_a_limit_is_for_all_findings_together(digits: Store) -> None:
    batches = batches_of(digits, "val")
    memory, owner = Memory(limit=len(batches.scenes) * 24 * 4), Owner()
    memory.attach(batches.scenes)
    one, other = Finder(), Finder()
    for epoch in (0, 1):
        for env in through(batches, memory, 50, epoch):
            env.recall(owner, "one", one)
            env.recall(owner, "other", other)
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
            found = env.recall(owner, "mean", Finder())
            assert torch.allclose(found, env.regions.mean(2), atol=1e-5)


def test_a_batch_from_two_splits_is_answered_rightly(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    parts = []
    for split in ("train", "val"):
        batches = batches_of(digits, split)
        memory.attach(batches.scenes)
        parts.append(batches[torch.arange(5)][0])
    env = Environment.of(torch.cat(parts), memory)
    found = env.recall(owner, "mean", Finder())
    assert torch.allclose(found, env.regions.mean(2), atol=1e-5)


def test_scenes_that_nobody_attached_are_answered_rightly(digits: Store) -> None:
    memory, owner = Memory(), Owner()
    memory.attach(Scenes(digits, "train"))
    for env in through(batches_of(digits, "novel"), memory, 100):
        found = env.recall(owner, "mean", Finder())
        assert torch.allclose(found, env.regions.mean(2), atol=1e-5)


def test_owners_and_things_are_remembered_apart(digits: Store) -> None:
    batches, memory = batches_of(digits, "val"), Memory()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(8)]
    owners = {"a": Owner("a"), "b": Owner("b")}
    for name, owner in owners.items():
        for number, what in enumerate(("one", "two")):
            value = number + 10 * (name == "b")
            Environment.of(x, memory).recall(
                owner, what, lambda env, v=value: env.regions.new_full((len(env), 1), v)
            )
    nobody = Finder()
    found = {
        (name, what): Environment.of(x, memory).recall(owner, what, nobody)[0].item()
        for name, owner in owners.items()
        for what in ("one", "two")
    }
    assert nobody.looked == []
    assert found == {("a", "one"): 0, ("a", "two"): 1, ("b", "one"): 10, ("b", "two"): 11}


def test_what_a_learning_module_finds_out_is_not_kept(digits: Store) -> None:
    batches, memory, find = batches_of(digits, "val"), Memory(), Finder()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(8)]
    learning = Owner(identity=None)
    for _ in range(2):
        env = Environment.of(x, memory)
        env.recall(learning, "mean", find)
        env.recall(learning, "mean", find)
    assert find.looked == [8, 8]  # once for a batch


def test_a_batch_that_does_not_know_its_scenes_is_not_remembered(digits: Store) -> None:
    batches, memory, find = batches_of(digits, "val"), Memory(), Finder()
    memory.attach(batches.scenes)
    x, _ = batches[torch.arange(8)]
    Environment.of(x.exclude("scene"), memory).recall(Owner(), "mean", find)
    assert find.looked == [8]


def test_what_is_remembered_needs_no_gradient(digits: Store) -> None:
    batches, memory = batches_of(digits, "val"), Memory()
    memory.attach(batches.scenes)
    layer = nn.Linear(128, 2)
    x, _ = batches[torch.arange(8)]
    found = Environment.of(x, memory).recall(Owner(), "x", lambda env: layer(env.regions))
    assert not found.requires_grad
