"""Modules as such: frozen means frozen, and identities say what a module is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.caption import GREEDY
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.task_module import ModulePlan, digest_of, identity_of

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]


def buffers(module: nn.Module) -> list[Tensor]:
    return [buffer.clone() for buffer in module.buffers()]


def test_a_frozen_module_does_not_go_into_training_mode(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    cap = modules(plan(), frozen=["obj", "att", "cap"])["cap"]
    cap.train()
    assert not any(part.training for part in cap.modules())


def test_running_statistics_of_a_frozen_module_stay(
    plan: Callable[..., ModulePlan], modules: Modules, batch: Batch
) -> None:
    cap = modules(plan(), frozen=["obj", "att", "cap"])["cap"]
    before = buffers(cap)
    assert before  # M_cap has batch norm in its receivers
    cap.train()
    cap(GREEDY, Environment.of(batch()))
    assert all(map(torch.equal, before, cap.buffers()))


def test_running_statistics_of_a_learning_module_move(
    plan: Callable[..., ModulePlan], modules: Modules, batch: Batch
) -> None:
    """Else the test above would show nothing."""
    cap = modules(plan())["cap"]
    before = buffers(cap)
    cap.train()
    cap(GREEDY, Environment.of(batch()))
    assert not all(map(torch.equal, before, cap.buffers()))


def test_freezing_takes_gradients_away(
    plan: Callable[..., ModulePlan], modules: Modules, batch: Batch
) -> None:
    obj = modules(plan())["obj"]
    env = Environment.of(batch())
    obj(obj.own_query(env), env).sum().backward()
    obj.freeze()
    assert all(p.grad is None and not p.requires_grad for p in obj.parameters())


def test_an_unfrozen_module_learns_again(plan: Callable[..., ModulePlan], modules: Modules) -> None:
    cap = modules(plan(), frozen=["obj", "att", "cap"])["cap"]
    cap.unfreeze()
    assert cap.identity is None
    assert all(p.requires_grad for p in cap.parameters())
    assert all(part.training for part in cap.modules())
    cap.eval()
    assert not any(part.training for part in cap.modules())


def test_freezing_again_gives_the_same_identity(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    cap = modules(plan(), frozen=["obj", "att", "cap"])["cap"]
    identity = cap.identity
    cap.unfreeze()
    cap.freeze()
    assert cap.identity == identity


def test_every_parameter_and_every_buffer_is_in_the_digest(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    cap = modules(plan())["cap"]
    seen = {digest_of(cap)}
    named = [*cap.named_parameters(), *cap.named_buffers()]
    for _, value in named:
        with torch.no_grad():
            value.view(-1)[-1] += 1
        seen.add(digest_of(cap))
    assert any(name.endswith("running_mean") for name, _ in named)
    assert len(seen) == 1 + len(named)


def test_the_smallest_change_changes_the_digest(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    obj = modules(plan())["obj"]
    before = digest_of(obj)
    with torch.no_grad():
        weight = obj.project.weight
        weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(torch.inf))
    assert digest_of(obj) != before


def test_equal_weights_give_equal_digests(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    one, other = modules(plan(), seed=3), modules(plan(), seed=3)
    assert {n: digest_of(m) for n, m in one.items()} == {n: digest_of(m) for n, m in other.items()}
    assert digest_of(one["obj"]) != digest_of(modules(plan(), seed=4)["obj"])


def test_type_and_shape_are_in_the_digest() -> None:
    """The same bytes of another shape or type are another module."""

    def holding(value: Tensor) -> str:
        module = nn.Module()
        module.register_buffer("value", value)
        return digest_of(module)

    zeros = [torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(6, dtype=torch.int32)]
    assert len({holding(value) for value in zeros}) == 3


def test_identity_follows_callees_however_deep(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    made = modules(plan())
    before = {name: identity_of(module) for name, module in made.items()}
    with torch.no_grad():
        made["att"].project.bias[0] += 1
    after = {name: identity_of(module) for name, module in made.items()}
    changed = {name for name in made if before[name] != after[name]}
    assert changed == {"att", "rel", "cap", "cnt", "vqa"}  # all that call M_att, directly or not
    assert digest_of(made["vqa"]) == digest_of(modules(plan())["vqa"])


def test_callees_are_neither_trained_counted_nor_saved_with_their_caller(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    made = modules(plan())
    own = {id(p) for p in made["vqa"].parameters()}
    for name in ("obj", "att", "rel", "cnt", "cap"):
        assert own.isdisjoint(id(p) for p in made[name].parameters())
    names = [name for name, _ in (*made["vqa"].named_parameters(), *made["vqa"].named_buffers())]
    derived = "own_asking.question.vector_of"  # from the words' names: nothing to save
    assert sorted([*made["vqa"].state_dict(), derived]) == sorted(names)


def test_a_module_without_parts_to_share_says_so(
    plan: Callable[..., ModulePlan], modules: Modules
) -> None:
    with pytest.raises(UserError, match="M_obj has no parts to share with 'cnt'"):
        modules(plan())["obj"].share("cnt")
