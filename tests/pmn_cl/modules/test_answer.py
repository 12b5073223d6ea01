"""M_vqa against section 3.4 and appendix A.5: both steps in numpy, with callees as black boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import END, PROBABILITIES
from pmn_cl.modules.compositional import ATTEND, RESIDUAL
from pmn_cl.modules.count import OWN_QUESTION
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.sizes import SIZES, Departures, Gates
from pmn_cl.modules.task_module import ModulePlan
from pmn_cl.modules.terminal import ObjectModule

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
BELOW = ("obj", "att", "rel", "cnt", "cap")
ANSWERS, CODES, WORDS, COUNTS = 8, 6, 6, 5  # of the tiny world


def asked(module: Any, x: dict[str, Tensor]) -> Tensor:
    """The logits of a batch's own questions."""
    env = Environment.of(x)
    return module(module.own_query(env), env)


def test_shapes(plan: Plans, modules: Modules, batch: Batch) -> None:
    vqa, env = modules(plan())["vqa"], Environment.of(batch())
    query = vqa.own_query(env)
    assert query.shape == (3, 5)
    assert vqa(query, env).shape == (3, ANSWERS)


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        # Section 3.3 of the paper.
        ("rel obj att cnt cap", "Ω rel obj att Δ cnt cap"),
        ("", "Ω Δ"),
        ("rel", "Ω rel Δ"),
        ("cnt cap", "Ω Δ cnt cap"),
        ("rel att obj cap cnt", "Ω rel att obj Δ cap cnt"),
        ("rel cnt obj cap att", "Ω rel cnt obj cap att Δ"),
        ("cap cnt att obj rel", "Ω rel cap cnt att obj Δ"),  # a map is of use before the others
    ],
)
def test_callees_are_called_in_the_order_of_the_stream(
    called: str, expected: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    vqa = modules(plan(), calls={"vqa": tuple(called.split())})["vqa"]
    assert vqa.call_list == tuple(expected.split())
    env = Environment.of(batch(), trace=(trace := Trace()))
    vqa(vqa.own_query(env), env)
    steps = [call.callee for call in trace.calls if call.depth == 0 and call.step == 1]
    assert steps == expected.split()


@pytest.mark.parametrize("order", [("cap", "cnt", "att", "obj", "rel"), BELOW])
def test_the_answer_does_not_depend_on_the_order_of_calls(
    order: tuple[str, ...], plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Apart from maps, no callee is asked with what another answered."""
    made = modules(plan())
    usual, other = made["vqa"], AnswerModule(plan(), {name: made[name] for name in order}).eval()
    weights = usual.state_dict()
    scores = dict(zip(usual.call_list, weights["G.scores.weight"], strict=True))
    biases = dict(zip(usual.call_list, weights["G.scores.bias"], strict=True))
    moved = {
        "G.scores.weight": torch.stack([scores[k] for k in other.call_list]),
        "G.scores.bias": torch.stack([biases[k] for k in other.call_list]),
    }
    other.load_state_dict({**weights, **moved})
    assert torch.allclose(asked(other, batch()), asked(usual, batch()), atol=1e-5)


@pytest.mark.parametrize("size", ["paper", "small"])
def test_it_learns_the_layers_of_the_appendix(
    size: str,
    plan: Plans,
    modules: Modules,
    learns: Any,
    parameters: Callable[[nn.Module], int],
) -> None:
    with torch.device("meta"):
        built = plan(SIZES[size], region=2048, counts={"counts": 13})
        made = modules(built, weights=False)
    own = SIZES[size]
    hidden, knowledge, word, terminal, attention = (
        (512, 512, 300, 300, 512)
        if size == "paper"
        else (own.hidden, own.knowledge, own.word, own.terminal, own.attention)
    )
    data = 2048 + 2 * terminal  # attention is over [X; M_obj(X); M_att(X)], as in the demo
    expected = (
        9 * word  # the words of questions
        + learns.gru(word, hidden)  # S
        + learns.gru(knowledge, hidden)  # I, U
        + (learns.linear(hidden, knowledge) if hidden != knowledge else 0)  # I
        + learns.linear(hidden, 7)  # G: for the seven modules in L_vqa
        + learns.attention(hidden, data, attention)  # Ω
        + learns.attention(hidden, data, attention)  # Q→rel: b
        + learns.mlp(hidden, hidden, CODES)  # Q→rel: r
        + learns.mlp(2048, knowledge, knowledge)  # Δ
        + 2 * learns.receiver(terminal, knowledge)  # of M_obj and M_att
        + learns.receiver(knowledge, knowledge)  # of Δ
        + learns.receiver(13, knowledge)  # of M_cnt: 0 … 12
        + learns.receiver(word, knowledge)  # of M_cap
        + WORDS * word  # the words of captions
        + learns.attention(hidden, word, attention)  # over the words of a caption
        + 2 * learns.linear(hidden, knowledge)  # Ψ: two layers of gated tanh
        + 2 * learns.linear(knowledge, knowledge)
        + learns.linear(knowledge, ANSWERS)
    )
    assert parameters(made["vqa"]) == expected


def test_departures_add_what_they_say(
    plan: Plans, modules: Modules, learns: Any, parameters: Callable[[nn.Module], int]
) -> None:
    def learned(**departures: Any) -> int:
        return parameters(modules(plan(departures=Departures(**departures)))["vqa"])

    usual = learned()
    assert learned(question_answers=True) == usual + learns.linear(5, ANSWERS)
    assert learned(joint_steps=True) == usual + 2 * learns.linear(3 * 8, 8)  # gated tanh
    assert learned(shared_projection=True) == usual - learns.linear(6 + 2 * 2, 9)  # b has no g
    assert learned(question_as_state=True) == usual - learns.linear(5, 8)  # nothing of I
    assert learned(own_question=True, singulars=True, scaled_start=True) == usual


def answered(
    made: dict[str, Any],
    equations: Any,
    x: dict[str, Tensor],
    b: int,
    departures: Departures,
) -> Any:
    """Section 3.4 for one sample, without padding; M_rel, M_cnt and M_cap are black boxes."""
    obj, att, vqa = (equations(made[name]) for name in ("obj", "att", "vqa"))
    there = x["mask"][b]
    scene = {name: value[b : b + 1] for name, value in x.items()}
    scene |= {name: scene[name][:, there] for name in ("regions", "boxes", "mask")}

    def ask(name: str, query: Any) -> Any:
        return made[name](query, Environment.of(scene))[0].detach().double().numpy()

    def row(value: Any) -> Tensor:
        return torch.tensor(value)[None].float()

    def named(v: Any) -> Any:
        return np.tanh(obj.linear("project", v))

    def coloured(v: Any) -> Any:
        return np.tanh(att.linear("project", v))

    X = x["regions"][b, there].double().numpy()
    data = [np.concatenate([d, named(d), coloured(d)]) for d in X]
    S = vqa.sentence("own_asking.question", [w for w in x["question"][b].tolist() if w])
    q = S
    if not departures.question_as_state:
        q = vqa.gru("think", vqa.linear("enter", S), np.zeros(len(S)))
    logits = vqa.linear("of_words", S) if departures.question_answers else np.zeros(ANSWERS)
    shared = "own_asking.attention" if departures.shared_projection else ""
    known = []
    for _ in range(2):
        g = vqa.linear("G.scores", q)  # (1)
        v_attend = vqa.softmax(vqa.attention("own_asking.attention", q, data))  # (2)
        box = vqa.softmax(vqa.attention("own_asking.box", q, data, shared))  # (3)
        relation = vqa.softmax(vqa.mlp("own_asking.relation", q))
        v_rel = vqa.softmax(ask("rel", RelationQuery(row(box), row(relation))))
        maps = vqa.softmax(g[:2])  # (4)
        m = maps[0] * v_attend + maps[1] * v_rel
        seen = sum(m[i] * X[i] for i in range(len(X)))
        v_obj = vqa.receiver("R.obj", named(seen))
        v_att = vqa.receiver("R.att", coloured(seen))
        v_delta = vqa.receiver("R.residual", vqa.mlp("delta", seen))
        v_cnt = vqa.receiver(
            "R.cnt", ask("cnt", OWN_QUESTION if departures.own_question else row(q))
        )
        said = []  # (6): the words as the caption has them, softly, up to its end mark
        for probabilities in ask("cap", PROBABILITIES):
            if said and probabilities.argmax() == END:
                break
            said.append(probabilities @ vqa.weights["words.weight"])
            if probabilities.argmax() == END:  # a caption without words is heard all the same
                break
        p = vqa.softmax(vqa.attention("listen", q, said))
        v_cap = vqa.receiver("R.cap", sum(p[i] * said[i] for i in range(len(said))))
        weights = vqa.softmax(g[2:])  # (7)
        k = sum(weights[i] * v for i, v in enumerate([v_obj, v_att, v_delta, v_cnt, v_cap]))
        q = vqa.gru("think", k, q)
        known.append(k)
        fused = vqa.gated_tanh("of_question", S) * vqa.gated_tanh("of_knowledge", k)
        logits += vqa.linear("answer", fused)
    if departures.joint_steps:
        both = vqa.gated_tanh("of_both", np.concatenate([*known, known[0] * known[1]]))
        logits += vqa.linear("answer", vqa.gated_tanh("of_question", S) * both)
    return logits


@pytest.mark.parametrize(
    "departures",
    [
        Departures(),
        Departures(own_question=True),
        Departures(question_as_state=True),
        Departures(question_answers=True),
        Departures(shared_projection=True),
        Departures(joint_steps=True),
    ],
    ids=[
        *("paper", "own question", "question as state", "question answers"),
        *("shared projection", "joint steps"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_it_computes_the_equations_of_the_appendix(
    departures: Departures,
    seed: int,
    plan: Plans,
    modules: Modules,
    batch: Batch,
    equations: Any,
) -> None:
    made, x = modules(plan(departures=departures), seed=seed), batch(seed=seed)
    found = asked(made["vqa"], x)
    for b in range(3):
        expected = answered(made, equations, x, b, departures)
        assert found[b].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_caption_is_read_as_far_as_it_goes(
    plan: Plans, modules: Modules, batch: Batch, equations: Any
) -> None:
    made, x = modules(plan()), batch()
    with torch.no_grad():
        made["cap"].speak.weight.zero_()  # so that the mark is the first word, if not surely
        made["cap"].speak.bias.copy_(torch.tensor([0.0, 0.0, 1.0, 0.5, 0.0, 0.0]))
    caption = made["cap"](PROBABILITIES, Environment.of(x))
    assert caption[:, 0].argmax(1).tolist() == [END] * 3
    assert (caption[:, 1:] == 0).all()
    found = asked(made["vqa"], x)
    for b in range(3):
        expected = answered(made, equations, x, b, Departures())
        assert found[b].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("without", [("rel",), ("cap",), ("cnt", "cap"), ("obj", "att"), BELOW])
def test_it_does_without_some_of_its_callees(
    without: tuple[str, ...], plan: Plans, modules: Modules, batch: Batch
) -> None:
    """The paper's ablations of MemoryTable 4."""
    called = tuple(name for name in BELOW if name not in without)
    vqa = modules(plan(), calls={"vqa": called})["vqa"]
    assert set(vqa.call_list) == {ATTEND, RESIDUAL, *called}
    assert vqa.G.scores.out_features == len(called) + 2
    assert asked(vqa, batch()).isfinite().all()


def test_padding_changes_nothing(
    plan: Plans, modules: Modules, batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    """Boxes of padding stay zero here: what the counter makes of others is tested with M_cnt."""
    vqa = modules(plan())["vqa"]
    usual, more = asked(vqa, batch()), asked(vqa, padded(batch(), in_boxes=False))
    assert torch.allclose(usual, more, atol=1e-5)


def test_rubbish_in_the_boxes_of_padding_changes_nothing_without_counting(
    plan: Plans, modules: Modules, batch: Batch, padded: Callable[..., dict[str, Tensor]]
) -> None:
    vqa = modules(plan(), calls={"vqa": ("rel", "obj", "att", "cap")})["vqa"]
    usual, more = asked(vqa, batch()), asked(vqa, padded(batch()))
    assert torch.allclose(usual, more, atol=1e-5)


def test_padding_gets_no_attention(plan: Plans, modules: Modules, batch: Batch) -> None:
    vqa, env = modules(plan())["vqa"], Environment.of(batch())
    key = vqa.own_query(env)
    received = vqa.receive(ATTEND, vqa.initial(key, env), vqa.attend(key, env), env)
    for attention in (received, vqa.first_relation_query(key, env, reach_encoder=True).box):
        assert (attention[~env.mask] == 0).all()
        assert torch.allclose(attention.sum(1), torch.ones(3), atol=1e-6)


def frozen_below(plan: ModulePlan, modules: Modules, seed: int = 0) -> dict[str, Any]:
    """All modules in double precision; M_vqa's callees frozen."""
    made = modules(plan, seed=seed)
    for module in made.values():
        module.double()
    for name in BELOW:
        made[name].freeze()
    return made


@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_to_the_question_passes_frozen_callees(
    seed: int, plan: Plans, modules: Modules, batch: Batch
) -> None:
    vqa = frozen_below(plan(), modules, seed)["vqa"]
    x = batch(there=(3, 2), asked=(2, 3), seed=seed, dtype=torch.float64)
    env = Environment.of(x)
    query = vqa.own_query(env).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda q: vqa(q, env), (query,))


def test_gradient_to_the_weights_of_queries_is_that_of_finite_differences(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """Of Q→rel, which acts through M_rel alone, and of the GRU, which asks M_cnt and M_rel."""
    vqa = frozen_below(plan(), modules)["vqa"]
    x = batch(there=(3, 2), asked=(2, 3), dtype=torch.float64)
    query = vqa.own_query(Environment.of(x)).detach()
    names = ("own_asking.relation.2.bias", "own_asking.box.f.0.bias", "think.bias_ih")
    values = [vqa.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def answer(*changed: Tensor) -> Tensor:
        weights = dict(zip(names, changed, strict=True))
        return torch.func.functional_call(vqa, weights, (query, Environment.of(x)))

    assert torch.autograd.gradcheck(answer, tuple(values))
    gradients = torch.autograd.grad(answer(*values).square().sum(), values)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_everything_of_its_own_learns_and_nothing_of_its_frozen_callees(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = frozen_below(plan(), modules)
    made["vqa"].train()
    asked(made["vqa"], batch(dtype=torch.float64)).square().sum().backward()
    assert [name for name, p in made["vqa"].named_parameters() if p.grad is None] == []
    assert all(p.grad is None for name in BELOW for p in made[name].parameters())


def test_a_counting_module_that_is_not_frozen_learns_with_it(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    """The paper fine-tunes M_cnt alone, through its answers to M_vqa."""
    made = modules(plan(), frozen=BELOW)
    made["cnt"].unfreeze()
    asked(made["vqa"], batch()).square().sum().backward()
    learned = made["cnt"].asking.attention.parameters()
    assert sum(p.grad.abs().sum() for p in learned) > 0
    assert all(p.grad is None for n in ("obj", "att", "rel", "cap") for p in made[n].parameters())


def test_sharing_is_using_the_counting_modules_own_parts(
    plan: Plans, modules: Modules, batch: Batch, parameters: Callable[[nn.Module], int]
) -> None:
    calls = {"cnt": ("rel", "obj", "att")}
    made, x = modules(plan(), calls=calls), batch()
    vqa, cnt = made["vqa"], made["cnt"]
    before, own = parameters(vqa), parameters(vqa.asking)
    vqa.asking.load_state_dict(cnt.asking.state_dict())
    copied = asked(vqa, x)
    vqa.share("cnt")
    assert vqa.shares == "cnt"
    assert parameters(vqa) == before - own  # borrowed, so neither counted nor saved twice
    assert not any(name.startswith("asking") for name in vqa.state_dict())
    assert torch.equal(asked(vqa, x), copied)
    with torch.no_grad():
        cnt.asking.attention.f[0].weight.mul_(-1)
    assert not torch.allclose(asked(vqa, x), copied, atol=1e-4)


@pytest.mark.parametrize("called", [("cnt",), ("cnt", "obj")])
def test_sharing_needs_all_that_the_counting_module_calls(
    called: tuple[str, ...], plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), calls={"cnt": ("rel", "obj", "att"), "vqa": called})
    with pytest.raises(UserError, match="cannot share with M_cnt, which calls rel"):
        made["vqa"].share("cnt")


def test_a_users_own_callee_is_called_as_others_are(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan())
    callees = {"obj": made["obj"], "mine": ObjectModule(plan(), {})}
    vqa = AnswerModule(plan(), callees).eval()
    assert vqa.call_list == (ATTEND, "obj", RESIDUAL, "mine")
    assert asked(vqa, batch()).shape == (3, ANSWERS)


@pytest.mark.parametrize(
    "gates",
    [Gates(kind="hard", top=1), Gates(kind="hard", top=2), Gates(kind="hard", threshold=0.2)],
)
def test_behind_hard_gates_callees_get_the_samples_whose_gate_is_open(
    gates: Gates, plan: Plans, modules: Modules, batch: Batch
) -> None:
    closed = 0
    for seed in range(4):
        made = modules(plan(gates=gates), seed=seed)
        vqa = made["vqa"]
        with torch.no_grad():
            vqa.G.scores.weight.mul_(4)  # so that samples differ in what they want
        x = batch(there=(5, 3, 4, 2, 5), asked=(4, 2, 3, 1, 4), seed=seed)
        wanted: list[dict[str, Tensor]] = []
        rows: dict[str, list[int]] = {"cnt": [], "cap": []}  # whom nobody else calls
        hooks = [vqa.G.register_forward_hook(lambda m, args, out, w=wanted: w.append(out))]
        for name, seen in rows.items():
            note = made[name].register_forward_hook
            hooks.append(note(lambda m, args, out, seen=seen: seen.append(len(out))))
        sparse = asked(vqa, x)
        for hook in hooks:
            hook.remove()
        for name, seen in rows.items():
            asking = [int((gate[name] > 0).sum()) for gate in wanted]
            assert len(asking) == 2
            assert seen == [count for count in asking if count]
            closed += sum(count < 5 for count in asking)
        vqa.training = True  # asks everybody; its receivers stay as they are
        assert torch.allclose(sparse, asked(vqa, x), atol=1e-5)
    assert closed > 0


def test_while_it_learns_all_callees_are_asked_behind_hard_gates(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(gates=Gates(kind="hard")), frozen=BELOW)
    vqa = made["vqa"].train()
    rows: list[int] = []
    made["cap"].register_forward_hook(lambda m, args, out: rows.append(len(out)))
    asked(vqa, batch()).square().sum().backward()
    assert rows == [3, 3]
    assert vqa.G.scores.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("reach", [False, True])
def test_supervision_of_the_query_reaches_the_encoder_only_where_it_should(
    reach: bool, plan: Plans, modules: Modules, batch: Batch
) -> None:
    vqa, env = modules(plan())["vqa"], Environment.of(batch())
    query = vqa.first_relation_query(vqa.own_query(env), env, reach_encoder=reach)
    (query.box[:, 0].sum() + query.relation[:, 0].sum()).backward()
    assert all((p.grad is not None) == reach for p in vqa.asking.question.parameters())


def test_a_batch_without_a_question_is_refused(plan: Plans, modules: Modules, batch: Batch) -> None:
    x = {name: value for name, value in batch().items() if name != "question"}
    with pytest.raises(UserError, match="no field 'question'"):
        asked(modules(plan())["vqa"], x)
