from __future__ import annotations

import pytest

from baselines.constant import Constant
from pmn_cl.errors import UserError
from pmn_cl.samples import Samples
from pmn_cl.store import Store
from pmn_cl.tasks import AnswerTask, CountTask, ObjectTask


def test_it_answers_what_was_most_common_in_training(digits: Store) -> None:
    strategy = Constant()
    train, test = (Samples.whole(digits, split, CountTask()) for split in ("train", "test"))
    strategy.learn(train)
    counts = train.columns["count"].tolist()
    most_common = max(set(counts), key=counts.count)
    assert strategy.predict(test).tolist() == [most_common] * len(test)


def test_it_never_forgets(digits: Store) -> None:
    strategy = Constant()
    objects = Samples.whole(digits, "train", ObjectTask())
    strategy.learn(objects)
    before = strategy.predict(objects).copy()
    strategy.learn(Samples.whole(digits, "train", AnswerTask()))
    assert (strategy.predict(objects) == before).all()
    assert before.shape == (300, 24, 5)


def test_a_task_it_has_not_seen_is_refused(digits: Store) -> None:
    strategy = Constant()
    strategy.learn(Samples.whole(digits, "train", ObjectTask()))
    with pytest.raises(UserError, match="'cnt' was not learned; learned: obj"):
        strategy.predict(Samples.whole(digits, "test", CountTask()))
