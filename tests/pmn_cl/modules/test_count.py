"""M_cnt against appendix A.4: the maps that it makes in numpy; the counter has its own tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.compositional import ATTEND
from pmn_cl.modules.count import OWN_QUESTION
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.overlaps import intersection_over_union
from pmn_cl.modules.sizes import SIZES, Departures, Gates
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
CODES = 6  # relations in both directions, in the tiny world
DESCRIBED = {"cnt": ("rel", "obj", "att")}  # with names and attributes of regions to attend over


def asked(module: Any, x: dict[str, Tensor]) -> Tensor:
    """The count vector of a batch's own questions."""
    env = Environment.of(x)
    return module(module.own_query(env), env)


def test_shapes(plan: Plans, modules: Modules, batch: Batch) -> None:
    cnt, env = modules(plan())["cnt"], Environment.of(batch())
    query = cnt.own_query(env)
    assert query.shape == (3, 5)
    assert cnt(query, env).shape == (3, 5)
    assert cnt.outputs(cnt(query, env), env).shape == (3, 5)
    asked_rel = cnt.first_relation_query(query, env, reach_encoder=True)
    assert (asked_rel.box.shape, asked_rel.relation.shape) == ((3, 5), (3, CODES))


@pytest.mark.parametrize("size", ["paper", "small"])
@pytest.mark.parametrize("described", [False, True])
def test_it_learns_the_layers_of_the_appendix(
    size: str,
    described: bool,
    plan: Plans,
    modules: Modules,
    learns: Any,
    parameters: Callable[[nn.Module], int],
) -> None:
    calls = DESCRIBED if described else {}
    built = plan(SIZES[size], region=2048, counts={"counts": 13})
    with torch.device("meta"):
        made = modules(built, calls=calls, weights=False)
    own = SIZES[size]
    hidden, word, terminal, attention = (
        (512, 300, 300, 512)
        if size == "paper"
        else (own.hidden, own.word, own.terminal, own.attention)
    )
    data = 2048 + (2 * terminal if described else 0)
    expected = (
        9 * word  # the words of questions
        + learns.gru(word, hidden)
        + learns.linear(hidden, 2)  # G: for the two modules in L_cnt
        + learns.attention(hidden, data, attention)  # Ω
        + learns.attention(hidden, data, attention)  # Q→rel: b
        + learns.mlp(hidden, hidden, CODES)  # Q→rel: r
        + 8 * 16  # the counter's eight functions of 16 segments
    )
    assert parameters(made["cnt"]) == expected


def test_departures_add_what_they_say(
    plan: Plans, modules: Modules, learns: Any, parameters: Callable[[nn.Module], int]
) -> None:
    def learned(**departures: Any) -> int:
        return parameters(modules(plan(departures=Departures(**departures)))["cnt"])

    usual = learned()
    assert learned(relation_receiver=True) == usual + 2  # a and b of a·l + b
    assert learned(count_layer=True) == usual + learns.linear(5, 5)
    assert learned(shared_projection=True) == usual - learns.linear(6, 9)  # b has no g
    assert learned(count_boxes=7, singulars=True, scaled_start=True) == usual


def test_what_is_received_of_a_relation_module_is_at_first_as_it_answers(
    plan: Plans, modules: Modules
) -> None:
    cnt = modules(plan(departures=Departures(relation_receiver=True)), weights=False)["cnt"]
    assert (float(cnt.scale.detach()), float(cnt.level.detach())) == (1.0, 0.0)


def attention_of(
    made: dict[str, Any], equations: Any, x: dict[str, Tensor], b: int, described: bool
) -> Any:
    """Appendix A.4 for one sample, up to s²; M_rel is a black box that is asked [b, r]."""
    obj, att, cnt = (equations(made[name]) for name in ("obj", "att", "cnt"))
    there = x["mask"][b]
    X = x["regions"][b, there].double().numpy()
    data = list(X)
    if described:
        named = [np.tanh(obj.linear("project", d)) for d in X]
        coloured = [np.tanh(att.linear("project", d)) for d in X]
        data = [np.concatenate(parts) for parts in zip(X, named, coloured, strict=True)]
    s = cnt.sentence("asking.question", [w for w in x["question"][b].tolist() if w])
    g = cnt.softmax(cnt.linear("G.scores", s))
    v_attend = cnt.attention("asking.attention", s, data)
    shared = "asking.attention" if made["cnt"].plan.departures.shared_projection else ""
    box = cnt.softmax(cnt.attention("asking.box", s, data, shared))
    relation = cnt.softmax(cnt.mlp("asking.relation", s))
    scene = {name: value[b : b + 1] for name, value in x.items()}
    scene |= {name: scene[name][:, there] for name in ("regions", "boxes", "mask")}
    query = RelationQuery(torch.tensor(box)[None].float(), torch.tensor(relation)[None].float())
    v_rel = made["rel"](query, Environment.of(scene))[0].detach().double().numpy()
    if made["cnt"].scale is not None:
        v_rel = cnt.weights["scale"] * v_rel + cnt.weights["level"]
    return g[0] * v_attend + g[1] * v_rel


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize(
    "departures",
    [Departures(), Departures(relation_receiver=True), Departures(shared_projection=True)],
    ids=["paper", "relation receiver", "shared projection"],
)
def test_it_computes_the_equations_of_the_appendix(
    described: bool,
    departures: Departures,
    plan: Plans,
    modules: Modules,
    batch: Batch,
    equations: Any,
) -> None:
    made = modules(plan(departures=departures), calls=DESCRIBED if described else {})
    x = batch()
    found = asked(made["cnt"], x)
    for b in range(3):
        s2 = attention_of(made, equations, x, b, described)
        overlaps = intersection_over_union(x["boxes"][b, x["mask"][b]][None])
        expected = made["cnt"].counter(overlaps, torch.tensor(s2)[None].float())[0]
        assert found[b].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_without_a_relation_module_its_own_attention_counts(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """M_cnt0 of MemoryTable 2: nothing to choose from, so the gate is 1."""
    cnt, x = modules(plan(), calls={"cnt": ()})["cnt"], batch()
    env = Environment.of(x)
    query = cnt.own_query(env)
    assert cnt.call_list == (ATTEND,)
    logits = cnt.attend(query, env).masked_fill(~env.mask, -torch.inf)
    expected = cnt.counter(intersection_over_union(env.boxes), logits)
    assert torch.allclose(cnt(query, env), expected, atol=1e-6)


def test_outputs_are_log_probabilities_of_the_count_vector(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    cnt, env = modules(plan())["cnt"], Environment.of(batch())
    counted = torch.tensor([[0.0, 0.25, 0.75, 0, 0]])
    found = cnt.outputs(counted, env)[0].tolist()
    assert found[1:3] == pytest.approx([math.log(0.25), math.log(0.75)])
    assert all(math.isfinite(value) and value < math.log(1e-3) for value in [found[0], *found[3:]])


def test_a_layer_after_the_counter_keeps_its_choice_at_first(plan: Plans, modules: Modules) -> None:
    torch.manual_seed(0)
    cnt = modules(plan(departures=Departures(count_layer=True)), weights=False)["cnt"]
    counted = torch.tensor([[0.0, 0.2, 0.7, 0, 0], [0.9, 0.1, 0, 0, 0]])
    assert cnt.outputs(counted, None).argmax(1).tolist() == [2, 0]


@pytest.mark.parametrize("receiver", [False, True])
def test_padding_changes_nothing(
    receiver: bool,
    plan: Plans,
    modules: Modules,
    batch: Batch,
    padded: Callable[..., dict[str, Tensor]],
) -> None:
    cnt = modules(plan(departures=Departures(relation_receiver=receiver)), calls=DESCRIBED)["cnt"]
    usual, more = asked(cnt, batch()), asked(cnt, padded(batch(), in_boxes=False))
    assert torch.allclose(usual, more, atol=1e-5)


def test_rubbish_in_the_boxes_of_padding_changes_nothing(
    plan: Plans, modules: Modules, batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    """Fewer boxes than can be counted, so that padding is among those the counter keeps."""
    cnt = modules(plan(counts={"counts": 9}))["cnt"]
    usual, more = asked(cnt, batch()), asked(cnt, padded(batch()))
    assert torch.allclose(usual, more, atol=1e-5)


def test_padded_boxes_never_count(plan: Plans, modules: Modules, batch: Batch) -> None:
    """With all attention certain, as many are counted as there are boxes."""
    cnt = modules(plan(counts={"counts": 9}), calls={"cnt": ()}, weights=False)["cnt"]
    with torch.no_grad():
        cnt.asking.attention.z.weight.zero_()
        cnt.asking.attention.z.bias.fill_(100.0)
    x = batch()
    apart = torch.arange(5.0)[:, None] * 10 + torch.tensor([0, 0, 5.0, 5.0])
    x["boxes"] = (apart * x["mask"][:, :, None]).float()
    assert asked(cnt, x).argmax(1).tolist() == [5, 3, 4]


def doubled(plan: ModulePlan, modules: Modules, **options: Any) -> dict[str, Any]:
    """All modules in double precision, those below M_cnt frozen."""
    made = modules(plan, **options)
    for module in made.values():
        module.double()
    for name in ("obj", "att", "rel"):
        made[name].freeze()
    return made


@pytest.mark.parametrize("receiver", [False, True])
def test_gradient_passes_a_frozen_relation_module(
    receiver: bool, plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = doubled(plan(departures=Departures(relation_receiver=receiver)), modules)
    cnt, env = made["cnt"], Environment.of(batch(dtype=torch.float64))
    query = cnt.own_query(env).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda q: cnt(q, env), (query,))


def test_gradient_to_the_query_of_a_relation_comes_from_the_relation_module_alone(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Q→rel has no other way to learn from counts; the frozen modules get nothing."""
    made = doubled(plan(), modules, calls=DESCRIBED)
    cnt = made["cnt"]
    env = Environment.of(batch(dtype=torch.float64))
    counted = cnt(cnt.own_query(env), env)
    weights = torch.randn(counted.shape, generator=torch.Generator().manual_seed(0))
    (counted * weights).sum().backward()
    for part in (cnt.asking.box, cnt.asking.relation):
        assert sum(p.grad.abs().sum() for p in part.parameters()) > 0
    frozen = [p for name in ("obj", "att", "rel") for p in made[name].parameters()]
    assert all(p.grad is None for p in frozen)


def test_gradient_to_the_weights_of_queries_is_that_of_finite_differences(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = doubled(plan(), modules)
    cnt, env = made["cnt"], Environment.of(batch(dtype=torch.float64))
    query = cnt.own_query(env).detach()
    weights = {
        name: value.detach().clone().requires_grad_()
        for name, value in cnt.named_parameters()
        if name.startswith(("asking.relation.2", "asking.box.f"))
    }

    def count(*values: Tensor) -> Tensor:
        changed = dict(zip(weights, values, strict=True))
        fresh = Environment.of(batch(dtype=torch.float64))  # nothing found out before
        return torch.func.functional_call(cnt, changed, (query, fresh))

    assert len(weights) == 4
    assert torch.autograd.gradcheck(count, tuple(weights.values()))


@pytest.mark.parametrize("reach", [False, True])
def test_supervision_of_the_query_reaches_the_encoder_only_where_it_should(
    reach: bool, plan: Plans, modules: Modules, batch: Batch
) -> None:
    cnt, env = modules(plan())["cnt"], Environment.of(batch())
    query = cnt.first_relation_query(cnt.own_query(env), env, reach_encoder=reach)
    (query.box[:, 0].sum() + query.relation[:, 0].sum()).backward()
    assert all(p.grad is not None for p in cnt.asking.relation.parameters())
    assert all((p.grad is not None) == reach for p in cnt.asking.question.parameters())


def test_boxes_to_ask_about_are_none_of_the_padding(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    cnt, env = modules(plan())["cnt"], Environment.of(batch())
    query = cnt.first_relation_query(cnt.own_query(env), env, reach_encoder=True)
    assert (query.box[~env.mask] == 0).all()
    assert torch.allclose(query.box.sum(1), torch.ones(3), atol=1e-6)
    assert torch.allclose(query.relation.sum(1), torch.ones(3), atol=1e-6)


def test_asked_for_its_own_question_it_counts_what_the_words_ask_for_once(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    cnt = modules(plan())["cnt"]
    env, seen = Environment.of(batch()), []
    cnt.counter.register_forward_hook(lambda *args: seen.append(args))
    first, second = cnt(OWN_QUESTION, env), cnt(OWN_QUESTION, env)
    assert len(seen) == 1
    assert torch.equal(first, second)
    assert torch.equal(first, asked(cnt, batch()))


@pytest.mark.parametrize("prefers", [[1, 1, 1], [1, -1, 1], [-1, -1, -1]])
def test_behind_hard_gates_only_those_who_need_a_relation_ask_for_it(
    prefers: list[int], plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(gates=Gates(kind="hard")))
    cnt = made["cnt"]
    with torch.no_grad():  # the score of M_rel is the first number of the question, Ω's is 0
        cnt.G.scores.weight.zero_()
        cnt.G.scores.bias.zero_()
        cnt.G.scores.weight[1, 0] = 1.0
    env = Environment.of(batch())
    query = cnt.own_query(env).detach()
    query[:, 0] = torch.tensor(prefers)
    rows: list[int] = []
    made["rel"].register_forward_hook(lambda m, args, out: rows.append(len(out)))
    sparse = cnt(query, env)
    wanting = prefers.count(1)
    assert rows == ([wanting] if wanting else [])
    cnt.training = True  # everybody is asked while learning; M_cnt does nothing else differently
    dense = cnt(query, Environment.of(batch()))
    assert rows[-1] == 3
    assert torch.allclose(sparse, dense, atol=1e-5)


def test_a_batch_without_a_question_is_refused(plan: Plans, modules: Modules, batch: Batch) -> None:
    x = {name: value for name, value in batch().items() if name != "question"}
    with pytest.raises(UserError, match="no field 'question'"):
        asked(modules(plan())["cnt"], x)
