"""The auxiliary head that learns [b, r]: by hand, in every network, and where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from baselines.common.network import HeadsStrategy
from baselines.hard_sharing import HardSharing
from baselines.lwf import LearningWithoutForgetting
from baselines.multinet import Multinet
from baselines.pnn import ProgressiveColumns
from baselines.standard.rehearsal import Replay
from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience
from strategies.losses import query_loss

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "cnt"]
METHODS = [HardSharing, ProgressiveColumns, Multinet, LearningWithoutForgetting, Replay]


@pytest.fixture(scope="module")
def few(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, fraction=20)


def begun(method: type[HeadsStrategy], few: Experiences, **options: Any) -> Any:
    """Return a strategy that has learned obj and is ready to learn cnt."""
    strategy = method(options=method.Options.model_validate(options), seed=1, budget=5)
    strategy.expect([few["train"][task] for task in TASKS])
    strategy.learn(few["train"]["obj"], few["val"]["obj"])
    torch.manual_seed(0)
    strategy.prepare(few["train"]["cnt"])
    strategy.model.train()
    return strategy


def batch(experience: Experience) -> tuple[Any, Any]:
    return experience.batches[torch.arange(40).numpy()]


@pytest.mark.parametrize("method", METHODS)
def test_the_loss_has_the_cross_entropy_of_box_and_relation(
    method: type[HeadsStrategy], few: Experiences
) -> None:
    experience = few["train"]["cnt"]
    strategy = begun(method, few, supervise=["cnt"], supervision=0.25)
    x, y = batch(experience)
    needs = (y["ask_relation"] >= 0).nonzero().flatten().tolist()
    assert 0 < len(needs) < len(x)
    strategy.memory = strategy.memory[:0] if method is Replay else None  # of this batch alone
    with torch.no_grad(), strategy.network.queries_put("cnt") as queries:
        _, with_it = strategy.batch_loss(x, y, experience)
        _, without = strategy.task_batch_loss(x, y, experience)
    box, relation = queries[0]
    assert torch.allclose(box.sum(1), torch.ones(len(x)))  # padding has none
    relations = len(experience.samples.store.names["relations"])
    expected = 0.0
    for row in needs:
        code = int(y["ask_direction"][row]) * relations + int(y["ask_relation"][row])
        anchor = box[row][y["ask_boxes"][row] > 0].sum()  # any box of the anchor is right
        expected -= float(anchor.log() + relation[row, code].log()) / len(needs)
    assert float(with_it - without) == pytest.approx(0.25 * expected, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_without_it_nothing_is_added(method: type[HeadsStrategy], few: Experiences) -> None:
    strategy = begun(method, few)
    names = [name for name, _ in strategy.model.named_parameters()]
    assert not any("asks" in name for name in names)
    with strategy.network.queries_put("cnt") as queries, torch.no_grad():
        strategy.predict(few["val"]["cnt"])
    assert queries == []


@pytest.mark.parametrize("method", METHODS)
def test_it_teaches_attention_where_the_anchor_is(
    method: type[HeadsStrategy], few: Experiences
) -> None:
    strategy = begun(method, few, supervise=["cnt"], supervision=1.0)
    x, y = batch(few["train"]["cnt"])
    needs = y["ask_relation"] >= 0
    learning = strategy.learning(few["train"]["cnt"]).parameters()
    optimizer = torch.optim.Adam([p for p in learning if p.requires_grad], lr=0.005)
    on_anchor = []
    for _ in range(25):
        with strategy.network.queries_put("cnt") as queries:
            strategy.model(x, "cnt", teacher=y)
        on_anchor.append(float((queries[0].box * y["ask_boxes"]).sum(1)[needs].mean()))
        loss = query_loss(queries[0], y, len(few["train"]["cnt"].samples.store.names["relations"]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert on_anchor[0] < 0.3
    assert on_anchor[-1] > 0.9


@pytest.mark.parametrize(
    ("supervise", "said"),
    [(["count"], "supervise: unknown task 'count'"), (["obj"], "do not say what they ask")],
)
def test_a_task_that_asks_nothing_of_relations_is_refused(
    few: Experiences, supervise: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        begun(HardSharing, few, supervise=supervise)
