"""Which epoch is kept, when to validate and when to stop: by hand, without a training."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pmn_cl.errors import UserError
from pmn_cl.strategy.training import TrainingSettings
from strategies.selection import Selection, validation_interval, validation_of


def higher(scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    return scores["obj"] > best["obj"]


def after(selection: Selection, learning: nn.Linear, *scores: float) -> Selection:
    """Validate epochs of such scores; the weights of an epoch are its score."""
    for score in scores:
        with torch.no_grad():
            learning.weight.fill_(score)
        selection.consider({"obj": score}, learning, higher)
    return selection


def test_the_first_of_the_best_epochs_is_kept() -> None:
    learning = nn.Linear(1, 1, bias=False)
    selection = after(Selection(), learning, 0.25, 0.75, 0.5)
    assert selection.load_best(learning) == {"obj": 0.75}
    assert learning.weight.item() == 0.75


def test_without_validation_nothing_is_chosen() -> None:
    learning = nn.Linear(1, 1, bias=False)
    selection = Selection(patience=1)
    selection.consider({}, learning, higher)
    with torch.no_grad():
        learning.weight.fill_(9.0)
    assert selection.load_best(learning) == {}
    assert learning.weight.item() == 9.0
    assert not selection.out_of_patience
    assert selection.state() == ({}, {})


def test_patience_counts_validations_in_a_row_without_a_gain() -> None:
    learning = nn.Linear(1, 1)
    assert not after(Selection(patience=2), learning, 0.5, 0.4, 0.6, 0.6).out_of_patience
    assert after(Selection(patience=2), learning, 0.5, 0.5, 0.4).out_of_patience
    assert not after(Selection(), learning, *[0.5] * 20).out_of_patience  # 0: go on


def test_a_selection_goes_on_from_its_state() -> None:
    learning = nn.Linear(1, 1, bias=False)
    tensors, facts = after(Selection(patience=2), learning, 0.75, 0.5).state()
    resumed = Selection(patience=2)
    resumed.load_state(tensors, facts)
    assert not resumed.out_of_patience
    after(resumed, learning, 0.5)
    assert resumed.out_of_patience
    assert resumed.load_best(learning) == {"obj": 0.75}
    assert learning.weight.item() == 0.75


@pytest.mark.parametrize(
    ("epochs", "budget", "expected"),
    [
        (4, 100.0, 1),
        (40, 100.0, 10),  # few samples: ten times as many epochs, validated as often
        (41, 100.0, 11),
        (1, 25.0, 1),
        (8, 200.0, 1),  # twice the budget is twice as many validations
    ],
)
def test_many_short_epochs_are_validated_as_often_as_usual(
    epochs: int, budget: float, expected: int
) -> None:
    settings = TrainingSettings(learning_rate=0.1, batch_size=10, epochs=4)
    interval = validation_interval(settings, epochs, budget)
    assert interval == expected
    due = [epoch for epoch in range(1, epochs + 1) if Selection(0, interval).is_due(epoch)]
    assert len(due) == epochs // expected


def experience(label: int) -> Any:
    return SimpleNamespace(task_label=label, task=SimpleNamespace(name=f"task {label}"))


def test_validation_samples_are_those_of_the_task() -> None:
    learned, own, other = experience(1), experience(1), experience(2)
    assert validation_of(learned, [[other, own]]) is own
    assert validation_of(learned, [own]) is own
    assert validation_of(learned, None) is None
    assert validation_of(learned, [[learned]]) is None  # as Avalanche gives it
    with pytest.raises(UserError, match="no validation samples of 'task 1'"):
        validation_of(learned, [[other]])
