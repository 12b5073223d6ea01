"""Learning without forgetting: its terms by hand, what it asks old tasks, and over a stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from baselines.hard_sharing import HardSharing
from baselines.lwf import DISTILLATIONS, LearningWithoutForgetting, OldNetwork, OldTaskQuery
from baselines.options import LwfOptions
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.tasks.base import FORMS

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]
SMALL = {"width": 16, "attention": 8}


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


def lwf(seed: int = 0, plugins: tuple[Any, ...] = (), **options: Any) -> LearningWithoutForgetting:
    """Learn with a small network and one short epoch per task, unless the options say otherwise."""
    training = {task: {"epochs": 1} for task in TASKS}
    given = {**SMALL, "training": training, **options}
    return LearningWithoutForgetting(
        options=LwfOptions.model_validate(given), seed=seed, plugins=plugins, budget=30
    )


def plain(seed: int = 0, **options: Any) -> HardSharing:
    training = {task: {"epochs": 1} for task in TASKS}
    given = {**SMALL, "training": training, **options}
    chosen = HardSharing.Options.model_validate(given)
    return HardSharing(options=chosen, seed=seed, budget=30)


def learn(strategy: HardSharing, experiences: Experiences, tasks: list[str]) -> None:
    for task in tasks:
        strategy.learn(experiences["train"][task], experiences["val"][task])


class Terms(SupervisedPlugin):
    """Writes down the terms of every step, by the task that was learned."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, list[dict[str, float]]] = {}

    def after_forward(self, strategy: Any, **kwargs: Any) -> None:
        self.steps.setdefault(strategy.experience.task.name, []).append(dict(strategy.terms))


# By hand. With T = 2, logits of 0 and 2 ln 3 are chances of 1/4 and 3/4.

LN2, LN3, LN4 = math.log(2), math.log(3), math.log(4)
OLD, NOW = [0.0, 2 * LN3], [2 * LN4, 0.0]  # chances (1/4, 3/4) and (4/5, 1/5)
CROSS = -(0.25 * math.log(0.8) + 0.75 * math.log(0.2))
ENTROPY = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
ANY = [7.0, -3.0]  # what must not count


def distilled(form: str, now: Any, old: Any, counted: Any, temperature: float = 2.0) -> float:
    mask = torch.tensor(counted, dtype=torch.bool)
    return float(DISTILLATIONS[form](torch.tensor(now), torch.tensor(old), mask, temperature))


def test_classes_are_softened_and_padding_is_left_out() -> None:
    now, old = [[NOW, OLD, ANY], [[0.0, 0.0], ANY, ANY]], [[OLD, OLD, OLD]] * 2
    mask = [[1, 1, 0], [1, 0, 0]]
    found = distilled("class", now, old, mask)
    assert found == pytest.approx((CROSS + ENTROPY + LN2) / 3, rel=1e-5)


def test_counts_are_softened() -> None:
    found = distilled("count", [NOW, OLD], [OLD, OLD], [[1], [1]])
    assert found == pytest.approx((CROSS + ENTROPY) / 2, rel=1e-5)
    plain_chances = distilled("count", [[0.0, 0.0]], [[0.0, LN3]], [[1]], temperature=1.0)
    assert plain_chances == pytest.approx(LN2, rel=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_labels_are_chances_of_their_own_at_any_temperature(temperature: float) -> None:
    # σ(ln 3) = 3/4, σ(−ln 4) = 1/5: of the first label the cross-entropy is as above.
    now, old = [[[-LN4, 0.0], ANY]], [[[LN3, 5.0], ANY[::-1]]]
    found = distilled("labels", now, old, [[1, 0]], temperature)
    assert found == pytest.approx((CROSS + LN2) / 2, rel=1e-5)


def test_answers_are_summed_and_averaged_over_samples() -> None:
    now, old = [[-LN4, 0.0, 0.0], [0.0, 0.0, -LN4]], [[LN3, 5.0, 1.0], [1.0, 0.0, LN3]]
    found = distilled("answer", now, old, [[1], [1]])
    assert found == pytest.approx((2 * CROSS + 4 * LN2) / 2, rel=1e-5)


@pytest.mark.parametrize("padding", [7.0, -1e4, -math.inf])
def test_pointing_diverges_over_the_boxes_that_are_there(padding: float) -> None:
    now, old = [[*NOW, padding], [*OLD, 3.0]], [[*OLD, padding], [*OLD, 3.0]]
    found = distilled("pointing", now, old, [[1, 1, 0], [1, 1, 1]])
    assert found == pytest.approx((CROSS - ENTROPY + 0) / 2, rel=1e-5)


def test_sentences_diverge_per_word_as_far_as_one_spoke() -> None:
    now, old = [[NOW, OLD, ANY], [NOW, ANY, ANY]], [[OLD, OLD, OLD]] * 2
    found = distilled("sentence", now, old, [[1, 1, 0], [1, 0, 0]])
    assert found == pytest.approx(2 * (CROSS - ENTROPY) / 3, rel=1e-5)
    assert distilled("sentence", now, old, [[0, 0, 0], [0, 0, 0]]) == 0  # nobody said a word


SHAPES = {"class": (4, 5, 3), "labels": (4, 5, 3), "pointing": (4, 5), "sentence": (4, 5, 3)}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_who_answers_as_before_has_nothing_to_change(form: str, temperature: float) -> None:
    dice = torch.Generator().manual_seed(1)
    old = 3 * torch.randn(SHAPES.get(form, (4, 6)), generator=dice)
    mask = torch.rand(4, 5, generator=dice) < 0.7
    mask[:, 0] = True

    def term_and_gradient(now: Tensor) -> tuple[float, Tensor]:
        now = now.clone().requires_grad_()
        term = DISTILLATIONS[form](now, old, mask, temperature)
        term.backward()
        assert now.grad is not None
        return float(term.detach()), now.grad

    least, none = term_and_gradient(old)
    assert none.abs().max() < 1e-6
    other, some = term_and_gradient(old + torch.randn(old.shape, generator=dice))
    assert other > least + 1e-3
    assert some.abs().max() > 1e-3
    if old.shape[:2] == mask.shape:
        assert not some[~mask].any()


# What old tasks are asked.


@pytest.fixture(scope="module")
def learned(experiences: Experiences) -> LearningWithoutForgetting:
    strategy = lwf()
    strategy.build(experiences["train"][task] for task in TASKS)
    return strategy


def old_of(strategy: HardSharing, experience: Any, without: tuple[str, ...] = ()) -> OldNetwork:
    old = OldNetwork(strategy.network, experience, 0)
    for task in without:
        del old.network.tasks[task]
    return old


def test_a_look_answers_every_task_as_the_network_does(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    for task in TASKS:
        experience = experiences["train"][task]
        x, y = experience.batches[np.arange(20)]
        look = OldTaskQuery(learned.network, Environment.of(x))
        expected = learned.network(x, task, teacher=y)
        assert torch.equal(look.answer(experience.task, y), expected)
        rows = [0, 4, 8, 11, 15, 19]  # 19/5 apart, rounded
        torch.testing.assert_close(look.some(6).answer(experience.task, y[rows]), expected[rows])
        torch.testing.assert_close(look.some(30).answer(experience.task, y), expected)


def test_where_no_relation_is_asked_one_of_a_box_that_is_there_is(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    experience = experiences["train"]["vqa"]
    names = experience.samples.store.names
    old = old_of(learned, experience)
    env = Environment.of(experience.batches[np.arange(300)][0])
    drawn = [old.ask(env) for _ in range(2)]
    for asked in drawn:
        assert bool(asked.mask[torch.arange(300), asked["box"]].all())
        assert set(asked["relation"].tolist()) == set(range(len(names["relations"])))
        assert set(asked["direction"].tolist()) == set(range(len(names["directions"])))
    assert not torch.equal(drawn[0]["box"], drawn[1]["box"])  # another batch, other lots
    assert torch.equal(drawn[0]["box"], old_of(learned, experience).ask(env)["box"])


def test_every_box_that_is_there_may_be_drawn(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    experience = experiences["train"]["obj"]
    env = Environment.of(experience.batches[np.zeros(2000, dtype=int)][0])
    boxes = old_of(learned, experience).ask(env)["box"]
    there = env.mask[0].nonzero()[:, 0].tolist()
    assert sorted(set(boxes.tolist())) == there


def test_what_is_asked_stays_and_nothing_is_asked_in_vain(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    own = Environment.of(experiences["train"]["rel"].batches[np.arange(9)][0])
    assert old_of(learned, experiences["train"]["rel"]).ask(own) is own
    env = Environment.of(experiences["train"]["cap"].batches[np.arange(9)][0])
    assert old_of(learned, experiences["train"]["cap"], without=("rel",)).ask(env) is env


@pytest.mark.parametrize(
    ("new", "held"),
    [
        ("obj", ["att", "rel", "cap"]),  # has no question, which are left out
        ("cap", ["obj", "att", "rel"]),
        ("vqa", ["obj", "att", "rel", "cap", "cnt"]),
        ("cnt", ["obj", "att", "rel", "cap", "vqa"]),
    ],
)
def test_old_tasks_are_held_as_far_as_the_new_data_can_ask_them(
    learned: LearningWithoutForgetting, experiences: Experiences, new: str, held: list[str]
) -> None:
    experience = experiences["train"][new]
    old = old_of(learned, experience)
    env = old.ask(Environment.of(experience.batches[np.arange(8)][0]))
    assert list(old.terms(OldTaskQuery(learned.network, env), experience.task, 2.0)) == held


def test_sentences_are_those_that_the_old_network_generates(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    new, task = experiences["train"]["cnt"], experiences["train"]["cap"].task
    old = old_of(learned, new)
    x, _ = new.batches[np.arange(0, 300, 7)]
    words = old._sentences(task, Environment.of(x))["words"]
    generated = learned.network(x, "cap").argmax(2)
    assert torch.equal(words, generated[:, : words.shape[1]])
    assert not generated[:, words.shape[1] :].any()
    # Followed again, each word is the likeliest after those before it.
    again = learned.network(x, "cap", teacher={"words": words}).argmax(2)
    assert torch.equal(again[words != 0], words[words != 0])


def test_before_the_first_step_kl_terms_are_zero(
    learned: LearningWithoutForgetting, experiences: Experiences
) -> None:
    experience = experiences["train"]["vqa"]
    old = old_of(learned, experience)
    env = old.ask(Environment.of(experience.batches[np.arange(64)][0]))
    terms = old.terms(OldTaskQuery(learned.network, env), experience.task, 2.0)
    assert max(abs(terms[name].item()) for name in ("rel", "cap")) < 1e-6
    gradients = torch.autograd.grad(
        sum(terms.values(), torch.zeros(())),
        list(learned.network.trunk.parameters()),
        allow_unused=True,
    )
    assert all(g is None or g.abs().max() < 1e-5 for g in gradients)


# Over a stream.


def test_without_strength_it_is_hard_sharing(experiences: Experiences) -> None:
    ours, theirs = lwf(strength=0.0), plain()
    for strategy in (ours, theirs):
        learn(strategy, experiences, ["obj", "rel"])
    assert digest_of(ours.network) == digest_of(theirs.network)


def test_the_first_task_is_learned_as_by_hard_sharing_and_the_second_is_not(
    experiences: Experiences,
) -> None:
    watch = Terms()
    ours, theirs = lwf(plugins=(watch,)), plain()
    for strategy in (ours, theirs):
        learn(strategy, experiences, ["obj"])
    assert digest_of(ours.network) == digest_of(theirs.network)
    for strategy in (ours, theirs):
        learn(strategy, experiences, ["rel"])
    assert digest_of(ours.network) != digest_of(theirs.network)
    assert all(step == {} for step in watch.steps["obj"])
    assert all(step["obj"] > 0 for step in watch.steps["rel"])


def test_the_loss_is_the_new_one_and_so_many_times_the_old_ones(experiences: Experiences) -> None:
    strategy = lwf(strength=0.7)
    learn(strategy, experiences, ["obj", "att"])
    experience = experiences["train"]["cap"]
    strategy.prepare(experience)
    with torch.no_grad():
        for parameter in strategy.network.parameters():
            parameter.mul_(1.1)
    x, y = experience.batches[np.arange(30)]
    outputs, loss = strategy.batch_loss(x, y, experience)
    own = experience.task.loss(strategy.network(x, "cap", teacher=y), y)
    assert set(strategy.terms) == {"obj", "att"}
    by_hand = own.item() + 0.7 * (strategy.terms["obj"] + strategy.terms["att"])
    assert loss.item() == pytest.approx(by_hand, rel=1e-5)
    assert experience.task.loss(outputs, y).item() == pytest.approx(own.item(), rel=1e-6)


def test_the_copy_stays_as_it_was_until_the_task_is_learned(experiences: Experiences) -> None:
    class Watch(SupervisedPlugin):
        def __init__(self) -> None:
            super().__init__()
            self.copies: list[str] = []
            self.learning: list[Tensor] = []

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            if strategy._old is not None:
                copied = strategy._old.network
                self.copies.append(digest_of(copied))
                self.learning += [p for p in copied.parameters() if p.requires_grad]

    watch = Watch()
    strategy = lwf(plugins=(watch,))
    learn(strategy, experiences, ["obj"])
    before = digest_of(strategy.network)
    learn(strategy, experiences, ["att"])
    assert watch.copies == [before]
    assert not watch.learning
    assert strategy._old is None
    alike = plain()
    learn(alike, experiences, ["obj", "att"])
    assert strategy.parameter_count() == alike.parameter_count()


def test_it_forgets_less_than_hard_sharing(experiences: Experiences) -> None:
    fast = {"learning_rate": 0.01, "warmup": 0}
    training = {"obj": {"epochs": 8, **fast}, "att": {"epochs": 3, **fast}}
    lost = []
    for kind in (LearningWithoutForgetting, HardSharing):
        strategy = kind(options=kind.Options.model_validate({**SMALL, "training": training}))
        strategy.train(experiences["train"]["obj"])
        first = strategy.score(experiences["test"]["obj"])["top1"]
        strategy.train(experiences["train"]["att"])
        lost.append(first - strategy.score(experiences["test"]["obj"])["top1"])
    assert lost[0] < lost[1] - 0.1


def test_cut_off_in_the_middle_of_a_task_it_goes_on_as_if_nothing_was(
    experiences: Experiences,
) -> None:
    whole, states = lwf(), []
    whole.on_step = lambda: states.append(whole.state())
    order = ("rel", "cap", "att")  # with lots to draw, and sentences to tell
    train, val = ([experiences[split][task] for task in order] for split in ("train", "val"))
    for experience, validation in zip(train, val, strict=True):
        whole.learn(experience, validation)
    cut = lwf()
    cut.restore(states[-2], train[:2])
    cut.learn(train[2], val[2])
    assert digest_of(cut.network) == digest_of(whole.network)


def test_all_six_tasks_the_same_seed_and_what_was_kept(
    experiences: Experiences, tmp_path: Path
) -> None:
    digests = []
    for seed in (0, 0, 1):
        strategy = lwf(seed)
        strategy.budget = 4.0
        for task in TASKS:
            strategy.train(experiences["train"][task])
        digests.append(digest_of(strategy.network))
    assert digests[0] == digests[1] != digests[2]
    strategy.save(tmp_path)
    loaded = lwf(1)
    loaded.load(tmp_path, [experiences["train"][task] for task in TASKS])
    for task in TASKS:
        experience = experiences["test"][task]
        assert np.array_equal(loaded.predict(experience), strategy.predict(experience))


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"temperature": 0.0}, {"heat": 2.0}])
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        LwfOptions.model_validate(wrong)
