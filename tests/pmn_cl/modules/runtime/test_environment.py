"""The environment: what is refused, what modules see of it, and parts of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.environment import Environment, select
from pmn_cl.modules.runtime.trace import Trace

Batch = Callable[..., dict[str, Tensor]]


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
    env = Environment.of(padded(batch()))
    found = env.mean_of(env.regions)
    for b, count in enumerate((5, 3, 4)):
        expected = sum(batch()["regions"][b, i] for i in range(count)) / count
        assert torch.allclose(found[b], expected, atol=1e-6)


def test_rows_are_the_environments_of_some_samples(batch: Batch) -> None:
    env = Environment.of(batch(), trace=Trace())
    env.results[0, "x"] = torch.zeros(3)
    some = env.rows(torch.tensor([2, 0]))
    assert len(some) == 2
    assert torch.equal(some.regions, env.regions[[2, 0]])
    assert torch.equal(some["question"], env["question"][[2, 0]])
    assert some.trace is None
    assert some.results == {}  # results about all must not be taken for those about these


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
