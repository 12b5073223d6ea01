"""M_rel against appendix A.3: the literal N steps in numpy, padding, gradient, directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.relation import (
    RelationModule,
    RelationQuery,
    relation_code,
    relation_codes,
)
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import SIZES, Departures
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
RELATIONS, DIRECTIONS = 3, 2  # of the tiny world
WAVES = (9 * 9 - 1) // 2  # plane waves of −4 … 4 by −4 … 4 halves of π, one of each two opposite


def outputs(module: Any, x: dict[str, Tensor]) -> Tensor:
    """What the task's loss takes."""
    env = Environment.of(x)
    return module.outputs(module(module.own_query(env), env), env)


def doubled(made: dict[str, Any]) -> dict[str, Any]:
    """The modules that M_rel asks, and itself, in double precision."""
    return {name: made[name].double() for name in ("obj", "att", "rel")}


def soft_query(rows: int, boxes: int, seed: int = 0) -> RelationQuery:
    """[b, r] as a caller sends it: distributions, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    box = torch.randn(rows, boxes, generator=generator, dtype=torch.float64).softmax(1)
    codes = RELATIONS * DIRECTIONS
    relation = torch.randn(rows, codes, generator=generator, dtype=torch.float64).softmax(1)
    return RelationQuery(box, relation)


def test_shapes(plan: Plans, modules: Modules, batch: Batch) -> None:
    module, env = modules(plan())["rel"], Environment.of(batch())
    query = module.own_query(env)
    assert query.box.shape == (3, 5)
    assert query.relation.shape == (3, RELATIONS * DIRECTIONS)
    assert module(query, env).shape == (3, 5)
    assert relation_codes(plan().shape) == RELATIONS * DIRECTIONS


@pytest.mark.parametrize("size", ["paper", "small"])
@pytest.mark.parametrize("positions", [False, True])
def test_it_learns_the_layers_of_the_appendix(
    size: str,
    positions: bool,
    plan: Plans,
    modules: Modules,
    learns: Any,
    parameters: Callable[[nn.Module], int],
) -> None:
    departures = Departures(positions=positions)
    with torch.device("meta"):
        made = modules(plan(SIZES[size], departures=departures, region=2048), weights=False)
    sizes = SIZES[size]
    hidden, terminal, attention = (
        (512, 300, 512)
        if size == "paper"
        else (sizes.relation, sizes.terminal, sizes.relation_attention)
    )
    expected = (
        (RELATIONS + DIRECTIONS) * hidden  # I: a vector for each relation, scaled by direction
        + learns.linear(4 + 2 * WAVES if positions else 4, hidden)  # Δ: the box's coordinates
        + learns.mlp(2048 + 2 * terminal + hidden, hidden, hidden)  # U: [X; v_obj; v_att; v_Δ]
        + learns.attention(hidden, hidden, attention)  # Ψ
    )
    assert parameters(made["rel"]) == expected


def placed(box: Any) -> Any:
    """Where a box is: centre, size, and sine and cosine of all plane waves over the centre."""
    x, y = box[0] + box[2] - 1, box[1] + box[3] - 1
    phases = [
        np.pi / 2 * (i * x + j * y)
        for i in range(-4, 5)
        for j in range(-4, 5)
        if (i, j) > (0, 0)  # in the order of tuples: one of each two opposite ones
    ]
    size = [box[2] - box[0], box[3] - box[1]]
    return np.array([x, y, *size, *np.sin(phases), *np.cos(phases)])


def related(
    made: dict[str, Any], equations: Any, x: dict[str, Tensor], b: int, waves: bool = False
) -> Any:
    """Appendix A.3 for one sample: N steps, each for one box, then Ψ."""
    obj, att, rel = (equations(made[name]) for name in ("obj", "att", "rel"))
    X, boxes = x["regions"][b].double().numpy(), x["boxes"][b].double().numpy()
    w = rel.weights
    relation, direction = int(x["relation"][b]), int(x["direction"][b])
    s = [w["relation.weight"][relation] * w["direction"][direction]]  # s¹
    for t in range(len(X)):
        v_obj = np.tanh(obj.linear("project", X[t]))
        v_att = np.tanh(att.linear("project", X[t]))
        v_delta = rel.linear("place", placed(boxes[t]) if waves else boxes[t])
        s.append(rel.mlp("look", np.concatenate([X[t], v_obj, v_att, v_delta])))
    i = int(x["box"][b])
    key = s[0] * s[i + 1]  # l: counting from 1, s^{i+1} is the state of box i
    return rel.attention("point", key, s[1:])


@pytest.mark.parametrize("waves", [False, True])
def test_it_computes_the_equations_of_the_appendix(
    waves: bool, plan: Plans, modules: Modules, batch: Batch, equations: Any
) -> None:
    made = doubled(modules(plan(departures=Departures(positions=waves))))
    x = batch(dtype=torch.float64)
    found = outputs(made["rel"], x)
    for b in range(3):
        there = x["mask"][b]
        expected = related(made, equations, x, b, waves)[there.numpy()]
        assert found[b, there].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_hand_calculation_depends_on_every_part_of_the_query(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Else agreement with it would show little."""
    module, x = modules(plan())["rel"], batch()
    usual = outputs(module, x)
    for name, other in (("box", 0), ("relation", 1), ("direction", 0)):
        changed = {**x, name: torch.where(x[name] == other, other + 1, other)}
        assert not torch.allclose(outputs(module, changed), usual, atol=1e-3)


def box_state(made: dict[str, Any], equations: Any, x: dict[str, Tensor], t: int) -> Any:
    """U for one box of the first sample."""
    obj, att, rel = (equations(made[name]) for name in ("obj", "att", "rel"))
    X, place = x["regions"][0, t].double().numpy(), x["boxes"][0, t].double().numpy()
    seen = [X, np.tanh(obj.linear("project", X)), np.tanh(att.linear("project", X))]
    return rel.mlp("look", np.concatenate([*seen, rel.linear("place", place)]))


def test_a_soft_query_mixes_the_keys_of_hard_ones(
    plan: Plans, modules: Modules, batch: Batch, equations: Any
) -> None:
    """l is linear in b and in r: that of a soft query is the mean over all boxes and relations."""
    made = doubled(modules(plan()))
    x = batch(there=(3,), asked=(2,), dtype=torch.float64)
    query = soft_query(1, 3)
    rel = equations(made["rel"])
    states = [box_state(made, equations, x, i) for i in range(3)]
    key = np.zeros(10)
    for i in range(3):
        for code in range(RELATIONS * DIRECTIONS):
            d, r = divmod(code, RELATIONS)
            first = rel.weights["relation.weight"][r] * rel.weights["direction"][d]
            key += float(query.box[0, i] * query.relation[0, code]) * first * states[i]
    expected = rel.attention("point", key, states)
    found = made["rel"](query, Environment.of(x))[0]
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-9)


class LiteralModule(RelationModule):
    """M_rel as the appendix has it: T = N, and step t looks at box t."""

    scene_steps = False

    def steps(self, env: Environment) -> int:
        return env.mask.shape[1]

    def step(self, s: Any, t: int, env: Environment) -> Tensor:
        box = slice(t - 1, t)
        return super().step(
            s, t, Environment(env.regions[:, box], env.boxes[:, box], env.mask[:, box])
        )

    def predict(self, states: list[Tensor], query: RelationQuery, env: Environment) -> Tensor:
        boxes = torch.cat(states[1:], dim=1)
        key = states[0] * (query.box[:, :, None] * boxes).sum(1)
        return self.point(key, boxes, env)


@pytest.mark.parametrize("positions", [False, True])
def test_all_steps_at_once_equal_one_after_the_other(
    positions: bool, plan: Plans, modules: Modules, batch: Batch
) -> None:
    folded = doubled(modules(plan(departures=Departures(positions=positions))))["rel"]
    literal = LiteralModule(folded.plan, folded.callees).double().eval()
    literal.load_state_dict(folded.state_dict())
    found, gradients = [], []
    for module in (folded, literal):
        env = Environment.of(batch(dtype=torch.float64))
        query = RelationQuery(*(part.requires_grad_() for part in module.own_query(env)))
        answer = module(query, env)
        weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(1)).double()
        (answer * weights).sum().backward()
        found.append(answer)
        parts = [*query, *module.parameters()]
        gradients.append([part.grad for part in parts])
        module.zero_grad()
    assert (folded.steps(env), literal.steps(env)) == (1, 5)  # T = N
    assert torch.allclose(found[0], found[1], atol=1e-5)
    for one, other in zip(*gradients, strict=True):
        assert one is not None
        assert torch.allclose(one, other, atol=1e-5)


def test_padding_changes_nothing_and_is_out_of_reach(
    plan: Plans, modules: Modules, batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    module, x = modules(plan())["rel"], batch()
    usual, more = outputs(module, x), outputs(module, padded(x))
    there = x["mask"]
    assert torch.allclose(usual[there], more[:, :5][there], atol=1e-5)
    assert (usual[~there] == -torch.inf).all()
    assert (more[:, 5:] == -torch.inf).all()
    assert (more.softmax(1)[:, 5:] == 0).all()


def test_a_direction_at_first_makes_no_difference(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    x = batch()
    torch.manual_seed(0)
    module = modules(plan(), weights=False)["rel"]
    other = {**x, "direction": 1 - x["direction"]}
    assert torch.equal(outputs(module, x), outputs(module, other))


def test_relations_are_numbered_by_direction() -> None:
    codes = {
        (d, r): int(relation_code(torch.tensor(r), torch.tensor(d), RELATIONS))
        for d in range(DIRECTIONS)
        for r in range(RELATIONS)
    }
    assert sorted(codes.values()) == list(range(6))
    assert codes[1, 2] == 5


def test_gradient_to_the_query_passes_a_frozen_module(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan())
    for name in ("obj", "att", "rel"):
        made[name].double().freeze()
    env = Environment.of(batch(dtype=torch.float64))
    box, relation = (part.requires_grad_() for part in soft_query(3, 5))
    rel = made["rel"]
    assert torch.autograd.gradcheck(lambda b, r: rel(RelationQuery(b, r), env), (box, relation))
    rel(RelationQuery(box, relation), env).square().sum().backward()
    assert box.grad is not None and box.grad.abs().sum() > 0
    assert relation.grad is not None and relation.grad.abs().sum() > 0
    frozen = [p for name in ("obj", "att", "rel") for p in made[name].parameters()]
    assert all(p.grad is None for p in frozen)


def test_a_learning_module_leaves_its_frozen_children_alone(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), frozen=["obj", "att"])
    made["rel"].train()
    outputs(made["rel"], batch(there=(5, 5, 5))).square().sum().backward()
    assert all(p.grad is not None for p in made["rel"].parameters())
    assert all(p.grad is None for name in ("obj", "att") for p in made[name].parameters())


@pytest.mark.parametrize("name", ["box", "relation", "direction"])
def test_a_batch_without_its_query_is_refused(
    name: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    x = {key: value for key, value in batch().items() if key != name}
    with pytest.raises(UserError, match=f"no field '{name}'; it has .*question"):
        outputs(modules(plan())["rel"], x)
