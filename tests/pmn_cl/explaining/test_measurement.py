"""Faithfulness of a whole run, against the same worked out from its explanations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pmn_cl.explaining.explainer import Explainer
from pmn_cl.explaining.measurement import measure_run
from pmn_cl.explaining.records.faithfulness import Measured

Opened = Callable[[str], Explainer]


def measured(explainer: Explainer, **asked: int) -> Measured:
    return measure_run(explainer, questions=100, **asked).splits["test"]


def test_attention_queries_and_gates_are_those_of_the_explanations(opened: Opened) -> None:
    explainer = opened("pmn")
    found = measured(explainer)
    ids = sorted(explainer.sample(100))
    table, kinds = explainer.store.table("test", "vqa"), explainer.kinds()
    mass, pointing, share = [], [], []
    asked: list[tuple[bool, bool]] = []
    widest: dict[bool, list[float]] = {True: [], False: []}
    names = explainer.store.names
    phrases = explainer.world.relation_phrases()
    for number, explanation in zip(ids, explainer.explain(ids), strict=True):
        count = len(explanation.boxes)
        about = table["about"].array[number][:count]
        looked = np.mean([step.attended for step in explanation.steps], axis=0)
        if about.any():
            mass.append(looked[about].sum())
            pointing.append(about[looked.argmax()])
            share.append(about.mean())
        gates = [step.gates["rel"] for step in explanation.steps]
        if kinds["relational"][number]:
            step = int(np.argmax(gates)) + 1
            query = next(
                c.query
                for c in explanation.calls
                if (c.depth, c.callee, c.step) == (0, "rel", step)
            )
            boxes = table["ask_boxes"].array[number][:count]
            relation = names["relations"][table["ask_relation"].array[number]]
            right = f"what is {phrases[relation]} it"  # questions seek the subject
            asked.append((boxes[np.argmax(query.boxes)], next(iter(query.chances)) == right))
        widest[bool(kinds["relational"][number])].append(max(gates))
    values = found.values
    assert values["attention mass"] == pytest.approx(np.mean(mass), abs=1e-4)
    assert values["pointing"] == pytest.approx(np.mean(pointing))
    assert found.chance["pointing"] == pytest.approx(np.mean(share))
    assert values["asked box"] == pytest.approx(np.mean([b for b, _ in asked]))
    assert values["asked relation"] == pytest.approx(np.mean([r for _, r in asked]))
    assert values["asked both"] == pytest.approx(np.mean([b and r for b, r in asked]))
    assert found.chance["asked relation"] == pytest.approx(1 / 14)
    assert values["gate rel, relational"] == pytest.approx(np.mean(widest[True]), abs=1e-4)
    assert values["gate rel, others"] == pytest.approx(np.mean(widest[False]), abs=1e-4)


def test_differences_are_those_of_their_parts_and_removal_is_told_by_module(opened: Opened) -> None:
    values = measured(opened("pmn")).values
    for what in ("changed", "drop"):
        for ours, theirs, apart in (
            ("named removed", "other removed", "named - other removed"),
            ("attended masked", "others masked", "attended - others masked"),
        ):
            difference = values[f"{ours}: {what}"] - values[f"{theirs}: {what}"]
            assert values[f"{apart}: {what}"] == pytest.approx(difference, abs=1e-6)
        for callee in ("Ω", "rel", "obj", "att", "Δ", "cnt", "cap"):
            assert -1 <= values[f"without {callee}: {what}"] <= 1
    assert values["regions masked"] >= 1


def test_the_baseline_has_attention_and_masking_alone(opened: Opened) -> None:
    found = measured(opened("independent"))
    assert {"attention mass", "pointing", "attended masked: changed"} <= found.values.keys()
    others = ("gate", "asked", "named", "other removed", "without")
    assert not [name for name in found.values if name.startswith(others)]


def test_the_same_questions_come_to_the_same(opened: Opened) -> None:
    explainer = opened("pmn")
    first, again = measured(explainer), measured(explainer)
    assert first.values == again.values
    assert measured(explainer, seed=1).values != first.values


def test_a_record_says_whose_it_is(opened: Opened) -> None:
    explainer = opened("pmn")
    reports: list[tuple[int, int]] = []
    record = measure_run(explainer, questions=10_000, progress=lambda *at: reports.append(at))
    assert (record.run, record.seed) == (explainer.result.key, 0)
    assert record.weights == explainer.result.weights[-1]
    assert record.splits["test"].questions == 600  # no more than there are
    assert reports[-1][0] == reports[-1][1]
