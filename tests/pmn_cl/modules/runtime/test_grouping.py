"""Samples of a scene in one batch: packing, sums and products, and what every module answers.

The measure is always the same without scenes: each sample by itself, or a batch that does not know
which of its samples are about the same scene.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmn_cl import registry
from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.modules.caption import PROBABILITIES
from pmn_cl.modules.runtime import arithmetic, grouping
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.grouping import SceneGroups
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.sizes import DEPARTURES, Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan

Modules = Callable[..., dict[str, Any]]
Grouped = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
EVERY = ("obj", "att", "rel", "cap", "cnt", "vqa")
DESCRIBED = {"cnt": ("rel", "obj", "att")}
BATCHES = {
    "even": (0, 0, 1, 1, 2, 2),
    "ragged": (0, 0, 0, 1, 2, 2),
    "a scene comes back": (0, 0, 1, 0, 2, 2, 2, 0),
    "one scene": (1, 1, 1),
    "each once": (2, 0, 1),
    "each once, and again": (0, 1, 0, 2, 0),
}

scenes_of_batches = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.builds(  # all scenes with as many samples
        lambda scenes, each: [scene for scene in scenes for _ in range(each)],
        st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True),
        st.integers(1, 4),
    ),
)


def runs_of(scenes: Sequence[int]) -> list[list[int]]:
    """The samples of each scene, as far as they stand next to each other."""
    numbered = itertools.groupby(enumerate(scenes), key=lambda pair: pair[1])
    return [[place for place, _ in run] for _, run in numbered]


@given(scenes_of_batches)
def test_samples_are_grouped_by_runs_of_scenes(scenes: list[int]) -> None:
    groups, runs = SceneGroups.of(torch.tensor(scenes)), runs_of(scenes)
    if len(runs) == len(scenes):
        assert groups is None
        return
    assert groups is not None
    assert groups.first.tolist() == [run[0] for run in runs]
    assert groups.most == max(map(len, runs))
    assert [(groups.scene_of == n).nonzero()[:, 0].tolist() for n in range(len(runs))] == runs


@given(scenes_of_batches)
def test_what_is_packed_lies_by_scene_and_comes_out_as_it_was(scenes: list[int]) -> None:
    groups, runs = SceneGroups.of(torch.tensor(scenes)), runs_of(scenes)
    if groups is None:
        return
    values = torch.arange(1.0, 3 * len(scenes) + 1).view(-1, 3)
    packed = groups.pack(values)
    assert packed.shape == (len(runs), groups.most, 3)
    for number, run in enumerate(runs):
        assert torch.equal(packed[number, : len(run)], values[run])
        assert not packed[number, len(run) :].any()
    assert torch.equal(groups.unpack(packed), values)


@pytest.mark.parametrize("width", [4, 300])  # narrow and wide ones are multiplied differently
@settings(max_examples=25, deadline=None)
@given(scenes_of_batches)
def test_sums_and_products_by_scene_are_those_of_each_sample(width: int, scenes: list[int]) -> None:
    groups, runs = SceneGroups.of(torch.tensor(scenes)), runs_of(scenes)
    place = torch.tensor([number for number, run in enumerate(runs) for _ in run])
    generator = torch.Generator().manual_seed(len(scenes))

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    for by_scene, plain, wide in (
        (grouping.weighted_sum, arithmetic.weighted_sum, 5),
        (grouping.products, arithmetic.products, width),
    ):
        given_ones, vectors = drawn(len(scenes), wide), drawn(len(runs), 5, width)
        found = by_scene(given_ones, vectors, groups)
        expected = plain(given_ones, vectors[place])
        torch.testing.assert_close(found, expected)
        weights = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
        gradients = [
            torch.autograd.grad((answer * weights).sum(), (given_ones, vectors))
            for answer in (found, expected)
        ]
        torch.testing.assert_close(gradients[0], gradients[1])
        torch.testing.assert_close(by_scene(given_ones, vectors[place], groups), expected)


@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
def test_an_environment_knows_its_scenes(scene: tuple[int, ...], of_scenes: Grouped) -> None:
    env, runs = Environment.of(of_scenes(scene)), runs_of(scene)
    first = [run[0] for run in runs]
    assert len(env.scenes) == len(runs)
    assert torch.equal(env.scenes.regions, env.regions[first])
    assert torch.equal(env.scenes.boxes, env.boxes[first])
    assert torch.equal(env.scenes.mask, env.mask[first])
    assert env.scenes["scene"].tolist() == [scene[row] for row in first]
    assert torch.equal(env.of_samples(env.scenes.regions), env.regions)
    assert env.of_samples(env.regions) is env.regions
    assert torch.equal(env.scenes.scenes.regions, env.scenes.regions)


def test_samples_are_shown_one_by_one_in_a_trace(of_scenes: Grouped) -> None:
    env = Environment.of(of_scenes(BATCHES["even"]), trace=Trace())
    assert env.groups is None
    assert len(env.scenes) == len(env)


def test_scenes_stay_apart_where_those_between_them_are_left_out(of_scenes: Grouped) -> None:
    """As behind hard gates: a result has a row for each scene that it was asked for."""
    scenes = Environment.of(of_scenes((0, 0, 1, 0, 2))).scenes
    part = scenes.rows(torch.tensor([0, 2]))
    assert part["scene"].tolist() == [0, 0]
    assert len(part.scenes) == 2


def network_of(
    plan: ModulePlan, modules: Modules, memory: Memory | None = None, **options: Any
) -> ModuleNetwork:
    network = ModuleNetwork(memory)
    for name, module in modules(plan, calls=DESCRIBED, **options).items():
        network.add(name, module.double())
        with torch.no_grad():
            if hasattr(module, "G"):
                module.G.scores.weight.mul_(4)  # so that samples differ in what they want
    return network


def one_by_one(network: ModuleNetwork, x: dict[str, Tensor], task: str) -> Tensor:
    rows = [{name: value[i : i + 1] for name, value in x.items()} for i in range(len(x["mask"]))]
    return torch.cat([network(row, task) for row in rows])


GATES = [Gates(), Gates(kind="hard"), Gates(kind="hard", threshold=0.2)]


@pytest.mark.parametrize("gates", GATES, ids=["soft", "hard", "threshold"])
@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("size", ["paper", "small"])
def test_every_module_answers_a_batch_of_scenes_as_each_sample_alone(
    size: str,
    scene: tuple[int, ...],
    gates: Gates,
    plan: Plans,
    modules: Modules,
    of_scenes: Grouped,
) -> None:
    x = of_scenes(scene)
    for seed in range(2):
        network = network_of(plan(gates=gates, departures=DEPARTURES[size]), modules, seed=seed)
        with torch.no_grad():
            for task in EVERY:
                torch.testing.assert_close(network(x, task), one_by_one(network, x, task))


@pytest.mark.parametrize(
    ("scene", "wants"),
    [
        ((0, 1, 0), (1, -1, 1)),
        ((0, 0, 1, 0, 2), (1, -1, -1, 1, 1)),
        ((0, 0, 1, 1, 2, 2), (1, -1, -1, -1, -1, 1)),
        ((0, 0, 1, 1, 0, 0, 2, 2), (1, 1, -1, -1, 1, 1, 1, -1)),
    ],
)
def test_behind_hard_gates_a_caption_is_asked_for_once_a_scene(
    scene: tuple[int, ...],
    wants: tuple[int, ...],
    plan: Plans,
    modules: Modules,
    of_scenes: Grouped,
) -> None:
    """Also of a scene that comes back, when nobody asks about those between."""
    departures = Departures(question_as_state=True)
    network = network_of(plan(gates=Gates(kind="hard"), departures=departures), modules)
    vqa, cap, x = network["vqa"], network["cap"], of_scenes(scene)
    with torch.no_grad():  # the score of M_cap is the first number of the question, others' is 0
        vqa.G.scores.weight.zero_()
        vqa.G.scores.bias.zero_()
        vqa.G.scores.weight[vqa.call_list.index("cap"), 0] = 1.0
        query = vqa.own_query(Environment.of(x)).detach()
        query[:, 0] = torch.tensor(wants)
        rows: list[int] = []
        hook = cap.register_forward_hook(lambda m, args, out: rows.append(len(out)))
        found = vqa(query, Environment.of(x))
        hook.remove()
        alone = [
            vqa(query[i : i + 1], Environment.of({n: v[i : i + 1] for n, v in x.items()}))
            for i in range(len(scene))
        ]
    wanted = [run for run in runs_of(scene) if any(wants[row] > 0 for row in run)]
    assert rows[0] == len(wanted)
    torch.testing.assert_close(found, torch.cat(alone))


@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
def test_a_scenes_caption_has_a_row_for_each_scene(
    scene: tuple[int, ...], plan: Plans, modules: Modules, of_scenes: Grouped
) -> None:
    network, x = network_of(plan(), modules), of_scenes(scene)
    with torch.no_grad():
        found = network["cap"](PROBABILITIES, Environment.of(x))
        del x["scene"]
        expected = network["cap"](PROBABILITIES, Environment.of(x))
    torch.testing.assert_close(found, expected[[run[0] for run in runs_of(scene)]])


@pytest.mark.parametrize("task", ["rel", "cap", "cnt", "vqa"])
@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("size", ["paper", "small"])
def test_gradients_are_those_of_a_batch_that_does_not_know_its_scenes(
    size: str,
    scene: tuple[int, ...],
    task: str,
    plan: Plans,
    modules: Modules,
    of_scenes: Grouped,
) -> None:
    """Of the module's own weights and of those of its callees, statistics of batches included."""
    network = network_of(plan(departures=DEPARTURES[size]), modules).train()
    x, gradients = of_scenes(scene), []
    there = x["mask"] if task == "rel" else slice(None)
    for batch in (x, {name: value for name, value in x.items() if name != "scene"}):
        network.zero_grad()
        outputs = network(batch, task)[there]
        weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1))
        (outputs * weights.double()).sum().backward()
        learned = network.named_parameters()
        gradients.append({name: p.grad for name, p in learned if p.grad is not None})
    assert any(name.startswith(f"learned.{task}.") for name in gradients[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9)


def digit_plan(digits: Store, gates: Gates) -> ModulePlan:
    widths = {"hidden": 10, "knowledge": 11, "attention": 12, "relation": 9, "caption": 14}
    sizes = Sizes(**widths, relation_attention=13, word=6, terminal=8)
    return ModulePlan(WorldShape(128, digits.names), sizes, gates, DEPARTURES["small"])


@pytest.mark.parametrize("gates", GATES, ids=["soft", "hard", "threshold"])
def test_with_memory_too_samples_of_a_scene_are_answered_as_each_alone(
    gates: Gates, digits: Store, modules: Modules
) -> None:
    memory = Memory()
    plain = network_of(digit_plan(digits, gates), modules, frozen=EVERY)
    network = ModuleNetwork(memory)
    for name in EVERY:
        network.add(name, plain[name].float())
    for task in ("rel", "cnt", "vqa"):
        samples = Samples.whole(digits, "val", registry.load(registry.TASKS[task])())
        batches = Batches(samples, Scenes(digits, "val"))
        memory.attach_samples(task, batches)
        per_scene = len(batches) // len(batches.scenes)
        rows = [0, 1, 2, *range(2 * per_scene, 3 * per_scene), 1, 0, 3 * per_scene, 0]
        x, _ = batches[torch.tensor(rows)]
        with torch.no_grad():
            expected = one_by_one(plain, dict(x.items()), task)
            for _ in range(2):  # the second time, all of it is remembered
                torch.testing.assert_close(network(x, task), expected, rtol=1e-4, atol=1e-5)
