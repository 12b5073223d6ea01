"""The training loop: against a bare PyTorch loop, and what it promises around it."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.data.loader import BatchLoader
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import TrainingProgress
from pmn_cl.strategy.training import TrainingSettings
from strategies.loop import TaskTemplate
from strategies.options import PmnOptions
from strategies.pmn import Progressive

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
LABELS = {"obj": 0, "att": 1, "rel": 2}  # places in the stream


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(list(LABELS))


class Heads(nn.Module):
    """A network of a user's own: a linear layer for each of two tasks."""

    def __init__(self, objects: int = 11, attributes: int = 13) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.heads = nn.ModuleDict(
            {"obj": nn.Linear(128, objects), "att": nn.Linear(128, attributes)}
        )

    def forward(
        self, x: Mapping[str, Tensor], task: str, *, teacher: Any = None, trace: Trace | None = None
    ) -> Tensor:
        scores: Tensor = self.heads[task](x["regions"])
        return scores


def heads_for(experiences: Experiences) -> Heads:
    names = experiences["train"]["obj"].samples.store.names
    return Heads(len(names["objects"]), len(names["attributes"]))


def settings(**changes: Any) -> TrainingSettings:
    given = {"learning_rate": 0.01, "batch_size": 32, "epochs": 2, **changes}
    return TrainingSettings.model_validate(given)


def template(
    experiences: Experiences, network: nn.Module | None = None, **changes: Any
) -> TaskTemplate:
    by_task = {"obj": settings(), "att": settings()}
    given = {"network": network or heads_for(experiences), "settings": by_task, **changes}
    return TaskTemplate(**given)


def pmn(seed: int = 0, plugins: tuple[Any, ...] = (), **options: Any) -> Progressive:
    """PMN with one epoch for each task, unless the options say otherwise."""
    training = {task: {"epochs": 1} for task in LABELS}
    training.update(options.pop("training", {}))
    chosen = PmnOptions.model_validate({"training": training, **options})
    return Progressive(options=chosen, seed=seed, plugins=plugins)


def learn_all(strategy: TaskTemplate, experiences: Experiences, tasks: Any = LABELS) -> None:
    for task in tasks:
        strategy.learn(experiences["train"][task], experiences["val"][task])


class Keep(SupervisedPlugin):
    """Keeps a copy of the network as it was before the training of each task."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[nn.Module] = []

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.kept.append(copy.deepcopy(strategy.model))


# Against a loop written out.


def bare_loop(
    network: nn.Module,
    learning: list[nn.Parameter],
    experience: Any,
    chosen: TrainingSettings,
    seed: int,
    fused: bool,
) -> None:
    """Train as any PyTorch script would, without Avalanche or the template."""
    # A task's seed: numpy's mix of the run's seed and the task's place in the stream.
    name = zlib.crc32(experience.task.name.encode())  # the same wherever it stands in the stream
    own = int(np.random.SeedSequence([seed, name]).generate_state(1)[0])
    betas = (0.9, chosen.beta2)
    optimizer = torch.optim.Adam(learning, lr=chosen.learning_rate, betas=betas, fused=fused)
    steps = chosen.epochs * -(-len(experience.samples) // chosen.batch_size)
    step = 0
    network.train()
    for epoch in range(chosen.epochs):
        order = {"seed": own, "epoch": epoch, "by_scene": chosen.by_scene}
        for x, y in BatchLoader(experience.batches, chosen.batch_size, **order):
            for group in optimizer.param_groups:
                group["lr"] = chosen.learning_rate_at(step, steps)
            optimizer.zero_grad()
            outputs = network(x, experience.task.name, teacher=y)
            experience.task.training_loss(outputs, y, chosen.loss).backward()
            if chosen.clip is not None:
                nn.utils.clip_grad_norm_(learning, chosen.clip)
            optimizer.step()
            step += 1


def is_fused(strategy: TaskTemplate) -> bool:
    """Whether Adam works on all tensors at once, which rounds otherwise."""
    return bool(strategy.optimizer.defaults["fused"])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clip": 0.05},
        {"schedule": "cosine", "warmup": 6, "clip": 0.5, "beta2": 0.9},
        {"by_scene": True},
        {"batch_size": 300, "epochs": 1, "least_steps": 4},  # four epochs of one batch
    ],
    ids=str,
)
def test_the_loop_is_a_bare_loop_bit_for_bit(
    experiences: Experiences, changes: dict[str, Any]
) -> None:
    experience, chosen = experiences["train"]["obj"], settings(**changes)
    strategy = template(experiences, settings={"obj": chosen}, seed=5)
    bare = heads_for(experiences)
    learning = list(bare.heads["obj"].parameters())
    strategy.train(experience)
    by_hand = chosen.model_copy(update={"epochs": max(chosen.epochs, chosen.least_steps)})
    bare_loop(bare, learning, experience, by_hand, 5, is_fused(strategy))
    assert digest_of(strategy.model) == digest_of(bare)
    assert digest_of(bare) != digest_of(heads_for(experiences))  # something was learned


def test_a_module_on_frozen_ones_is_trained_as_by_a_bare_loop(experiences: Experiences) -> None:
    keep = Keep()
    strategy = pmn(seed=3, plugins=(keep,), memory=False)
    learn_all(strategy, experiences, ["obj", "att"])
    strategy.train(experiences["train"]["rel"])
    bare = keep.kept[-1]
    learning = list(bare.learned["rel"].parameters())
    chosen = strategy.settings["rel"]
    bare_loop(bare, learning, experiences["train"]["rel"], chosen, 3, is_fused(strategy))
    assert digest_of(strategy.network["rel"]) == digest_of(bare.learned["rel"])


def test_every_epoch_goes_through_all_samples_once_in_an_order_of_its_own(
    experiences: Experiences,
) -> None:
    class Order(SupervisedPlugin):
        def __init__(self) -> None:
            super().__init__()
            self.epochs: list[list[int]] = []

        def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            self.epochs.append([])

        def before_forward(self, strategy: Any, **kwargs: Any) -> None:
            self.epochs[-1] += strategy.mb_x["scene"].tolist()

    orders = [Order(), Order(), Order()]
    for order, seed in zip(orders, (0, 0, 1), strict=True):
        template(experiences, seed=seed, plugins=[order]).train(experiences["train"]["obj"])
    first, again, other = (order.epochs for order in orders)
    assert [sorted(epoch) for epoch in first] == [list(range(300))] * 2  # one sample a scene
    assert first[0] != first[1]
    assert first == again
    assert first[0] != other[0]


def test_samples_seen_counts_what_was_learned_from_and_nothing_else(
    experiences: Experiences,
) -> None:
    strategy = template(experiences, settings={"obj": settings(epochs=3), "att": settings()})
    strategy.learn(experiences["train"]["obj"], experiences["val"]["obj"])
    assert strategy.samples_seen == 3 * 300  # not the 50 of validation
    strategy.learn(experiences["train"]["att"], experiences["val"]["att"])
    strategy.score(experiences["test"]["obj"])
    strategy.eval(experiences["test"]["att"])
    assert strategy.samples_seen == 3 * 300 + 2 * 300


# The best epoch.


class Spoil(SupervisedPlugin):
    """Overwrites the weights, and any running statistics, when an epoch (from 0) has ended."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        if strategy.clock.train_exp_epochs == self.epoch:
            with torch.no_grad():
                for value in strategy.model.state_dict().values():
                    value.zero_()


def ended(seen: list[TrainingProgress]) -> list[Any]:
    """Leave out what is reported on the way."""
    return [progress for progress in seen if progress.score is not None]


def test_the_best_epoch_on_validation_remains(experiences: Experiences) -> None:
    seen: list[TrainingProgress] = []
    spoil = Spoil(2)
    strategy = template(
        experiences,
        settings={"obj": settings(epochs=3)},
        plugins=[spoil],
        on_progress=seen.append,
    )
    strategy.learn(experiences["train"]["obj"], experiences["val"]["obj"])
    scores = [progress.score for progress in ended(seen)]
    assert scores[2] < max(scores[:2])  # the last epoch is worse, as it was meant to be
    assert strategy.validation_scores == {"obj": max(scores)}
    assert strategy.score(experiences["val"]["obj"])["top1"] == max(scores)


def test_of_epochs_alike_the_first_remains_with_its_running_statistics(
    experiences: Experiences,
) -> None:
    names = experiences["train"]["obj"].samples.store.names

    class WithNorm(Heads):
        """Norms what it does not look at, so that all epochs score the same."""

        def __init__(self) -> None:
            super().__init__(len(names["objects"]), len(names["attributes"]))
            self.norm = nn.BatchNorm1d(128)

        def forward(self, x: Any, task: str, **kwargs: Any) -> Tensor:
            normed = self.norm(x["regions"].flatten(0, 1)).view_as(x["regions"])
            scores: Tensor = self.heads[task](0 * normed)
            return scores

    class After(SupervisedPlugin):
        def __init__(self) -> None:
            super().__init__()
            self.digests: list[str] = []

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            with torch.no_grad():
                strategy.model.heads["obj"].bias.copy_(torch.arange(len(names["objects"])))
            self.digests.append(digest_of(strategy.model))

    after, seen = After(), []
    strategy = template(experiences, WithNorm(), plugins=[after], on_progress=seen.append)
    strategy.learn(experiences["train"]["obj"], experiences["val"]["obj"])
    first, second = ended(seen)
    assert first.score == second.score
    assert after.digests[0] != after.digests[1]  # in the statistics
    assert digest_of(strategy.model) == after.digests[0]


def test_without_validation_samples_the_last_epoch_remains(experiences: Experiences) -> None:
    strategy = template(experiences, plugins=[Spoil(1)])
    strategy.train(experiences["train"]["obj"])
    assert all(not value.any() for value in strategy.model.state_dict().values())
    assert strategy.validation_scores == {}


def test_progress_is_reported_after_every_epoch(experiences: Experiences) -> None:
    seen: list[TrainingProgress] = []
    strategy = template(experiences, on_progress=seen.append)
    learn_all(strategy, experiences, ["obj", "att"])
    seen = ended(seen)
    found = [(progress.task, progress.epoch, progress.epochs) for progress in seen]
    assert found == [("obj", 1, 2), ("obj", 2, 2), ("att", 1, 2), ("att", 2, 2)]
    assert all(np.isfinite(progress.loss) and 0 <= progress.score <= 1 for progress in seen)
    assert [(p.step, p.steps) for p in seen] == [(10, 20), (20, 20), (10, 20), (20, 20)]
    last = strategy.score(experiences["val"]["att"])["map"]
    assert last == max(progress.score for progress in seen[2:])


# Seeds.


def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    experiences: Experiences,
) -> None:
    digests = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed + 100)  # what was drawn before must not matter
        strategy = pmn(seed)
        learn_all(strategy, experiences)
        digests.append([digest_of(strategy.network[task]) for task in LABELS])
    assert digests[0] == digests[1]
    assert all(a != b for a, b in zip(digests[0], digests[2], strict=True))


def test_watching_a_run_does_not_change_it(experiences: Experiences) -> None:
    watched, alone = pmn(), pmn()
    for task in LABELS:
        experience = experiences["train"][task]
        watched.learn(experience, experiences["val"][task])
        watched.score(experiences["test"][task])
        watched.eval(experiences["val"][task])
        alone.learn(experience, experiences["val"][task])
    digests = [[digest_of(s.network[task]) for task in LABELS] for s in (watched, alone)]
    assert digests[0] == digests[1]


# What goes wrong.


def test_a_task_without_settings_is_named_with_those_that_have_some(
    experiences: Experiences,
) -> None:
    strategy = template(experiences, settings={"obj": settings()})
    with pytest.raises(UserError, match=r"settings.*'att'.*obj"):
        strategy.learn(experiences["train"]["att"], experiences["val"]["att"])


def test_a_task_not_learned_yet_is_refused(experiences: Experiences) -> None:
    strategy = pmn()
    learn_all(strategy, experiences, ["obj"])
    with pytest.raises(UserError, match=r"'att' was not learned; learned: obj"):
        strategy.predict(experiences["val"]["att"])


def poison(module: nn.Module) -> None:
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))


def test_a_loss_that_is_not_finite_names_task_step_and_the_child_it_came_from(
    experiences: Experiences,
) -> None:
    strategy = pmn()
    learn_all(strategy, experiences, ["obj", "att"])
    poison(strategy.network["att"])
    with pytest.raises(UserError) as raised:
        strategy.learn(experiences["train"]["rel"], experiences["val"]["rel"])
    said = str(raised.value)
    assert "the loss of the task 'rel' is nan at step 1:" in said
    assert "that of att, called by M_rel" in said
    assert "learning rate" in said  # what to do next


def test_the_step_at_which_a_loss_went_wrong_is_counted_from_one(experiences: Experiences) -> None:
    class PoisonLater(SupervisedPlugin):
        def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            if strategy.clock.train_exp_iterations == 2:  # two are done, the third ends now
                poison(strategy.network["obj"])

    strategy = pmn(plugins=(PoisonLater(),), training={"obj": {"epochs": 1, "batch_size": 30}})
    with pytest.raises(UserError, match=r"'obj' is nan at step 4: .* that of M_obj"):
        strategy.learn(experiences["train"]["obj"], experiences["val"]["obj"])


# As Avalanche's users see it.


class Recorder(SupervisedPlugin):
    """Writes down which callbacks are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []


def _recorded(name: str) -> Callable[..., None]:
    return lambda self, *args, **kwargs: self.called.append(name)


for _name in dir(SupervisedPlugin):
    if _name.startswith(("before_", "after_")):
        setattr(Recorder, _name, _recorded(_name))


STEP = [
    "before_training_iteration",
    "before_forward",
    "after_forward",
    "before_backward",
    "after_backward",
    "before_update",
    "after_update",
    "after_training_iteration",
]


def test_avalanches_plugins_are_called_as_avalanche_says(experiences: Experiences) -> None:
    recorder = Recorder()
    strategy = pmn(plugins=(recorder,), training={"obj": {"epochs": 2, "batch_size": 150}})
    strategy.train(experiences["train"]["obj"], eval_streams=[experiences["val"]["obj"]])
    epoch = ["before_training_epoch", *STEP, *STEP, "after_training_epoch"]
    called = [name for name in recorder.called if "dataset_adaptation" not in name]
    assert called == [
        "before_training",
        "before_training_exp",
        *epoch,
        *epoch,
        "after_training_exp",
        "after_training",
    ]
    recorder.called.clear()
    strategy.eval(experiences["val"]["obj"])  # 50 samples, one batch
    called = [name for name in recorder.called if "dataset_adaptation" not in name]
    assert called == [
        "before_eval",
        "before_eval_exp",
        "before_eval_iteration",
        "before_eval_forward",
        "after_eval_forward",
        "after_eval_iteration",
        "after_eval_exp",
        "after_eval",
    ]


def test_avalanches_train_is_learn(experiences: Experiences) -> None:
    """A stream to train on, a stream of validation samples, as in Avalanche's examples."""
    learned, trained = pmn(), pmn()
    learn_all(learned, experiences)
    train, val = (experiences[split]["obj"].origin_stream for split in ("train", "val"))
    trained.train(train, eval_streams=[val])
    assert trained.validation_scores == learned.validation_scores
    for task in LABELS:
        assert digest_of(trained.network[task]) == digest_of(learned.network[task])


def test_avalanches_eval_gives_the_loss_that_a_task_learns_by(experiences: Experiences) -> None:
    class Losses(SupervisedPlugin):
        def __init__(self) -> None:
            super().__init__()
            self.found: dict[str, float] = {}

        def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
            self.found[strategy.experience.task.name] = float(strategy.loss)

    losses = Losses()
    strategy = pmn(plugins=(losses,))
    learn_all(strategy, experiences)
    before = {task: digest_of(strategy.network[task]) for task in LABELS}
    strategy.eval(experiences["val"]["obj"].origin_stream)
    strategy.model.eval()
    for task in LABELS:
        experience = experiences["val"][task]  # at most 400 samples: one batch
        x, y = experience.batches[np.arange(len(experience.samples))]
        with torch.no_grad():
            outputs, terms = strategy.network(x, task), strategy.settings[task].loss
            by_hand = experience.task.training_loss(outputs, y, terms)
        assert losses.found[task] == pytest.approx(float(by_hand), rel=1e-5)
        assert digest_of(strategy.network[task]) == before[task]


def test_a_metric_of_avalanches_can_be_asked_for(experiences: Experiences) -> None:
    from avalanche.evaluation.metrics import loss_metrics
    from avalanche.training.plugins import EvaluationPlugin

    evaluation = EvaluationPlugin(loss_metrics(epoch=True, stream=True), loggers=[])
    strategy = template(experiences, plugins=[evaluation])
    strategy.train(experiences["train"]["obj"])
    strategy.eval(experiences["val"]["obj"].origin_stream[:1])
    found = evaluation.get_last_metrics()
    names = [name for name in found if name.startswith("Loss_Stream/eval_phase")]
    assert len(names) == 1 and np.isfinite(found[names[0]])
