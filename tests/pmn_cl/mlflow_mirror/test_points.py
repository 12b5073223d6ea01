"""What MLflow gets to see of a validation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from made_results import FIELD, result

from pmn_cl.mlflow_mirror.points import over_seeds, points_of


def test_a_validation_is_points_by_step_with_families_attention_and_gates() -> None:
    event: dict[str, Any] = {"event": "epoch", "time": 2.5, "task": "b", "step": 40}
    event |= {"loss": 1.25, "score": 0.5, "gates": {"Ω": 0.75}}
    event |= {"families": {"same": 0.5}, "mass": {"same": 0.125}}
    older = {"event": "epoch", "time": 1.0, "task": "a", "step": 9, "loss": 2.0, "score": 0.25}
    found = list(points_of(result("pmn", 0, [], status="running"), [older, event]))
    assert found == [
        ("learning/a/loss", 2.0, 1000, 9),
        ("learning/a/score", 0.25, 1000, 9),
        ("learning/b/loss", 1.25, 2500, 40),
        ("learning/b/score", 0.5, 2500, 40),
        ("learning/b/family same", 0.5, 2500, 40),
        ("learning/b/attention same", 0.125, 2500, 40),
        ("learning/b/gate Ω", 0.75, 2500, 40),
    ]


def test_scores_inside_tasks_go_on_by_the_steps_of_the_run() -> None:
    curves = {"a": [{"step": 40, "loss": 1.0, "score": 0.5}]}
    probe = {"test": [[0.5, None]], "probe": [[0.5, None]]}
    one = result("pmn", 0, [], status="running", scores=probe, curves=curves)
    events: list[dict[str, Any]] = [
        {"event": "inside", "time": 1.0, "phase": 0, "step": 4, "scores": {"a": 0.25}},
        {"event": "inside", "time": 2.0, "phase": 1, "step": 1, "scores": {"a": 0.5, "b": 0.125}},
    ]
    assert list(points_of(one, events)) == [
        ("inside/a", 0.25, 1000, 4),
        ("inside/a", 0.5, 2000, 41),
        ("inside/b", 0.125, 2000, 41),
    ]


def test_over_seeds_scores_are_also_normalised_by_hand() -> None:
    found = {(name, measure): values for name, measure, _, values in over_seeds(FIELD)}
    # (0.8 − 0.2)/0.8 and (0.7 − 0.1)/0.5; with seed 1 (0.9 − 0.2)/0.8 and (0.6 − 0.1)/0.5.
    by_hand = [(0.75 + 1.2) / 2, (0.875 + 1.0) / 2]
    assert found["pmn", "normalised average"] == pytest.approx(by_hand)
    assert found["pmn", "normalised IQM over tasks"] == pytest.approx(
        by_hand
    )  # of two, nothing is cut off
    assert found["pmn", "forgetting_ first _ last"] == [0.0, 0.0]
    # What MLflow takes: it refuses a whole batch for one name.
    assert all(re.fullmatch(r"[\w\-./ :]+", measure) for _, measure in found)
    alone = [run for run in FIELD if run.strategy == "pmn"]
    assert "normalised average" not in {measure for _, measure, _, _ in over_seeds(alone)}
