"""Where PMN's modules start: at the scale of what they get, but not at the paper's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pmn_cl.modules.layers import GatedTanh, ScaledLinear, SoftAttention, start_scaled
from pmn_cl.modules.question import QuestionParts
from pmn_cl.modules.sizes import DEPARTURES, Departures
from pmn_cl.modules.task_module import TaskModule, digest_of, identity_of
from pmn_cl.modules.terminal import ObjectModule
from strategies.module_factory import ModuleFactory
from strategies.options import PmnOptions
from strategies.pmn import Progressive

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, 10.0)


def built(experiences: Experiences, **options: Any) -> Progressive:
    torch.manual_seed(0)
    strategy = Progressive(options=PmnOptions.model_validate(options))
    strategy.build(experiences["train"].values())
    return strategy


def parts_of(strategy: Progressive, kind: type) -> list[Any]:
    return [part for part in strategy.network.modules() if isinstance(part, kind)]


def test_every_junction_of_every_module_starts_scaled(experiences: Experiences) -> None:
    strategy = built(experiences, asking="own")
    for part in parts_of(strategy, ScaledLinear):
        assert not part.bias.any()
        assert float(part.weight.var()) == pytest.approx(2 / part.in_features, rel=0.25)
    for part in parts_of(strategy, SoftAttention):
        assert float(part.z.weight.std()) == pytest.approx(part.z.in_features**-0.5, rel=0.25)
    for part in parts_of(strategy, GatedTanh):
        assert not part.value.bias.any()
    assert all(parts_of(strategy, kind) for kind in (ScaledLinear, SoftAttention, GatedTanh))


def test_what_is_copied_from_m_cnt_is_not_started_anew(experiences: Experiences) -> None:
    strategy = built(experiences, asking="copies")
    counting, answering = (part.state_dict() for part in parts_of(strategy, QuestionParts))
    assert all(torch.equal(value, answering[name]) for name, value in counting.items())
    assert strategy.network["vqa"].copied


@pytest.mark.parametrize("given", [{"size": "paper"}, {"departures": {"scaled_start": False}}])
def test_without_the_departure_layers_start_as_torch_has_it(
    given: dict[str, Any], experiences: Experiences, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(parts: Any) -> None:
        raise AssertionError("a scaled start was not asked for")

    monkeypatch.setattr("strategies.module_factory.start_scaled", refuse)
    strategy = built(experiences, **given)
    assert all(part.bias.any() for part in parts_of(strategy, ScaledLinear))


# Whom each departure concerns, by docs/departures.md.
CONCERNS = {
    "positions": ["rel"],
    "caption_positions": ["cap"],
    "scaled_start": ["rel", "cap", "cnt", "vqa"],
    "singulars": ["cnt", "vqa"],
    "shared_projection": ["cnt", "vqa"],
    "supervise_encoder": ["cnt", "vqa"],
    "relation_receiver": ["cnt"],
    "count_layer": ["cnt"],
    "count_boxes": ["cnt"],
    "question_answers": ["vqa"],
    "joint_steps": ["vqa"],
    "own_question": ["vqa"],
    "question_as_state": ["vqa"],
}


@pytest.mark.parametrize("departure", Departures.model_fields)
def test_a_departure_makes_just_those_modules_others_that_it_concerns(
    departure: str, experiences: Experiences
) -> None:
    """Whatever else departs, a module starts as it would, and is the same: it can be shared."""
    usual = DEPARTURES["small"]
    value = None if departure == "count_boxes" else not getattr(usual, departure)
    other = usual.model_copy(update={departure: value})
    callees: dict[str, TaskModule] = {}
    concerned = []
    for task, experience in experiences["train"].items():
        called = {name: callees[name] for name in experience.calls}
        made = []
        for departures in (usual, other):
            factory = ModuleFactory(PmnOptions(asking="own"), departures)
            torch.manual_seed(0)
            made.append(factory.build(experience, called))
            torch.manual_seed(0)
            told_all = replace(factory.plan(experience), departures=departures)
            twin = factory.module_class(experience)(told_all, called)
            if departures.scaled_start:
                start_scaled(twin.modules())
            assert digest_of(twin) == digest_of(made[-1])
        if identity_of(made[0]) != identity_of(made[1]):
            concerned.append(task)
        callees[task] = made[0]
    assert concerned == CONCERNS[departure]


class DepartingObjects(ObjectModule):
    """Built from M_obj; nobody can know in what it departs."""


def test_a_subclass_may_depart_in_anything(experiences: Experiences) -> None:
    options = PmnOptions(modules={"obj": f"{__name__}:DepartingObjects"})
    factory = ModuleFactory(options, DEPARTURES["small"])
    assert factory.plan(experiences["train"]["obj"]).departures == DEPARTURES["small"]
    assert factory.plan(experiences["train"]["att"]).departures == Departures()
