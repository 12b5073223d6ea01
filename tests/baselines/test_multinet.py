"""Multinet: its equation by hand, what comes back to whom, and its three ways through a stream."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import pad

from baselines.common.trunk import NetworkPlan
from baselines.hard_sharing import HardSharing, HardSharingJoint
from baselines.multinet import (
    FrozenNetwork,
    Integrator,
    Multinet,
    MultinetFrozen,
    MultinetJoint,
    MultinetNetwork,
    probabilities,
)
from baselines.options import HeadsOptions, MultinetOptions
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Sizes, WorldShape
from pmn_cl.modules.task_module import digest_of
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.attributes import AttributeTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.captions import CaptionTask
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import RelationTask

Experiences = dict[str, dict[str, Any]]
KINDS: dict[str, Task] = {
    "obj": ObjectTask(),
    "att": AttributeTask(),
    "rel": RelationTask(),
    "cap": CaptionTask(),
    "cnt": CountTask(),
    "vqa": AnswerTask(),
}
TASKS = list(KINDS)
NAMES = {
    "objects": ["none", "cat", "dog"],
    "attributes": ["red", "big"],
    "relations": ["left of", "above", "near"],
    "directions": ["to", "from"],
    "caption words": ["", "<s>", "</s>", "a", "cat"],
    "question words": ["", "how", "many", "is"],
    "counts": ["0", "1", "2", "3"],
    "answers": ["yes", "no", "cat"],
}
REGION, B, N = 5, 4, 3
NETWORKS: list[type[MultinetNetwork]] = [MultinetNetwork, FrozenNetwork]


def plan_of(width: int = 16) -> NetworkPlan:
    sizes = Sizes(
        hidden=8,
        knowledge=8,
        attention=16,
        relation=8,
        relation_attention=16,
        caption=4,
        word=4,
        terminal=4,
    )
    return NetworkPlan(WorldShape(REGION, NAMES), sizes, width, 16)


def network_of(
    tasks: list[str],
    passes: int = 2,
    kind: type[MultinetNetwork] = MultinetNetwork,
    width: int = 16,
) -> MultinetNetwork:
    torch.manual_seed(0)
    network = kind(plan_of(width), passes)
    for label, task in enumerate(tasks):
        experience: Any = SimpleNamespace(task=KINDS[task], task_label=label)
        network.add(experience)
    return network


def batch_for(task: str) -> dict[str, Tensor]:
    """Samples that bring the query of one task, and no other."""
    draw = torch.Generator().manual_seed(1)
    corner = torch.rand(B, N, 2, generator=draw) / 2
    x = {
        "regions": torch.randn(B, N, REGION, generator=draw),
        "boxes": torch.cat([corner, corner + torch.rand(B, N, 2, generator=draw) / 2], dim=2),
        "mask": torch.ones(B, N, dtype=torch.bool),
    }
    queries = {
        "question": torch.randint(1, 4, (B, 3), generator=draw),
        "box": torch.randint(0, N, (B,), generator=draw),
        "relation": torch.randint(0, 3, (B,), generator=draw),
        "direction": torch.randint(0, 2, (B,), generator=draw),
    }
    return {**x, **{name: queries[name] for name in KINDS[task].query}}


def disturb(module: nn.Module) -> None:
    """Move all weights, and each by something else."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))


def fill(parameter: Tensor, values: Any) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(values))


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# The equations, by hand.


def test_the_integrator_by_hand() -> None:
    integrator = Integrator(plan_of(width=2))
    fill(integrator.layer.weight, [[1.0, -1.0], [0.0, 2.0]])
    fill(integrator.layer.bias, [0.5, -1.0])
    for task, weight in (("obj", [[1.0], [0.0]]), ("cnt", [[0.0, 1.0], [0.5, 0.0]])):
        integrator.encoders[task] = nn.Linear(len(weight[0]), 2, bias=False)
        fill(integrator.encoders[task].weight, weight)
    h, first = torch.tensor([[[1.0, 2.0], [0.0, 0.0]]]), torch.tensor([[[1.0, 0.0], [2.0, 1.0]]])
    env = Environment(h, torch.zeros(1, 2, 4), torch.ones(1, 2, dtype=torch.bool))
    # By region: obj says 0.5 and 2, so φ x is (0.5, 0) and (2, 0). For all: cnt says (0.5, 0.25),
    # so φ x is (0.25, 0.25). Then h + Σ φ x is (1.75, 2.25) and (2.25, 0.25); W of it (−0.5, 4.5)
    # and (2, 0.5), with b (0, 3.5) and (2.5, −0.5), relu (0, 3.5) and (2.5, 0); plus r⁰.
    answers = {"obj": torch.tensor([[[0.5], [2.0]]]), "cnt": torch.tensor([[[0.5, 0.25]]])}
    assert integrator(h, first, answers, env).tolist() == [[[1.0, 3.5], [4.5, 1.0]]]


def linear(layer: Any, x: NDArray[Any]) -> NDArray[Any]:
    weight = layer.weight.detach().double().numpy()
    bias = 0 if layer.bias is None else layer.bias.detach().double().numpy()
    return np.asarray(x @ weight.T + bias)


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


@pytest.mark.parametrize("passes", [0, 1, 2, 4])
def test_the_loop_is_the_publications(passes: int) -> None:
    """Counting with objects and attributes that come back: Γ, φ and ψ in numpy."""
    network = network_of(["obj", "att", "cnt"], passes)
    x = batch_for("cnt")
    env = Environment.of(x)
    first = network.trunk.look(env).detach().double().numpy()
    h = first
    for _ in range(passes):
        integrator = network.integrator(KINDS["cnt"])
        objects = softmax(linear(network.heads["obj"].scores, h))
        attributes = 1 / (1 + np.exp(-linear(network.heads["att"].scores, h)))
        back = linear(integrator.encoders["obj"], objects)
        back = back + linear(integrator.encoders["att"], attributes)
        h = first + np.maximum(linear(integrator.layer, h + back), 0)
    found = network.represent(env, KINDS["cnt"])
    np.testing.assert_allclose(found.detach().numpy(), h, rtol=1e-4, atol=1e-6)
    # What is answered is what the head sees of that h.
    seen = network.trunk(env, KINDS["cnt"], regions=found)
    assert torch.equal(network(x, "cnt"), network.heads["cnt"](seen, env))


def test_outputs_come_back_as_probabilities_per_region_or_per_scene() -> None:
    ln3 = float(np.log(3))
    boxes, regions = torch.zeros(1, 3, 4), torch.zeros(1, 3, REGION)
    env = Environment(regions, boxes, torch.tensor([[True, True, False]]))

    def check(task: str, outputs: Any, expected: Any) -> None:
        found = probabilities(KINDS[task], torch.tensor(outputs), env)
        torch.testing.assert_close(found, torch.tensor(expected))

    check("rel", [[ln3, 0.0, 9.0]], [[[0.75], [0.25], [0.0]]])  # padding has no part
    check("cnt", [[ln3, 0.0]], [[[0.75, 0.25]]])
    check("vqa", [[ln3, 0.0]], [[[0.75, 0.5]]])  # any of some: each by itself
    check("cap", [[[ln3, 0.0], [0.0, 0.0]]], [[[0.625, 0.375]]])  # shares of words
    check("obj", [[[ln3, 0.0], [0.0, ln3]]], [[[0.75, 0.25], [0.25, 0.75]]])
    check("att", [[[ln3, 0.0], [0.0, -ln3]]], [[[0.75, 0.5], [0.5, 0.25]]])


def test_of_a_sentence_its_first_word_comes_back() -> None:
    network = network_of(["cap", "att"], passes=1)
    received: list[Tensor] = []
    network.integrators["all"].register_forward_pre_hook(
        lambda module, given: received.append(given[2]["cap"])
    )
    x = batch_for("att")
    network(x, "att")
    generated = network(x, "cap")[:, 0].softmax(1)
    torch.testing.assert_close(received[0], generated[:, None])


@pytest.mark.parametrize("kind", NETWORKS)
def test_at_the_start_feedback_neither_kills_nor_dominates(kind: type[MultinetNetwork]) -> None:
    network = network_of(TASKS, passes=10, kind=kind, width=128)
    env = Environment.of(batch_for("vqa"))
    with torch.no_grad():
        first, last = network.trunk.look(env), network.represent(env, KINDS["vqa"])
    assert 0.1 < float((last - first).norm() / first.norm()) < 1


# What comes back to whom.


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(("old", "new"), itertools.combinations(TASKS, 2))
def test_what_a_task_says_reaches_later_tasks_and_no_earlier_one(
    old: str, new: str, kind: type[MultinetNetwork]
) -> None:
    for passes in (0, 1, 3):
        network = network_of(TASKS, passes, kind)
        before = {task: network(batch_for(task), task) for task in (old, new)}
        disturb(network.heads[old])
        assert torch.equal(network(batch_for(new), new), before[new]) == (passes == 0)
        network = network_of(TASKS, passes, kind)
        disturb(network.heads[new])
        assert torch.equal(network(batch_for(old), old), before[old])


@pytest.mark.parametrize("kind", NETWORKS)
def test_passes_change_outputs_and_not_the_number_of_parameters(
    kind: type[MultinetNetwork],
) -> None:
    networks = [network_of(TASKS, passes, kind) for passes in (1, 2, 3)]
    assert len({size(network) for network in networks}) == 1
    for task in TASKS[1:]:
        one, two, three = (network(batch_for(task), task) for network in networks)
        assert not torch.equal(one, two) and not torch.equal(two, three)
    one, two, three = (network(batch_for("obj"), "obj") for network in networks)
    assert torch.equal(one, two) and torch.equal(two, three)  # nothing comes back to the first


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_query_that_a_sample_lacks_is_its_own_in_translation(
    kind: type[MultinetNetwork],
) -> None:
    network = network_of(TASKS, 1, kind)
    counting, answering = (network.integrator(KINDS[task]) for task in ("cnt", "vqa"))
    assert list(counting.translations) == ["rel"]  # the others ask nothing, or what cnt asks
    assert list(answering.translations) == ["rel"]  # cnt's question is there
    x = batch_for("vqa")
    before = network(x, "vqa")
    other = {**x, "question": x["question"].flip(0)}
    asked: list[Tensor] = []
    answering.translations["rel"].register_forward_hook(
        lambda module, given, found: asked.append(found)
    )
    network(x, "vqa"), network(other, "vqa")
    torch.testing.assert_close(asked[0], asked[1].flip(0))  # M_rel is asked by the question
    disturb(answering.translations["rel"])
    assert not torch.equal(network(x, "vqa"), before)


@settings(max_examples=15, deadline=None)
@given(st.permutations(TASKS), st.integers(0, 3), st.sampled_from(NETWORKS))
def test_any_order_of_tasks_works_and_every_parameter_of_feedback_can_learn(
    tasks: list[str], passes: int, kind: type[MultinetNetwork]
) -> None:
    network = network_of(tasks, passes, kind)
    for task in tasks:
        outputs = network(batch_for(task), task)
        assert bool(outputs.isfinite().all())
        outputs.square().sum().backward()
    missing = [name for name, p in network.integrators.named_parameters() if p.grad is None]
    assert missing == []


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_gradient_reaches_the_question_the_regions_and_the_tasks_before(passes: int) -> None:
    """Passes before the last are without gradient; the question is read only once."""
    network = network_of(TASKS, passes)
    network(batch_for("vqa"), "vqa").sum().backward()
    slopes = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    reached = [name for name, slope in slopes.items() if bool(slope.any())]
    for part in (
        "trunk.readers.question.question.words.weight",
        "trunk.regions.first.weight",
        "heads.vqa.answer.weight",
        "heads.obj.scores.weight",
        "heads.att.scores.weight",
        "heads.rel.point.z.weight",
        "heads.cap.speak.weight",
        "heads.cnt.counted.weight",
        "integrators.all.layer.weight",
        "integrators.all.translations.rel.weight",
    ):
        assert part in reached, part


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_padding_changes_nothing(task: str, kind: type[MultinetNetwork]) -> None:
    network = network_of(TASKS, 2, kind)
    x = batch_for(task)
    padded = {
        **x,
        "regions": pad(x["regions"], (0, 0, 0, 4), value=3.0),
        "boxes": pad(x["boxes"], (0, 0, 0, 4), value=0.5),
        "mask": pad(x["mask"], (0, 4), value=False),
    }
    plain, more = network(x, task), network(padded, task)
    if KINDS[task].form in ("class", "labels", "pointing"):
        more = more[:, :N]
    torch.testing.assert_close(more, plain, rtol=1e-4, atol=1e-5)


# Through a stream.


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, fraction=10.0)


def options(passes: int = 2, kind: type[HeadsOptions] = MultinetOptions) -> Any:
    training = {
        task: {"epochs": 1, "batch_size": 16, "warmup": 0, "learning_rate": 0.003} for task in TASKS
    }
    chosen = {"passes": passes} if kind is MultinetOptions else {}
    return kind.model_validate({"width": 16, "attention": 8, "training": training, **chosen})


def made(kind: type[Any], passes: int = 2, **changes: Any) -> Any:
    return kind(options=options(passes), **{"budget": 50.0, **changes})


def learn(strategy: Any, experiences: Experiences, tasks: list[str]) -> Any:
    given = [[experiences[split][task] for task in tasks] for split in ("train", "val")]
    strategy.learn_all(*given)
    return strategy


def test_without_passes_it_is_hard_sharing_bit_for_bit(experiences: Experiences) -> None:
    tasks = ["obj", "rel", "cnt"]
    pairs = [(Multinet, HardSharing), (MultinetJoint, HardSharingJoint)]
    for ours, plain in pairs:
        hard = plain(options=options(kind=HeadsOptions), budget=50.0)
        learn(hard, experiences, tasks)
        multinet = learn(made(ours, passes=0), experiences, tasks)
        assert digest_of(multinet.network) == digest_of(hard.network)
        assert digest_of(learn(made(ours), experiences, tasks).network) != digest_of(hard.network)


def test_frozen_forgets_nothing_under_full_evaluation(experiences: Experiences) -> None:
    strategy = made(MultinetFrozen)
    first: dict[str, NDArray[Any]] = {}
    for task in TASKS:
        before = {name: p.clone() for name, p in strategy.model.state_dict().items()}
        learn(strategy, experiences, [task])
        after = strategy.model.state_dict()
        assert all(torch.equal(after[name], value) for name, value in before.items())
        assert strategy.parameter_count().trainable > 0
        for known in [*first, task]:
            found = strategy.predict(experiences["val"][known])
            assert np.array_equal(found, first.setdefault(known, found))


def test_frozen_learns_every_part_that_a_task_brings(experiences: Experiences) -> None:
    strategy = made(MultinetFrozen)
    learn(strategy, experiences, TASKS[:-1])
    old = set(strategy.model.state_dict())
    brought: dict[str, Tensor] = {}
    prepare = strategy.prepare

    def prepared(experience: Any) -> None:
        prepare(experience)
        brought.update(copy.deepcopy(strategy.model.state_dict()))

    strategy.prepare = prepared
    learn(strategy, experiences, ["vqa"])
    after = strategy.model.state_dict()
    still = {name for name in set(after) - old if torch.equal(after[name], brought[name])}
    assert still <= {"fusions.vqa.attention.z.bias"}  # which no softmax can tell
    assert {name.split(".")[0] for name in set(after) - old} == {
        "heads",
        "readers",
        "fusions",
        "integrators",
    }


def test_unfrozen_all_goes_on_changing(experiences: Experiences) -> None:
    strategy = learn(made(Multinet), experiences, TASKS[:3])
    before = copy.deepcopy(strategy.model.state_dict())
    answers = strategy.predict(experiences["val"]["att"])
    learn(strategy, experiences, ["cap"])
    after = strategy.model.state_dict()
    for part in (
        "trunk.regions.first.weight",
        "heads.obj.scores.weight",
        "integrators.all.layer.weight",
    ):
        assert not torch.equal(before[part], after[part]), part
    assert not np.array_equal(answers, strategy.predict(experiences["val"]["att"]))


def test_joint_learns_all_tasks_at_once(experiences: Experiences) -> None:
    assert MultinetJoint.at_once
    tasks = ["obj", "rel", "vqa"]
    strategy = learn(made(MultinetJoint), experiences, tasks)
    assert list(strategy.validation_scores) == tasks
    alone = [learn(made(Multinet), experiences, [task]).samples_seen for task in tasks]
    assert strategy.samples_seen == sum(alone)


@pytest.mark.parametrize("kind", [Multinet, MultinetFrozen, MultinetJoint])
def test_what_was_kept_answers_alike(
    kind: type[Any], experiences: Experiences, tmp_path: Path
) -> None:
    tasks = ["obj", "rel", "vqa"]
    strategy = learn(made(kind), experiences, tasks)
    strategy.save(tmp_path)
    again = made(kind, seed=9)
    again.load(tmp_path, [experiences["train"][task] for task in tasks])
    for task in tasks:
        experience = experiences["val"][task]
        assert np.array_equal(strategy.predict(experience), again.predict(experience))
    if not kind.at_once:  # and goes on alike
        again.seed = strategy.seed
        for one in (strategy, again):
            learn(one, experiences, ["cnt"])
        assert digest_of(strategy.network) == digest_of(again.network)


@pytest.mark.parametrize("kind", [Multinet, MultinetFrozen, MultinetJoint])
def test_the_same_seed_gives_the_same_network(kind: type[Any], experiences: Experiences) -> None:
    digests = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed + 100)  # what was drawn before must not matter
        strategy = learn(made(kind, seed=seed), experiences, ["obj", "cnt"])
        digests.append(digest_of(strategy.network))
    assert digests[0] == digests[1] != digests[2]


# Options.


def test_passes_are_a_small_number() -> None:
    assert MultinetOptions().passes == 2
    for wrong in (-1, 11, 1.5):
        with pytest.raises(ValidationError, match="passes"):
            MultinetOptions.model_validate({"passes": wrong})
