"""The network: frozen modules stay as they are, and memory changes no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pmn_cl import registry
from pmn_cl.data.loader import Batches, BatchLoader, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.modules.caption import PROBABILITIES
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.sizes import DEPARTURES, SIZES, Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan, digest_of

Modules = Callable[..., dict[str, Any]]
Batch = Callable[..., dict[str, Tensor]]
Plans = Callable[..., ModulePlan]
BELOW = ("obj", "att", "rel", "cap", "cnt")
EVERY = (*BELOW, "vqa")
DESCRIBED = {"cnt": ("rel", "obj", "att")}


def network_of(made: dict[str, Any], memory: Memory | None = None) -> ModuleNetwork:
    network = ModuleNetwork(memory)
    for name, module in made.items():
        network.add(name, module)
    return network


def test_a_task_that_was_not_learned_is_refused(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan())
    network = network_of({name: made[name] for name in ("obj", "att")})
    assert "obj" in network
    assert "vqa" not in network
    with pytest.raises(UserError, match="task 'vqa' was not learned; learned: obj, att"):
        network(batch(), "vqa")
    with pytest.raises(UserError, match="task 'obj' was not learned; learned: none"):
        ModuleNetwork()(batch(), "obj")


@pytest.mark.parametrize(("task", "field"), [("rel", "box"), ("cnt", "question"), ("vqa", "mask")])
def test_a_batch_that_lacks_what_a_task_needs_is_refused(
    task: str, field: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    x = {name: value for name, value in batch().items() if name != field}
    with pytest.raises(UserError, match=f"the batch has no .*{field}"):
        network_of(modules(plan()))(x, task)


@pytest.mark.parametrize("task", EVERY)
def test_a_scene_without_regions_is_refused(
    task: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    x = batch()
    x["mask"][0] = False
    with pytest.raises(UserError, match="a scene has no regions"):
        network_of(modules(plan()))(x, task)


@pytest.mark.parametrize("task", EVERY)
def test_a_network_answers_as_its_modules_do(
    task: str, plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan())
    network = network_of(made)
    env = network.environment(batch(), task)
    expected = made[task].outputs(made[task](made[task].own_query(env), env), env)
    assert torch.equal(network(batch(), task), expected)


def test_it_owns_every_module_once(
    plan: Plans, modules: Modules, parameters: Callable[[Any], int]
) -> None:
    made = modules(plan())
    network = network_of(made)
    assert parameters(network) == sum(map(parameters, made.values()))
    assert len(list(network.parameters())) == len({id(p) for p in network.parameters()})


def test_a_teacher_reaches_those_who_are_teacher_forced(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    network = network_of(modules(plan()))
    words = torch.zeros(3, 16, dtype=torch.long)
    words[:, :4] = torch.tensor([3, 4, 5, 2])
    taught = network(batch(), "cap", teacher={"words": words})
    assert taught.shape == (3, 16, 6)
    assert (taught[:, :4] != 0).any(2).all()  # as long as the teacher's sentence
    assert (taught[:, 4:] == 0).all()
    teacher = {"words": words, "answers": words}
    assert "words" in network.environment(batch(), "cap", teacher=teacher).fields
    assert "answers" not in network.environment(batch(), "vqa", teacher=teacher).fields


def trained(network: ModuleNetwork, task: str, x: dict[str, Tensor], steps: int = 3) -> None:
    """Train a task's module for some steps, the way any optimizer would."""
    network.train()
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        network(x, task).square().sum().backward()
        optimizer.step()
    network.eval()


def test_training_a_caller_changes_no_bit_of_frozen_modules(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), frozen=BELOW)
    network = network_of(made)
    network.eval()
    before = {name: (digest_of(made[name]), network(batch(), name)) for name in BELOW}
    learning = digest_of(made["vqa"])
    trained(network, "vqa", batch())
    assert digest_of(made["vqa"]) != learning
    for name, (digest, answer) in before.items():
        assert digest_of(made[name]) == digest
        assert torch.equal(network(batch(), name), answer)


def test_in_training_mode_frozen_modules_stay_as_they_answer(plan: Plans, modules: Modules) -> None:
    made = modules(plan(), frozen=BELOW)
    network = network_of(made)
    network.train()
    assert made["vqa"].training
    assert all(part.training for part in made["vqa"].modules())
    assert not any(part.training for name in BELOW for part in made[name].modules())
    network.eval()
    assert not made["vqa"].training


def test_running_statistics_move_in_the_caller_alone(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), frozen=BELOW)
    network = network_of(made)
    before = {
        name: {key: value.clone() for key, value in made[name].named_buffers()} for name in made
    }
    network.train()
    network(batch(), "vqa")
    moved = {
        name
        for name, buffers in before.items()
        for key, value in made[name].named_buffers()
        if not torch.equal(value, buffers[key])
    }
    assert before["cap"]  # it has statistics that could move
    assert moved == {"vqa"}


def test_an_unfrozen_module_is_trained_with_its_caller(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), frozen=BELOW)
    identity = made["cnt"].identity
    made["cnt"].unfreeze()
    trained(network_of(made), "vqa", batch())
    made["cnt"].freeze()
    assert made["cnt"].identity != identity


def digit_plan(digits: Store, departures: Departures, gates: Gates) -> ModulePlan:
    sizes = Sizes(
        hidden=10,
        knowledge=11,
        attention=12,
        relation=9,
        relation_attention=13,
        caption=14,
        word=6,
        terminal=8,
    )
    return ModulePlan(WorldShape(128, digits.names), sizes, gates, departures)


def batches_of(digits: Store, split: str, task: str, percent: float = 100) -> Batches:
    samples = Samples.whole(digits, split, registry.load(registry.TASKS[task])())
    return Batches(samples.fraction(percent, seed=0), Scenes(digits, split))


@pytest.mark.parametrize("gates", [Gates(), Gates(kind="hard")], ids=["soft", "hard"])
@pytest.mark.parametrize("size", ["paper", "small"])
def test_memory_changes_no_answer(size: str, gates: Gates, digits: Store, modules: Modules) -> None:
    built = digit_plan(digits, DEPARTURES[size], gates)
    made = modules(built, calls=DESCRIBED, frozen=EVERY)
    memory = Memory()
    network, plain = network_of(made, memory), network_of(made)
    for split in ("train", "val"):
        for task in EVERY:
            batches = batches_of(digits, split, task)
            memory.attach_samples(task, batches)
            rows = torch.randperm(len(batches), generator=torch.Generator().manual_seed(1))[:40]
            x, _ = batches[rows]
            with torch.no_grad():
                # The second time, all of it is remembered.
                for found in (network(x, task), network(x, task)):
                    assert torch.allclose(found, plain(x, task), atol=1e-5)


def test_memory_gives_the_same_bits_in_whatever_order_samples_come(
    digits: Store, modules: Modules
) -> None:
    """Of what depends on the scene alone: the caption that M_vqa gets, and M_rel's boxes."""
    made = modules(digit_plan(digits, Departures(), Gates()), frozen=EVERY)
    kept: list[dict[int, Tensor]] = []
    batches = batches_of(digits, "val", "vqa")
    for size, epoch in ((16, 0), (150, 1)):
        network, seen = network_of(made, Memory()), {}
        network.memory.attach_samples("vqa", batches)
        for x, _ in BatchLoader(batches, size, epoch=epoch):
            env = network.environment(x, "vqa")
            with torch.no_grad():
                said = made["cap"](PROBABILITIES, env)
            seen.update(zip(env.scenes["scene"].tolist(), said, strict=True))
        kept.append(seen)
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(said, kept[1][scene]) for scene, said in kept[0].items())


def test_gradient_is_the_same_with_memory(digits: Store, modules: Modules) -> None:
    made = modules(digit_plan(digits, Departures(), Gates()), frozen=BELOW)
    memory = Memory()
    batches = batches_of(digits, "val", "vqa")
    memory.attach_samples("vqa", batches)
    x, _ = batches[torch.arange(0, 60, 3)]
    gradients = []
    for network in (network_of(made, memory), network_of(made)):
        network.zero_grad()
        network(x, "vqa").square().mean().backward()
        gradients.append({name: p.grad.clone() for name, p in made["vqa"].named_parameters()})
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-5), name


def test_beyond_its_limit_memory_changes_no_answer(digits: Store, modules: Modules) -> None:
    made = modules(digit_plan(digits, DEPARTURES["small"], Gates()), frozen=EVERY)
    memory = Memory(limit=50 * 24 * 8 * 4)  # one finding of M_obj about the split, no more
    batches = batches_of(digits, "val", "vqa")
    memory.attach_samples("vqa", batches)
    x, _ = batches[torch.arange(40)]
    with torch.no_grad():
        found = network_of(made, memory)(x, "vqa")
        assert torch.allclose(found, network_of(made)(x, "vqa"), atol=1e-5)


def test_other_samples_by_the_same_numbers_are_not_mixed_up(
    digits: Store, modules: Modules
) -> None:
    """The samples of a fraction have other numbers than those of the whole split."""
    made = modules(digit_plan(digits, DEPARTURES["small"], Gates()), frozen=EVERY)
    memory = Memory()
    network, plain = network_of(made, memory), network_of(made)
    for percent in (100, 20, 100):
        batches = batches_of(digits, "val", "vqa", percent)
        memory.attach_samples("vqa", batches)
        x, _ = batches[torch.arange(30)]
        with torch.no_grad():
            assert torch.allclose(network(x, "vqa"), plain(x, "vqa"), atol=1e-5)


def test_samples_that_were_not_attached_are_not_taken_for_others(
    digits: Store, modules: Modules
) -> None:
    made = modules(digit_plan(digits, DEPARTURES["small"], Gates()), frozen=EVERY)
    memory = Memory()
    memory.attach_samples("vqa", batches_of(digits, "val", "vqa"))
    x, _ = batches_of(digits, "val", "vqa", percent=20)[torch.arange(30)]
    with torch.no_grad():
        found, expected = network_of(made, memory)(x, "vqa"), network_of(made)(x, "vqa")
    assert torch.allclose(found, expected, atol=1e-5)


def test_what_a_frozen_module_remembers_follows_a_callee_that_learns_again(
    digits: Store, modules: Modules
) -> None:
    """As when M_vqa fine-tunes M_obj, which M_rel calls, too."""
    made = modules(digit_plan(digits, Departures(), Gates()), frozen=BELOW)
    memory = Memory()
    batches = batches_of(digits, "val", "rel")
    memory.attach_samples("rel", batches)
    network, plain = network_of(made, memory), network_of(made)
    x, _ = batches[torch.arange(20)]
    with torch.no_grad():
        network(x, "rel")
        made["obj"].unfreeze()
        made["obj"].project.weight.mul_(-1)
        assert torch.allclose(network(x, "rel"), plain(x, "rel"), atol=1e-5)


def test_a_trace_shows_calls_that_memory_would_save(digits: Store, modules: Modules) -> None:
    made = modules(digit_plan(digits, Departures(), Gates()), frozen=EVERY)
    memory = Memory()
    batches = batches_of(digits, "val", "vqa")
    memory.attach_samples("vqa", batches)
    network = network_of(made, memory)
    x, _ = batches[torch.arange(4)]
    with torch.no_grad():
        network(x, "vqa")  # all is remembered now
        trace = Trace()
        network(x, "vqa", trace=trace)
    assert trace.of("rel", "obj")
    assert len(trace.of("cap", "obj")) > 0


def test_a_replaced_module_is_called_by_all_its_callers(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), frozen=EVERY)
    network = network_of(made)
    identity = {name: made[name].identity for name in made}
    better = modules(plan(), seed=5)["obj"]
    network.replace("obj", better)
    assert network["obj"] is better
    # The same as a network that was built on it from the start.
    expected = modules(plan())
    expected["obj"].load_state_dict(better.state_dict())
    for name in EVERY:
        found = network(batch(), name)
        assert torch.allclose(found, network_of(expected)(batch(), name), atol=1e-6)
    changed = {name for name in made if network[name].identity != identity[name]}
    assert changed == {"obj", "rel", "cap", "cnt", "vqa"}
    assert not any(p.requires_grad for p in network.parameters())


def test_a_module_of_another_shape_cannot_replace_one(plan: Plans, modules: Modules) -> None:
    network = network_of(modules(plan(), frozen=EVERY))
    wide = modules(plan(SIZES["small"]))["obj"]
    with pytest.raises(UserError, match="'obj' cannot be replaced"):
        network.replace("obj", wide)
    with pytest.raises(UserError, match="'obj' cannot be replaced"):
        network.replace("obj", modules(plan())["att"])


def test_parts_that_are_shared_with_a_replaced_module_are_those_of_the_new_one(
    plan: Plans, modules: Modules, batch: Batch
) -> None:
    made = modules(plan(), calls=DESCRIBED)
    made["vqa"].share("cnt")
    network = network_of(made)
    other = modules(plan(), seed=5, calls=DESCRIBED)["cnt"]
    other.callees = made["cnt"].callees
    network.replace("cnt", other)
    assert made["vqa"].asking is other.asking
