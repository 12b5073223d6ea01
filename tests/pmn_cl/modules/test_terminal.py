"""M_obj and M_att against appendix A.1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import SIZES
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
CLASSES = {"obj": 4, "att": 3}  # of the tiny world
both = pytest.mark.parametrize("name", ["obj", "att"])


@both
def test_shapes(name: str, plan: Callable[..., ModulePlan], modules: Modules, batch: Batch) -> None:
    module, env = modules(plan())[name], Environment.of(batch())
    answer = module(module.own_query(env), env)
    assert answer.shape == (3, 5, 2)
    assert module.outputs(answer, env).shape == (3, 5, CLASSES[name])


@both
@pytest.mark.parametrize("size", ["paper", "small"])
def test_it_learns_one_layer_and_a_classifier(
    name: str,
    size: str,
    plan: Callable[..., ModulePlan],
    modules: Modules,
    learns: Any,
    parameters: Callable[[nn.Module], int],
) -> None:
    with torch.device("meta"):
        module = modules(plan(SIZES[size], region=2048), weights=False)[name]
    width = {"paper": 300, "small": SIZES["small"].terminal}[size]
    expected = learns.linear(2048, width) + learns.linear(width, CLASSES[name])
    assert parameters(module) == expected


@both
def test_an_answer_is_tanh_of_a_linear_layer(
    name: str, plan: Callable[..., ModulePlan], modules: Modules, batch: Batch, equations: Any
) -> None:
    module, env = modules(plan())[name], Environment.of(batch())
    hand = equations(module)
    answer = module(env.regions, env)
    scores = module.outputs(answer, env)
    for b in range(3):
        for i in range(5):
            named = [math.tanh(x) for x in hand.linear("project", env.regions[b, i].numpy())]
            assert answer[b, i].tolist() == pytest.approx(named, abs=1e-5)
            expected = hand.linear("classifier", named)
            assert scores[b, i].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@both
def test_one_vector_is_answered_as_a_region_is(
    name: str, plan: Callable[..., ModulePlan], modules: Modules, batch: Batch
) -> None:
    """Callers ask about the region they attend to, a vector that need not be in the scene."""
    module, env = modules(plan())[name], Environment.of(batch())
    every = module(env.regions, env)
    assert torch.allclose(module(env.regions[:, 1], env), every[:, 1], atol=1e-6)


@both
def test_padding_changes_nothing(
    name: str,
    plan: Callable[..., ModulePlan],
    modules: Modules,
    batch: Batch,
    padded: Callable[..., dict[str, Tensor]],
) -> None:
    module = modules(plan())[name]
    outputs = []
    for x in (batch(), padded(batch())):
        env = Environment.of(x)
        outputs.append(module.outputs(module(module.own_query(env), env), env))
    there = batch()["mask"]
    assert torch.allclose(outputs[0][there], outputs[1][:, :5][there], atol=1e-5)


@both
def test_gradient_reaches_the_query_through_a_frozen_module(
    name: str, plan: Callable[..., ModulePlan], modules: Modules, batch: Batch
) -> None:
    module = modules(plan())[name].double()
    module.freeze()
    env = Environment.of(batch(dtype=torch.float64))
    query = env.regions[:, 0].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda q: module(q, env), (query,))
    module(query, env).sum().backward()
    assert query.grad is not None
    assert query.grad.abs().sum() > 0
    assert all(p.grad is None for p in module.parameters())
