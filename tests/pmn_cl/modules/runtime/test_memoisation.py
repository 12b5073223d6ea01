"""What is worked out once: for each decorator, when it is run again and when it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import (
    SampleQuery,
    SceneQuery,
    ScratchPad,
    once,
    per_batch,
    per_query,
    per_scene,
    per_scene_step,
    per_step,
    recall,
)

Batch = Callable[..., dict[str, Tensor]]


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


def test_of_parts_every_sample_is_looked_at_once(batch: Batch) -> None:
    env, owner, find = Environment.of(batch()), Owner(), Finder()
    for chosen in ([], [2, 0], [0], [1, 2, 1], [0, 1, 2]):
        part = env.rows(torch.tensor(chosen, dtype=torch.long))
        assert torch.equal(recall(part, owner, "mean", find), env.regions[chosen].mean(2))
    part = env.rows(torch.tensor([2, 1])).rows(torch.tensor([1, 1, 0]))  # a part of a part
    assert torch.equal(recall(part, owner, "mean", find), env.regions[[1, 1, 2]].mean(2))
    assert sum(find.looked) == len(env) == 3


def test_parts_know_what_is_known_of_the_whole(batch: Batch) -> None:
    env, owner = Environment.of(batch()), Owner()
    whole = recall(env, owner, "sum", lambda seen: seen.regions.sum(2))
    part = env.rows(torch.tensor([2, 0]))
    assert torch.equal(recall(part, owner, "sum", Finder()), whole[[2, 0]])


def test_a_batch_is_asked_once_for_each_owner_and_thing(batch: Batch) -> None:
    env, find = Environment.of(batch()), Finder()
    one, other = Owner(), Owner()
    for _ in range(3):
        once(env, one, "a", lambda: find(env))
    assert len(find.looked) == 1
    once(env, one, "b", lambda: find(env))
    once(env, other, "a", lambda: find(env))
    assert len(find.looked) == 3


class Part(nn.Module):
    """A part that notes how often its methods are really run."""

    identity = scene_steps = None

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    @per_scene
    def total(self, env: Environment) -> Tensor:
        self.ran.append("total")
        return env.regions.sum((1, 2))

    @per_scene
    def total_for(self, env: Environment, owner: nn.Module) -> Tensor:
        self.ran.append("total_for")
        return env.regions.sum((1, 2))

    @per_batch
    def doubled(self, env: Environment, value: Tensor) -> tuple[Tensor, Tensor]:
        self.ran.append("doubled")
        return value, 2 * value

    @per_step
    def added(self, V: ScratchPad, more: float) -> Tensor:
        self.ran.append("added")
        return torch.stack(list(V.values())).sum(0) + more

    @per_query
    def forward(self, query: Any, env: Environment) -> Tensor:
        self.ran.append("forward")
        return env.regions.sum((1, 2)) if isinstance(query, str) else query.sum((1, 2))

    @per_scene_step
    def step(self, s: Any, t: int, env: Environment) -> Any:
        self.ran.append("step")
        return s if s is not None else t * env.regions.sum((1, 2))


def test_what_depends_on_the_scene_is_worked_out_once_for_a_batch(batch: Batch) -> None:
    part = Part()
    for env in (Environment.of(batch()), Environment.of(batch(seed=1))):
        for _ in range(2):
            assert torch.equal(part.total(env), env.regions.sum((1, 2)))
    assert part.ran == ["total"] * 2


def test_a_part_works_once_for_each_module_that_uses_it(batch: Batch) -> None:
    part, env, owners = Part(), Environment.of(batch()), (Part(), Part())
    for owner in (*owners, *owners):
        part.total_for(env, owner)
    assert part.ran == ["total_for"] * 2


def test_what_is_the_same_throughout_a_batch_is_worked_out_once(batch: Batch) -> None:
    part, env, value = Part(), Environment.of(batch()), torch.arange(3)
    assert [x.tolist() for x in part.doubled(env, value)] == [[0, 1, 2], [0, 2, 4]]
    assert part.doubled(env, value)[1] is part.doubled(env, value)[1]
    part.doubled(Environment.of(batch()), value)
    assert part.ran == ["doubled"] * 2


def test_what_depends_on_the_pad_is_forgotten_with_it() -> None:
    part = Part()
    for value in (1.0, 2.0):
        V = ScratchPad()
        V["a"] = torch.tensor([value])
        assert [part.added(V, 0.5).item() for _ in range(2)] == [value + 0.5] * 2
        assert list(V) == ["a"]  # nothing but what callees answered stands on the pad
    assert part.ran == ["added"] * 2


@pytest.mark.parametrize("query", [SceneQuery("all"), SampleQuery("own"), "regions"])
def test_queries_that_say_nothing_of_their_own_are_answered_once(query: Any, batch: Batch) -> None:
    part, env = Part(), Environment.of(batch())
    asked = env.regions if query == "regions" else query
    for _ in range(2):
        assert torch.equal(part(asked, env), env.regions.sum((1, 2)))
    assert part.ran == ["forward"]


def test_other_queries_are_answered_each_time(batch: Batch) -> None:
    part, env = Part(), Environment.of(batch())
    for query in (env.regions[:, :1], env.regions[:, :1], env.regions.clone()):
        assert torch.equal(part(query, env), query.sum((1, 2)))
    assert part.ran == ["forward"] * 3


def test_steps_that_see_the_scene_alone_are_taken_once_and_get_no_state(batch: Batch) -> None:
    part, env, state = Part(), Environment.of(batch()), torch.zeros(3)
    assert part.step(state, 1, env) is state
    part.scene_steps = True
    for t in (1, 2, 1):
        assert torch.equal(part.step(state, t, env), t * env.regions.sum((1, 2)))
    assert part.ran == ["step"] * 3
