"""Hard sharing: what is shared, what is forgotten, and how tasks are mixed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from baselines.hard_sharing import HardSharing, HardSharingCumulative, HardSharingJoint
from baselines.options import HeadsOptions
from benchmarks.avalanche_stream import collate
from pmn_cl.errors import UserError
from pmn_cl.strategy.avalanche import import_avalanche
from strategies.loaders import EpochBatches, StagedBatches

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel"]


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


def make(kind: type[HardSharing], budget: float = 10.0, **options: Any) -> Any:
    return kind(options=HeadsOptions.model_validate(options), seed=1, budget=budget)


def learn(strategy: Any, experiences: Experiences, tasks: list[str] = TASKS) -> None:
    train, val = ([experiences[split][task] for task in tasks] for split in ("train", "val"))
    strategy.learn_all(train, val)


class Batches:
    """Writes down which task each step was about, and at which learning rate."""

    def __init__(self, strategy: Any) -> None:
        self.tasks: list[str] = []
        self.rates: list[float] = []
        strategy.on_step = self
        self._strategy = strategy

    def __call__(self) -> None:
        label = int(self._strategy.mb_y["task"][0])
        self.tasks.append(self._strategy.experiences[label].task.name)
        self.rates.append(self._strategy.optimizer.param_groups[0]["lr"])


def test_sequential_learning_changes_the_trunk_and_leaves_old_heads(
    experiences: Experiences,
) -> None:
    strategy = make(HardSharing)
    learn(strategy, experiences, ["obj"])
    head = strategy.network.heads["obj"].scores.weight.clone()
    trunk = strategy.network.trunk.regions.first.weight.clone()
    learn(strategy, experiences, ["att"])
    assert (strategy.network.heads["obj"].scores.weight == head).all()
    assert (strategy.network.trunk.regions.first.weight != trunk).any()


def test_sequential_learning_forgets(experiences: Experiences) -> None:
    strategy = make(HardSharing, budget=60)
    learn(strategy, experiences, ["obj"])
    before = strategy.score(experiences["val"]["obj"])["top1"]
    learn(strategy, experiences, ["att"])
    assert strategy.score(experiences["val"]["obj"])["top1"] < before - 0.02


def own_steps(strategy: Any, experiences: Experiences) -> dict[str, int]:
    found = {}
    for task in TASKS:
        settings = strategy.settings[task]
        per_epoch = -(-len(experiences["train"][task].samples) // settings.batch_size)
        found[task] = round(settings.epochs * per_epoch * strategy.budget / 100)
    return found


def test_joint_learning_gives_every_task_the_steps_it_would_have_alone(
    experiences: Experiences,
) -> None:
    strategy = make(HardSharingJoint)
    seen = Batches(strategy)
    learn(strategy, experiences)
    wanted = own_steps(strategy, experiences)
    assert Counter(seen.tasks) == wanted
    # Mixed: every task comes in the first and in the last third of the steps.
    third = len(seen.tasks) // 3
    assert set(seen.tasks[:third]) == set(seen.tasks[-third:]) == set(TASKS)
    alone = make(HardSharing)
    learn(alone, experiences)
    assert strategy.samples_seen == alone.samples_seen


def test_joint_learning_uses_each_tasks_own_learning_rate(experiences: Experiences) -> None:
    rates = {"obj": 1e-3, "att": 2e-3, "rel": 4e-3}
    constant = {"schedule": "constant", "warmup": 0}
    training = {task: {"learning_rate": rate, **constant} for task, rate in rates.items()}
    strategy = make(HardSharingJoint, training=training)
    seen = Batches(strategy)
    learn(strategy, experiences)
    assert {(task, rates[task]) for task in TASKS} == set(zip(seen.tasks, seen.rates, strict=True))


def test_in_joint_learning_a_task_warms_up_as_slowly_as_it_would_alone(
    experiences: Experiences,
) -> None:
    """By its share of all steps: others between its own do not make its warm-up shorter."""
    own = own_steps(make(HardSharingJoint), experiences)["rel"]
    training = {"rel": {"learning_rate": 0.1, "schedule": "constant", "warmup": own}}
    strategy = make(HardSharingJoint, training=training)
    seen = Batches(strategy)
    learn(strategy, experiences)
    steps = len(seen.tasks)
    found = {n: rate for n, rate in enumerate(seen.rates) if seen.tasks[n] == "rel"}
    expected = {n: 0.1 * (n * own // steps + 1) / (own + 1) for n in found}
    assert steps > 2 * own > 2
    assert found == pytest.approx(expected)


def test_joint_learning_leaves_nothing_out_at_first(experiences: Experiences) -> None:
    rel = experiences["train"]["rel"]
    some = np.arange(len(rel.samples) // 2)
    staged = copy.copy(rel)
    staged.curriculum = ((50.0, some),)
    one_by_one, at_once = (
        make(kind).batches_of(staged) for kind in (HardSharing, HardSharingJoint)
    )
    assert isinstance(one_by_one, StagedBatches)
    assert isinstance(at_once, EpochBatches) and at_once.rows is None


def test_joint_learning_answers_all_tasks_and_keeps_the_best_part_for_all(
    experiences: Experiences,
) -> None:
    strategy = make(HardSharingJoint)
    learn(strategy, experiences)
    scores = {
        task: strategy.score(experiences["val"][task])[experiences["val"][task].task.metric]
        for task in TASKS
    }
    assert strategy.validation_scores == scores


def test_cumulative_learning_takes_a_step_of_an_earlier_task_for_each_new_one(
    experiences: Experiences,
) -> None:
    strategy = make(HardSharingCumulative)
    wanted = own_steps(strategy, experiences)
    learn(strategy, experiences, ["obj", "att"])
    seen = Batches(strategy)
    learn(strategy, experiences, ["rel"])
    counts = Counter(seen.tasks)
    assert counts["rel"] == wanted["rel"]
    assert counts["obj"] + counts["att"] == wanted["rel"]
    assert abs(counts["obj"] - counts["att"]) <= 1


def test_what_is_learned_again_comes_in_another_order_each_time(experiences: Experiences) -> None:
    strategy = make(HardSharingCumulative)
    firsts = []
    for task in TASKS:
        learn(strategy, experiences, [task])
        course = next(c for c, _ in strategy._shares if c.experience.task.name == "obj")
        firsts.append(next(course.from_step(0))[0]["sample"].tolist())
    assert len({tuple(first) for first in firsts}) == 3


@pytest.mark.parametrize(
    ("scores", "is_better"),
    [
        ({"a": 0.5, "cap": 2.3}, False),  # a larger sum, but a fell by more than cap rose
        ({"a": 0.6, "cap": 2.1}, True),
        ({"a": 0.66, "cap": 1.9}, True),
        ({"a": 0.6, "cap": 2.0}, False),
    ],
)
def test_joint_epochs_are_compared_task_by_task(scores: dict[str, float], is_better: bool) -> None:
    best = {"a": 0.6, "cap": 2.0}
    assert make(HardSharingJoint).better(scores, best) is is_better


def test_rate_changes_the_learning_rate_of_every_task() -> None:
    usual, faster = (HeadsOptions(lr_scale=rate).settings() for rate in (1.0, 2.0))
    for task, settings in usual.items():
        assert faster[task].learning_rate == pytest.approx(2 * settings.learning_rate)
        assert faster[task].epochs == settings.epochs


def test_width_is_that_of_every_layer(experiences: Experiences) -> None:
    strategy = make(HardSharing, width=20, attention=9)
    strategy.build([experiences["train"][task] for task in TASKS])
    assert strategy.network.trunk.regions.second.weight.shape == (20, 20)
    assert strategy.network.heads["rel"].point.g[0].out_features == 9
    counted = sum(p.numel() for p in strategy.network.parameters())
    assert strategy.parameter_count() == (counted, counted)


def test_nothing_learned_is_nothing_answered(experiences: Experiences) -> None:
    with pytest.raises(UserError, match="'obj' was not learned; learned: none"):
        make(HardSharing).predict(experiences["test"]["obj"])


def test_what_was_kept_answers_alike_and_other_experiences_are_refused(
    experiences: Experiences, tmp_path: Any
) -> None:
    strategy, again = make(HardSharing), make(HardSharing)
    learn(strategy, experiences, ["obj", "att"])
    strategy.save(tmp_path)
    with pytest.raises(UserError, match="learned obj, att, not obj"):
        again.load(tmp_path, [experiences["train"]["obj"]])
    again.load(tmp_path, [experiences["train"][task] for task in ("obj", "att")])
    for task in ("obj", "att"):
        ours, theirs = (s.predict(experiences["test"][task]) for s in (strategy, again))
        assert np.array_equal(ours, theirs)
    other = make(HardSharing, width=12)
    with pytest.raises(UserError, match="does not fit this strategy's options"):
        other.load(tmp_path, [experiences["train"][task] for task in ("obj", "att")])


def test_batches_that_mix_tasks_weigh_each_by_its_samples(experiences: Experiences) -> None:
    """As loaders of Avalanche's give them: also tasks whose inputs have the same columns."""
    strategy = make(HardSharing)
    strategy.build([experiences["train"][task] for task in TASKS])

    def loss_of(task: str, outputs: Any, y: Any) -> float:
        terms = strategy.settings[task].loss
        return experiences["train"][task].task.training_loss(outputs, y, terms).item()

    chosen = [("obj", 0), ("att", 1), ("obj", 2), ("rel", 3), ("att", 4)]
    for some in (chosen, [(task, row) for task, row in chosen if task != "rel"]):
        items = [
            (*experiences["train"][task].batches[row], TASKS.index(task)) for task, row in some
        ]
        x, y, _ = collate(items)
        mixed = strategy.task_loss(strategy.network(x), y)
        alone = []
        for task, row in some:
            one_x, one_y = experiences["train"][task].batches[np.array([row])]
            outputs = strategy.network(one_x, task, teacher=one_y)
            alone.append((task, loss_of(task, outputs, one_y)))
        # obj and att average over regions, so samples of a task count by their regions there.
        expected = 0.0
        for task in {task for task, _ in some}:
            rows = np.array([row for name, row in some if name == task])
            some_x, some_y = experiences["train"][task].batches[rows]
            outputs = strategy.network(some_x, task, teacher=some_y)
            expected += len(rows) / len(some) * loss_of(task, outputs, some_y)
        assert mixed.item() == pytest.approx(expected, rel=1e-5)
        assert min(loss for _, loss in alone) < mixed.item() < max(loss for _, loss in alone)


class SpoilHead(SupervisedPlugin):
    """Makes the outputs of one task's head not finite, before the first step."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task = task

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        with torch.no_grad():
            next(strategy.network.heads[self.task].parameters()).fill_(float("nan"))


@pytest.mark.parametrize("kind", [HardSharingJoint, HardSharingCumulative])
def test_a_loss_that_is_not_finite_names_the_task_of_its_batch(
    experiences: Experiences, kind: type[HardSharing]
) -> None:
    """Not the task that is learned last, whose query a batch of another task does not have."""
    strategy = kind(seed=1, budget=10.0)
    if kind is HardSharingCumulative:
        learn(strategy, experiences, ["obj"])
    strategy.plugins.append(SpoilHead("obj"))
    tasks = ["obj", "rel"] if kind is HardSharingJoint else ["rel"]
    with pytest.raises(UserError, match=r"the task 'obj' is nan at step \d+: .* that of M_obj"):
        learn(strategy, experiences, tasks)
