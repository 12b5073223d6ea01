from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from baselines.constant import Constant
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask


def experience(store: Store, split: str, task: Task) -> Any:
    return SimpleNamespace(task=task, samples=Samples.whole(store, split, task))


def test_it_answers_what_was_most_common_in_training(digits: Store) -> None:
    strategy = Constant()
    train, val, test = (
        experience(digits, split, CountTask()) for split in ("train", "val", "test")
    )
    strategy.learn(train, val)
    counts = train.samples.columns["count"].tolist()
    most_common = max(set(counts), key=counts.count)
    assert strategy.predict(test).tolist() == [most_common] * len(test.samples)
    assert strategy.score(train)["accuracy"] == counts.count(most_common) / len(counts)


def test_it_never_forgets(digits: Store) -> None:
    strategy = Constant()
    objects = experience(digits, "train", ObjectTask())
    strategy.learn(objects, objects)
    before = strategy.predict(objects).copy()
    answers = experience(digits, "train", AnswerTask())
    strategy.learn(answers, answers)
    assert (strategy.predict(objects) == before).all()
    assert before.shape == (300, 24, 5)


def test_a_task_it_has_not_seen_is_refused(digits: Store) -> None:
    strategy = Constant()
    objects = experience(digits, "train", ObjectTask())
    strategy.learn(objects, objects)
    with pytest.raises(UserError, match="'cnt' was not learned; learned: obj"):
        strategy.predict(experience(digits, "test", CountTask()))
