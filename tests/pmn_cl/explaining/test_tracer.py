"""What is traced in a network in which everything matters, against what its layers received."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.explaining.tracer import Tracer
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import END, PROBABILITIES, CaptionModule
from pmn_cl.modules.runtime.arithmetic import weighted_sum
from pmn_cl.modules.runtime.network import ModuleNetwork

Lively = tuple[ModuleNetwork, dict[str, Tensor]]


def tracer_of(network: ModuleNetwork) -> Tracer:
    return Tracer(network, network["vqa"].plan.shape.names, {"left": "left of"})


@pytest.fixture
def ending(lively: Lively) -> Lively:
    """The same, with captions that end sooner or later."""
    network, x = lively
    caption = network["cap"]
    assert isinstance(caption, CaptionModule)
    before = caption.speak.bias.data.clone()
    caption.speak.bias.data[END] += 2.0
    yield network, x
    caption.speak.bias.data = before


def test_listening_to_the_caption_is_what_the_receiver_heard(ending: Lively) -> None:
    network, x = ending
    module, received = network["vqa"], []
    assert isinstance(module, AnswerModule)
    hook = module.R["cap"].register_forward_pre_hook(lambda layer, given: received.append(given[0]))
    try:
        traced = tracer_of(network)(x)
    finally:
        hook.remove()
    with torch.no_grad():
        sentences = module.callees["cap"](PROBABILITIES, network.environment(x, "vqa"))
        words = sentences @ module.words.weight  # (B, 16, word)
    for row, one in enumerate(traced):
        for step, expected in zip(one["steps"], received, strict=True):
            shares, length = torch.zeros(1, words.shape[1]), len(one["caption"])
            shares[0, :length] = torch.tensor(step.listened)
            if not length:  # a caption without words: its end mark is heard
                shares[0, 0] = 1
            ours = weighted_sum(shares, words[row : row + 1])[0]
            assert torch.allclose(ours, expected[row], atol=1e-5)


def test_a_batch_tells_of_a_question_what_it_tells_alone(ending: Lively) -> None:
    """In double precision: what rounding does to one of twelve rows is no matter of tracing."""
    network = deepcopy(ending[0]).double()
    x = {name: v.double() if v.is_floating_point() else v for name, v in ending[1].items()}
    together = tracer_of(network)(x)
    assert len({len(one["caption"]) for one in together}) > 2  # some end before others
    for row in (0, 5, 11):
        (alone,) = tracer_of(network)({name: value[row : row + 1] for name, value in x.items()})
        one = together[row]
        assert (one["answer"], one["caption"]) == (alone["answer"], alone["caption"])
        assert [(c.number, c.caller, c.callee, c.step) for c in one["calls"]] == [
            (c.number, c.caller, c.callee, c.step) for c in alone["calls"]
        ]
        assert one["attended"] == pytest.approx(alone["attended"], abs=1e-12)


def test_padding_is_no_region(lively: Lively) -> None:
    network, x = lively
    for one, mask in zip(tracer_of(network)(x), x["mask"], strict=True):
        count = int(mask.sum())
        assert len(one["boxes"]) == len(one["regions"]) == len(one["attended"]) == count
        assert all(len(call.reply.boxes) in (0, count) for call in one["calls"])


def test_relations_are_asked_in_words(lively: Lively) -> None:
    network, x = lively
    asked = [c for one in tracer_of(network)(x) for c in one["calls"] if c.callee == "rel"]
    said = {phrase for call in asked for phrase in call.query.chances}
    assert said & {"what is left of it", "what it is left of", "what is same digit it"}
    assert all(phrase.startswith("what ") for phrase in said)


def test_a_module_of_another_kind_cannot_be_explained(lively: Lively) -> None:
    network = ModuleNetwork()
    network.add("vqa", lively[0]["cnt"])
    with pytest.raises(UserError, match="CountModule answers questions in a way of its own"):
        Tracer(network, {})
