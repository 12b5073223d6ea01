"""How long and how fast a task is trained: by hand, and the paper's settings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.strategy.training import TRAINING, NetworkOptions, TrainingSettings
from pmn_cl.tasks.base import LossTerms


def settings(**changes: Any) -> TrainingSettings:
    given = {"learning_rate": 0.01, "batch_size": 10, "epochs": 3, **changes}
    return TrainingSettings.model_validate(given)


@pytest.mark.parametrize(
    ("task", "rate", "batch", "epochs"),
    [  # appendix B.2, "Training"
        ("obj", 0.0005, 32, 20),
        ("att", 0.0005, 32, 20),
        ("cap", 0.0005, 64, 20),
        ("rel", 0.0005, 128, 20),
        ("cnt", 0.0001, 128, 20),
        ("vqa", 0.0005, 128, 7),
    ],
)
def test_the_papers_settings_are_the_papers(
    task: str, rate: float, batch: int, epochs: int
) -> None:
    found = TRAINING["paper"][task]
    assert (found.learning_rate, found.batch_size, found.epochs) == (rate, batch, epochs)
    # The paper says nothing of a schedule, of warm-up or of clipping.
    assert (found.schedule, found.warmup, found.clip) == ("constant", 0, None)
    assert found.steps(1000) == 1000 * epochs

    assert (found.beta2, found.by_scene, found.carried_lr) == (0.999, False, 1.0)  # torch's Adam
    assert found.loss == LossTerms()


def test_every_size_has_settings_for_all_six_tasks() -> None:
    for by_task in TRAINING.values():
        assert set(by_task) == {"obj", "att", "rel", "cap", "cnt", "vqa"}


@pytest.mark.parametrize(
    ("per_epoch", "budget", "least_steps", "steps"),
    [
        (10, 100, 0, 30),  # three epochs
        (10, 100, 30, 30),
        (10, 100, 31, 31),  # small fractions get more, up to the least
        (1, 100, 1000, 1000),
        (10, 50, 0, 15),  # one and a half epochs
        (10, 50, 20, 20),
        (11, 25, 0, 8),  # 8.25
        (10, 200, 0, 60),
        (1, 1, 0, 1),  # never none
    ],
)
def test_a_task_takes_its_share_of_all_epochs_and_at_least_the_least_steps(
    per_epoch: int, budget: float, least_steps: int, steps: int
) -> None:
    assert settings(least_steps=least_steps).steps(per_epoch, budget) == steps


def test_a_constant_rate_stays() -> None:
    assert [settings().learning_rate_at(step, 5) for step in range(5)] == [0.01] * 5


def test_warm_up_rises_evenly_and_the_step_after_it_is_the_first_at_full_rate() -> None:
    found = [settings(warmup=4).learning_rate_at(step, 100) for step in range(7)]
    assert found == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01, 0.01, 0.01])


def test_cosine_falls_from_the_full_rate_over_half_of_it_to_nothing() -> None:
    found = [settings(schedule="cosine").learning_rate_at(step, 8) for step in (0, 2, 4, 6, 8)]
    # (1 + cos 0, 45, 90, 135, 180 degrees) / 2
    assert found == pytest.approx([0.01, 0.0085355, 0.005, 0.0014645, 0.0], abs=1e-7)


def test_warm_up_and_cosine_multiply() -> None:
    found = settings(schedule="cosine", warmup=9).learning_rate_at(4, 16)
    assert found == pytest.approx(0.01 * (5 / 10) * (1 + math.sqrt(0.5)) / 2)


def test_the_rate_is_above_zero_at_every_step_taken() -> None:
    chosen = settings(schedule="cosine", warmup=50)
    assert all(chosen.learning_rate_at(step, 20) > 0 for step in range(20))  # cut in warm-up


def test_a_carried_part_starts_with_its_share_and_rises_evenly_to_all() -> None:
    found = [settings(carried_lr=0.2).carried_at(step, 8) for step in (0, 2, 4, 8)]
    assert found == pytest.approx([0.2, 0.4, 0.6, 1.0])
    assert [settings().carried_at(step, 8) for step in (0, 4, 8)] == [1, 1, 1]


def test_a_carried_part_rests_first_and_has_the_remaining_steps_to_rise() -> None:
    rested = settings(carried_rest=0.5, carried_lr=0.2)
    found = [rested.carried_at(step, 8) for step in (0, 3, 4, 6, 8)]
    assert found == pytest.approx([0.0, 0.0, 0.2, 0.6, 1.0])


def options(**training: Any) -> NetworkOptions:
    return NetworkOptions.model_validate({"training": training})


def test_a_changed_term_of_the_loss_leaves_the_others_as_they_are() -> None:
    usual = TRAINING["small"]
    changed = options(cnt={"loss": {"soft_count": 0.25}}, rel={"epochs": 3}).settings()
    assert changed["cnt"].loss == usual["cnt"].loss.model_copy(update={"soft_count": 0.25})
    assert changed["cnt"] == usual["cnt"].model_copy(update={"loss": changed["cnt"].loss})
    assert changed["rel"].loss == usual["rel"].loss
    assert changed["vqa"] == usual["vqa"]


def test_a_new_task_names_the_terms_it_wants_and_has_no_others() -> None:
    new = {"learning_rate": 0.1, "batch_size": 8, "epochs": 1}
    found = options(mine=new, yours={**new, "loss": {"every_box": 2.0}}).settings()
    assert found["mine"].loss == LossTerms()
    assert found["yours"].loss == LossTerms(every_box=2.0)


@pytest.mark.parametrize(
    "loss", [{"every_box": -1.0}, {"soft_counts": 1.0}, {"one_answer": 1.0}], ids=str
)
def test_terms_that_are_unknown_or_out_of_range_are_refused(loss: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(loss))):
        options(cnt={"loss": loss})


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 3},
        {"beta2": 1.0},
        {"carried_rest": -0.1},
        {"carried_rest": 1.0},
        {"carried_lr": 0.0},
        {"carried_lr": 1.5},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"batch_size": 0},
        {"epochs": 0},
        {"epochs": 1.5},
        {"least_steps": -1},
        {"warmup": -1},
        {"clip": 0.0},
        {"schedule": "linear"},
    ],
    ids=str,
)
def test_unknown_keys_and_values_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(changes))):
        settings(**changes)


def test_settings_cannot_be_changed_under_a_run() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().epochs = 5


def test_an_infinite_rate_is_refused() -> None:
    with pytest.raises(ValidationError):
        settings(learning_rate=math.inf)


@pytest.mark.parametrize("strategy", ["pmn", "ewc"])
def test_the_old_name_of_the_learning_rates_scale_is_answered_with_the_new_one(
    strategy: str, tmp_path: Path
) -> None:
    path = tmp_path / "stream.yaml"
    path.write_text(
        "name: old\nworld: digits\ntasks: [obj]\nstrategies:\n"
        f"  - {{name: {strategy}, rate: 3.0}}\nseeds: [0]\n"
    )
    with pytest.raises(UserError) as refused:
        load_spec(path)
    assert "5:5: strategies[0]: `rate` is called `lr_scale` now" in str(refused.value)
    assert "unknown key" not in str(refused.value)
