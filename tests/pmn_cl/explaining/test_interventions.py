"""What a network does without a part of itself, against networks that never had that part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.explaining.explainer import Explainer
from pmn_cl.explaining.interventions import masked, observe, probabilities, shut, without
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.tasks.base import LossTerms

Opened = Callable[[str], Explainer]
GROUP = ["obj", "att", "cap"]
TERMS = LossTerms(one_answer=True)


def gates(*values: float) -> dict[str, torch.Tensor]:
    return {k: torch.tensor([value]) for k, value in zip(GROUP, values, strict=True)}


def test_a_gate_that_shuts_leaves_its_share_to_the_others() -> None:
    found = shut(gates(0.5, 0.3, 0.2), GROUP, "obj")
    assert {k: float(v) for k, v in found.items()} == pytest.approx(
        {"obj": 0.0, "att": 0.6, "cap": 0.4}
    )


def test_gates_that_share_nothing_stay_as_they_are() -> None:
    found = shut(gates(0.5, 0.9, 0.8), GROUP, "obj", shares=False)
    assert {k: float(v) for k, v in found.items()} == pytest.approx(
        {"obj": 0.0, "att": 0.9, "cap": 0.8}
    )


def test_where_all_others_are_shut_nothing_is_heard() -> None:
    found = shut(gates(1.0, 0.0, 0.0), GROUP, "obj")
    assert [float(v) for v in found.values()] == [0.0, 0.0, 0.0]


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.sampled_from(GROUP))
def test_what_a_group_has_stays_the_same_in_sum_and_proportion(
    values: list[float], callee: str
) -> None:
    before = gates(*values)
    after = shut(before, GROUP, callee)
    assert float(sum(after.values())) == pytest.approx(sum(values), rel=1e-4)
    one, other = (k for k in GROUP if k != callee)
    ratio = float(before[one] / before[other])
    assert float(after[one] / after[other]) == pytest.approx(ratio, rel=1e-4)


def batch(explainer: Explainer, count: int) -> dict[str, torch.Tensor]:
    x, _ = explainer.experience("test").batches[torch.arange(count)]
    return dict(x.items())


@pytest.mark.parametrize("callee", ["Ω", "rel", "att", "Δ", "cap"])
def test_removal_is_what_a_softmax_does_whose_score_is_hopeless(
    lively: tuple[ModuleNetwork, dict[str, torch.Tensor]], callee: str
) -> None:
    network, x = lively
    module = network["vqa"]
    assert isinstance(module, AnswerModule)
    layer = module.G
    before = probabilities(network, x, TERMS)
    with without(network, callee):
        removed = probabilities(network, x, TERMS)
    place = [k for group in layer.groups for k in group].index(callee)
    kept = {name: value.clone() for name, value in layer.state_dict().items()}
    try:
        with torch.no_grad():
            layer.scores.weight[place] = 0
            layer.scores.bias[place] = -1e4
        expected = probabilities(network, x, TERMS)
    finally:
        layer.load_state_dict(kept)
    assert removed == pytest.approx(expected, abs=1e-5)
    assert probabilities(network, x, TERMS) == pytest.approx(before)  # it comes back
    assert abs(removed - before).max() > 0.001


def test_masked_regions_are_as_if_they_had_never_been_there(
    lively: tuple[ModuleNetwork, dict[str, torch.Tensor]],
) -> None:
    network, some = lively
    x = {name: value[:1] for name, value in some.items()}
    there = int(x["mask"].sum())
    hidden = np.zeros(x["mask"].shape, dtype=bool)
    hidden[0, [0, 3]] = True
    found = probabilities(network, masked(x, hidden), TERMS)
    left = [region for region in range(there) if region not in (0, 3)]
    fewer = {name: x[name][:, left] for name in ("regions", "boxes", "mask")}
    expected = probabilities(network, {**fewer, "question": x["question"]}, TERMS)
    assert found == pytest.approx(expected, abs=1e-5)
    assert abs(found - probabilities(network, x, TERMS)).max() > 0.001


def test_what_is_observed_is_what_is_explained(opened: Opened) -> None:
    explainer = opened("pmn")
    seen = observe(explainer.network, batch(explainer, 5), TERMS)
    for row, found in enumerate(explainer.explain(range(5))):
        assert seen.probabilities[row].max() == pytest.approx(found.confidence, abs=1e-5)
        count = len(found.boxes)
        for number, step in enumerate(found.steps):
            assert seen.attended[row, number, :count] == pytest.approx(step.attended, abs=1e-5)
            for callee, gate in step.gates.items():
                assert seen.gates[callee][row, number] == pytest.approx(gate, abs=1e-5)
        assert not seen.attended[row, :, count:].any()
        asked = next(call for call in found.calls if call.callee == "rel" and call.depth == 0)
        assert seen.asked_box is not None
        assert seen.asked_box[row, 0, :count] == pytest.approx(asked.query.boxes, abs=1e-5)


def test_the_baseline_asks_nobody(opened: Opened) -> None:
    seen = observe(opened("independent").network, batch(opened("independent"), 3), TERMS)
    assert (seen.asked_box, seen.asked_relation) == (None, None)
    assert sorted(seen.gates) == ["Δ", "Ω"]


def test_answers_that_were_learned_to_compete_have_probabilities_that_sum_to_one(
    opened: Opened,
) -> None:
    """Learned by one softmax, two answers cannot both be sure; by a sigmoid each, they can."""
    explainer = opened("pmn")
    network, x = explainer.network, batch(explainer, 5)
    assert explainer.terms.one_answer
    assert probabilities(network, x, explainer.terms).sum(1) == pytest.approx(1)
    logits = network(x, "vqa").detach()
    each = probabilities(network, x, LossTerms())
    assert each == pytest.approx(1 / (1 + (-logits).exp().numpy()), abs=1e-6)
