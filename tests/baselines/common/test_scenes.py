"""Networks with heads answer a batch of scenes as they answer each sample alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.common.network import HeadsNetwork
from baselines.common.trunk import NetworkPlan
from baselines.hard_sharing import SharedNetwork
from baselines.lwf import OldTaskQuery
from baselines.multinet import FrozenNetwork, MultinetNetwork
from baselines.pnn import ProgressiveNetwork, Wiring
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import DEPARTURES, Sizes, WorldShape
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.attributes import AttributeTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.captions import CaptionTask
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import RelationTask

NAMES = {
    "objects": ["none", "cat", "dog"],
    "attributes": ["red", "big"],
    "relations": ["left of", "above", "near"],
    "directions": ["to", "from"],
    "caption words": ["", "<s>", "</s>", "a", "cat"],
    "question words": ["", "how", "many", "is", "cat", "cats"],
    "counts": ["0", "1", "2", "3"],
    "answers": ["yes", "no", "cat"],
}
KINDS: list[Task] = [
    *(ObjectTask(), AttributeTask(), RelationTask()),
    *(CaptionTask(), CountTask(), AnswerTask()),
]
REGION, N = 5, 4
WIDTHS = {"hidden": 8, "knowledge": 9, "attention": 7, "relation": 10, "caption": 4}
SIZES = Sizes(**WIDTHS, relation_attention=6, word=3, terminal=4)
PLAN = NetworkPlan(WorldShape(REGION, NAMES), SIZES, 16, 12, DEPARTURES["small"])
NETWORKS = {
    "hard sharing": lambda: SharedNetwork(PLAN),
    "pnn": lambda: ProgressiveNetwork(PLAN, Wiring()),
    "multinet, no pass": lambda: MultinetNetwork(PLAN, 0),
    "multinet": lambda: MultinetNetwork(PLAN, 2),
    "multinet, frozen": lambda: FrozenNetwork(PLAN, 2),
}
BATCHES = {
    "even": (0, 0, 1, 1, 2, 2),
    "ragged": (0, 0, 0, 1, 2, 2),
    "a scene comes back": (0, 0, 1, 0, 2, 2, 2, 0),
    "one scene": (1, 1, 1),
    "each once, and again": (0, 1, 0, 2),
}


def made(name: str) -> HeadsNetwork:
    torch.manual_seed(0)
    network: HeadsNetwork = NETWORKS[name]()
    for label, task in enumerate(KINDS):
        experience: Any = SimpleNamespace(task=task, task_label=label)
        network.add(experience)
    return network.double().eval()


def batch(scene: tuple[int, ...]) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    corner = torch.rand(3, N, 2, generator=draw).double() / 2
    side = torch.rand(3, N, 2, generator=draw).double() / 2
    mask = torch.arange(N) < torch.tensor([[4], [2], [3]])
    scenes = {
        "regions": torch.randn(3, N, REGION, generator=draw).double() * mask[:, :, None],
        "boxes": torch.cat([corner, corner + side], dim=2) * mask[:, :, None],
        "mask": mask,
    }
    B = len(scene)
    return {
        **{name: value[list(scene)] for name, value in scenes.items()},
        "question": torch.randint(1, 6, (B, 3), generator=draw),
        "box": torch.randint(2, (B,), generator=draw),
        "relation": torch.randint(3, (B,), generator=draw),
        "direction": torch.randint(2, (B,), generator=draw),
        "scene": torch.tensor(scene),
        "sample": torch.arange(B),
    }


def rows_of(x: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    return [{n: v[i : i + 1] for n, v in x.items()} for i in range(len(x["scene"]))]


@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_answers_a_batch_of_scenes_as_each_sample_alone(
    name: str, scene: tuple[int, ...]
) -> None:
    network, x = made(name), batch(scene)
    with torch.no_grad():
        for task in KINDS:
            alone = torch.cat([network(row, task.name) for row in rows_of(x)])
            torch.testing.assert_close(network(x, task.name), alone)


@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("task", KINDS, ids=lambda task: task.name)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_a_batch_that_does_not_know_its_scenes(
    name: str, task: Task, scene: tuple[int, ...]
) -> None:
    network, x, gradients = made(name).train(), batch(scene), []
    teacher = {"words": torch.randint(3, 5, (len(scene), 16))} if task.name == "cap" else None
    for given in (x, {name: value for name, value in x.items() if name != "scene"}):
        network.zero_grad()
        outputs = network(given, task.name, teacher=teacher)
        weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(2)).double()
        (outputs * weights).sum().backward()
        learned = network.named_parameters()
        gradients.append({n: p.grad for n, p in learned if p.grad is not None})
    assert gradients[0]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scene", BATCHES.values(), ids=BATCHES)
def test_a_look_for_several_tasks_sees_each_scene_once(scene: tuple[int, ...]) -> None:
    network, x = made("hard sharing"), batch(scene)
    with torch.no_grad():
        look = OldTaskQuery(network, Environment.of(x))  # type: ignore[arg-type]
        for task in KINDS:
            alone = torch.cat([network(row, task.name) for row in rows_of(x)])
            torch.testing.assert_close(look.answer(task, None), alone)
            some = torch.linspace(0, len(scene) - 1, 3).round().long()
            torch.testing.assert_close(look.some(3).answer(task, None), alone[some])
