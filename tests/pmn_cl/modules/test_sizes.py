"""What modules are over: a world need only name what its modules are built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import CaptionModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.relation import RelationModule
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.sizes import WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.modules.terminal import AttributeModule, ObjectModule

Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]


def without(plan: ModulePlan, *missing: str) -> ModulePlan:
    """The same plan in a world that does not name these."""
    names = {what: names for what, names in plan.shape.names.items() if what not in missing}
    return replace(plan, shape=WorldShape(plan.shape.region, names))


NEEDLESS: list[tuple[type[TaskModule], tuple[str, ...], tuple[str, ...]]] = [
    (AnswerModule, (), ("caption words", "counts", "relations", "directions", "objects")),
    (AnswerModule, ("obj",), ("caption words", "counts", "relations", "directions")),
    (AnswerModule, ("cnt",), ("caption words", "relations", "directions")),
    (CountModule, (), ("caption words", "answers", "relations", "directions")),
]


def built(kind: type[TaskModule], calls: tuple[str, ...], plan: ModulePlan) -> TaskModule:
    kinds: dict[str, type[TaskModule]] = {"obj": ObjectModule, "cnt": CountModule}
    torch.manual_seed(0)
    return kind(plan, {name: kinds[name](plan, {}) for name in calls})


@pytest.mark.parametrize(("kind", "calls", "missing"), NEEDLESS)
def test_a_world_need_not_name_what_a_module_does_not_use(
    kind: type[TaskModule],
    calls: tuple[str, ...],
    missing: tuple[str, ...],
    plan: Plans,
    batch: Batch,
    tmp_path: Path,
) -> None:
    module, usual = (built(kind, calls, p) for p in (without(plan(), *missing), plan()))
    answers = []
    for one in (module, usual):
        for callee in one.callees.values():
            callee.freeze()
        one.freeze()
        env = Environment.of(batch())
        answers.append(one.outputs(one(one.own_query(env), env), env))
    assert torch.equal(*answers)
    # It can be kept, loaded and replaced, too.
    card = library.card_of(module, level=3, data="", metric="accuracy", score=None)
    path = library.save(module, card, tmp_path)
    assert library.load(path, module.callees).identity == module.identity
    network = ModuleNetwork()
    network.add(module.task, module)
    network.replace(module.task, built(kind, calls, without(plan(), *missing)))


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (ObjectModule, "objects"),
        (AttributeModule, "attributes"),
        (RelationModule, "relations"),
        (RelationModule, "directions"),
        (CaptionModule, "caption words"),
        (CountModule, "counts"),
        (CountModule, "question words"),
        (AnswerModule, "answers"),
        (AnswerModule, "question words"),
    ],
)
def test_a_list_that_a_module_needs_is_named(kind: Any, missing: str, plan: Plans) -> None:
    with pytest.raises(UserError, match=f"no list of '{missing}'.*it has .*, "):
        kind(without(plan(), missing), {})


@pytest.mark.parametrize("missing", ["relations", "directions", "caption words"])
def test_a_list_that_a_call_needs_is_named(missing: str, plan: Plans) -> None:
    kind: type[TaskModule] = CaptionModule if missing == "caption words" else RelationModule
    name = "cap" if missing == "caption words" else "rel"
    callees = {name: kind(plan(), {})}
    with pytest.raises(UserError, match=f"no list of '{missing}'"):
        AnswerModule(without(plan(), missing), callees)
