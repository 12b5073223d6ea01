"""Controls that question PMN: children without knowledge, or with that of shuffled targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from pmn_cl.errors import UserError
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import TrainingProgress
from strategies.controls import exchange, shuffled
from strategies.options import PmnOptions
from strategies.pmn import Progressive

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]
BELOW = TASKS[:5]


def pmn(plugins: Any = (), on_progress: Any = None, **options: Any) -> Progressive:
    """PMN with one epoch for each task, unless the options say otherwise."""
    training = {task: {"epochs": 1} for task in TASKS} | options.pop("training", {})
    chosen = PmnOptions.model_validate({"training": training, **options})
    return Progressive(options=chosen, plugins=plugins, on_progress=on_progress)


def carry(strategy: Progressive, experiences: Experiences, tasks: Any = TASKS) -> Progressive:
    for task in tasks:
        strategy.learn(experiences["train"][task], experiences["val"][task])
    return strategy


class Starts(SupervisedPlugin):
    """Writes down each module as it is before its first step."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: dict[str, str] = {}

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        task = strategy.experience.task.name
        self.digests[task] = digest_of(strategy.network[task])


@pytest.fixture(scope="module")
def whole(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    """A tenth of the training samples."""
    return open_stream(TASKS, 10.0)


@pytest.fixture(scope="module")
def usual(experiences: Experiences) -> tuple[Progressive, Starts]:
    starts = Starts()
    return carry(pmn((starts,)), experiences), starts


# Children without knowledge.


@pytest.fixture(scope="module")
def untrained(experiences: Experiences) -> Progressive:
    return carry(pmn(untrained=BELOW), experiences)


def test_untrained_modules_stay_as_they_would_have_started(
    untrained: Progressive, usual: tuple[Progressive, Starts]
) -> None:
    learned, starts = usual
    for task in BELOW:
        assert digest_of(untrained.network[task]) == starts.digests[task]
        assert digest_of(learned.network[task]) != starts.digests[task]


def test_what_stands_on_untrained_modules_still_learns(
    experiences: Experiences, untrained: Progressive
) -> None:
    starts = Starts()
    strategy = carry(pmn((starts,), untrained=BELOW), experiences)
    assert digest_of(strategy.network["vqa"]) != starts.digests["vqa"]
    assert strategy.digest() == untrained.digest()
    assert set(strategy.validation_scores) == {"vqa"}
    assert set(strategy.network["vqa"].callees) == set(BELOW)
    assert strategy.samples_seen == len(experiences["train"]["vqa"].samples)


def test_untrained_modules_are_frozen_and_kept_like_others(
    untrained: Progressive, experiences: Experiences, tmp_path: Path
) -> None:
    assert not any(p.requires_grad for p in untrained.network.parameters())
    untrained.save(tmp_path)
    again = pmn(untrained=BELOW)
    again.load(tmp_path, list(experiences["train"].values()))
    assert again.digest() == untrained.digest()


def test_an_untrained_m_vqa_does_not_take_what_m_cnt_learned(experiences: Experiences) -> None:
    strategy = carry(pmn(untrained=["vqa"], asking="copies"), experiences)
    ours, theirs = (strategy.network[task].asking.state_dict() for task in ("vqa", "cnt"))
    assert not any(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert strategy.parameter_count().trainable == 0


@pytest.mark.parametrize("control", ["untrained", "shuffled"])
def test_a_control_is_never_taken_from_what_was_learned_before(
    control: str, usual: tuple[Progressive, Starts], experiences: Experiences, tmp_path: Path
) -> None:
    usual[0].save(tmp_path)
    given: dict[str, Any] = {control: ["obj"], "start_from": [str(tmp_path)]}
    strategy = carry(pmn(**given), experiences, ["obj", "att"])
    same = {t: digest_of(strategy.network[t]) == digest_of(usual[0].network[t]) for t in TASKS[:2]}
    assert same == {"obj": False, "att": True}
    with pytest.raises(UserError, match="M_rel was learned on obj-"):  # on the true one
        carry(strategy, experiences, ["rel"])


# Children that learned from shuffled targets.


def rows_of(*tensors: torch.Tensor) -> list[bytes]:
    """Each sample's numbers as bytes."""
    parts = [np.ascontiguousarray(t.reshape(len(t), -1).numpy()) for t in tensors]
    return [b"|".join(part[i].tobytes() for part in parts) for i in range(len(parts[0]))]


@pytest.mark.parametrize("task", TASKS)
def test_targets_change_hands_among_scenes_with_the_same_padding(
    task: str, whole: Experiences
) -> None:
    experience = whole["train"][task]
    rows = torch.arange(len(experience.samples))
    x, y = experience.batches[rows]
    same_x, other_y = shuffled(experience, 0).batches[rows]
    names = sorted(y.keys())
    assert all(torch.equal(x[name], same_x[name]) for name in x.keys())  # noqa: SIM118
    assert sorted(other_y.keys()) == names
    # All targets of a sample go together, to one with the same mask: as often there as before.
    ours, theirs = (rows_of(x["mask"], *(some[name] for name in names)) for some in (y, other_y))
    assert Counter(ours) == Counter(theirs)
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) < len(rows) / 2
    for name in {"asked", "satisfying", "ask_boxes"} & set(names):  # by region
        assert not (other_y[name] & ~x["mask"]).any()
    assert torch.equal(
        experience.batches[rows][1][names[0]], y[names[0]]
    )  # the experience is as it was


def test_no_sample_keeps_its_targets_unless_it_is_alone(whole: Experiences) -> None:
    samples = whole["train"]["rel"].samples
    counts = samples.store.table("train", "scenes")["mask"].load().sum(1)
    number = counts[samples.columns["scene"]]
    how_many = Counter(number.tolist())
    source = exchange(samples, 4)
    alone = np.array([how_many[n] == 1 for n in number.tolist()])
    assert np.array_equal(source == np.arange(len(samples)), alone)


def test_the_seed_decides_who_gets_whose_targets(whole: Experiences) -> None:
    samples = whole["train"]["obj"].samples
    assert np.array_equal(exchange(samples, 1), exchange(samples, 1))
    assert not np.array_equal(exchange(samples, 1), exchange(samples, 2))


def test_shuffled_targets_teach_what_is_common_and_nothing_else(whole: Experiences) -> None:
    training = {"obj": {"epochs": 6}}
    true, wrong = (
        carry(pmn(shuffled=names, training=training), whole, ["obj"]) for names in ([], ["obj"])
    )
    experience, training = whole["test"]["obj"], whole["train"]["obj"]
    names = experience.samples.store.names
    constant = training.task.constant(training.samples.columns, names)
    given = np.broadcast_to(constant, (len(experience.samples), *constant.shape))
    by_chance = training.task.score(given, experience.samples.columns, names)["top1"]
    assert wrong.score(experience)["top1"] == pytest.approx(by_chance, abs=0.05)
    assert true.score(experience)["top1"] > by_chance + 0.25


def test_every_epoch_has_the_same_wrong_targets(experiences: Experiences) -> None:
    class Targets(SupervisedPlugin):
        def __init__(self) -> None:
            super().__init__()
            self.epochs: list[dict[int, bytes]] = []

        def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            self.epochs.append({})

        def before_forward(self, strategy: Any, **kwargs: Any) -> None:
            number = strategy.mb_x["sample"].tolist()
            labels = rows_of(strategy.mb_y["label"])
            self.epochs[-1] |= dict(zip(number, labels, strict=True))

    targets = Targets()
    carry(pmn((targets,), shuffled=["obj"], training={"obj": {"epochs": 2}}), experiences, ["obj"])
    experience = experiences["train"]["obj"]
    true = rows_of(experience.batches[torch.arange(len(experience.samples))][1]["label"])
    assert targets.epochs[0] == targets.epochs[1]
    assert sorted(targets.epochs[0]) == list(range(len(true)))
    kept = sum(targets.epochs[0][number] == label for number, label in enumerate(true))
    assert kept < len(true) / 2


def test_the_last_epoch_remains_as_true_validation_would_tell_something(
    experiences: Experiences,
) -> None:
    class Last(SupervisedPlugin):
        digest = ""

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            with torch.no_grad():  # ever worse on true samples
                strategy.network["obj"].classifier.weight.mul_(-2)
            self.digest = digest_of(strategy.network["obj"])

    last, seen = Last(), list[TrainingProgress]()
    training = {"obj": {"epochs": 3}}
    strategy = pmn((last,), seen.append, shuffled=["obj"], training=training)
    carry(strategy, experiences, ["obj"])
    assert digest_of(strategy.network["obj"]) == last.digest
    assert {progress.score for progress in seen} == {None}
    assert strategy.validation_scores == {}
    assert strategy.cards["obj"].score is None


def test_what_stands_on_shuffled_modules_learns_from_true_targets_and_never_changes_them(
    experiences: Experiences, usual: tuple[Progressive, Starts]
) -> None:
    strategy = carry(pmn(shuffled=["obj", "rel"]), experiences, ["obj", "att"])
    after = {task: digest_of(strategy.network[task]) for task in ("obj", "att")}
    assert after["att"] == digest_of(usual[0].network["att"])
    assert after["obj"] != digest_of(usual[0].network["obj"])
    assert after["obj"] != usual[1].digests["obj"]  # it did learn
    carry(strategy, experiences, TASKS[2:])
    assert {task: digest_of(strategy.network[task]) for task in after} == after
    assert set(strategy.validation_scores) == {"att", "cap", "cnt", "vqa"}
    assert not any(p.requires_grad for p in strategy.network.parameters())


def test_a_control_that_was_cut_off_goes_on_to_the_bit(experiences: Experiences) -> None:
    def made() -> Progressive:
        training = {"att": {"epochs": 2, "batch_size": 10}}
        return pmn(untrained=["obj"], shuffled=["att"], training=training)

    uncut, cut, states = made(), made(), []
    uncut.on_step = lambda: states.append(uncut.state())
    carry(uncut, experiences, ["obj", "att"])
    assert len(states) == 6  # of M_att alone; 30 samples, twice
    cut.restore(states[3], [experiences["train"]["obj"]])
    carry(cut, experiences, ["att"])
    uncut.on_step = None
    for strategy in (uncut, cut):
        carry(strategy, experiences, ["rel"])
    assert cut.digest() == uncut.digest()
    identities = [[s.network[t].identity for t in TASKS[:3]] for s in (cut, uncut)]
    assert identities[0] == identities[1]


# What the options may say.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"supervise": ["cn"]}, "supervise: unknown task 'cn', .*did you mean 'cnt'"),
        ({"finetune": ["conut"]}, "finetune: unknown task 'conut', expected one of obj, att, rel"),
        ({"modules": {"rell": "a:B"}}, "modules: unknown task 'rell', .*did you mean 'rel'"),
        ({"widths": {"vqaa": {"hidden": 9}}}, "widths: unknown task 'vqaa', .*did you mean 'vqa'"),
        ({"untrained": ["obk"]}, "untrained: unknown task 'obk', .*did you mean 'obj'"),
        ({"shuffled": ["obk"]}, "shuffled: unknown task 'obk', .*did you mean 'obj'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_task_that_nobody_knows_is_refused_before_learning(
    changes: dict[str, Any], said: str, experiences: Experiences
) -> None:
    with pytest.raises(UserError, match=said):
        pmn(**changes).expect(list(experiences["train"].values()))


def test_tasks_that_this_stream_lacks_may_be_named(experiences: Experiences) -> None:
    strategy = pmn(
        untrained=["cap"], shuffled=["rel"], supervise=["cnt"], widths={"cnt": {"word": 9}}
    )
    strategy.expect([experiences["train"]["obj"]])
    own = experiences["train"]["obj"]
    mine = type("Mine", (), {"task": type("T", (type(own.task),), {"name": "mine"})()})()
    pmn(untrained=["mine"]).expect([mine])  # a task of a user's own, in this stream
    with pytest.raises(UserError, match="unknown task 'mine'"):
        pmn(untrained=["mine"]).expect([own])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"untrained": ["obj"], "shuffled": ["obj"]}, "'obj' is both"),
        ({"untrained": ["cnt"], "finetune": ["cnt"]}, "finetune.*'cnt'"),
        ({"untrained": ["vqa"], "finetune": ["cnt"]}, "finetune.*'vqa'"),
        ({"widths": {"vqa": {"hidden": 0}}}, "hidden"),
        ({"widths": {"vqa": {"hiden": 8}}}, "hiden"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PmnOptions.model_validate(changes)


def test_widths_change_the_modules_of_their_tasks_alone(experiences: Experiences) -> None:
    related = {"relation": 20, "relation_attention": 30}
    strategy = pmn(widths={"obj": {"terminal": 7}, "rel": related})
    strategy.build(experiences["train"].values())
    network = strategy.network
    assert network["obj"].project.weight.shape == (7, 128)
    assert network["att"].project.weight.shape == (160, 128)
    assert network["rel"].point.f[0].weight.shape == (30, 20)
    assert network["rel"].look[0].weight.shape == (20, 128 + 7 + 160 + 20)
    assert network["cnt"].asking.box.f[0].weight.shape == (128, 64)


def test_m_vqa_and_m_cnt_must_fit_where_they_have_parts_in_common(experiences: Experiences) -> None:
    wide = {"vqa": {"hidden": 80}}
    stream = list(experiences["train"].values())
    with pytest.raises(UserError, match=r"widths: .*`asking: own`"):
        pmn(widths=wide).build(stream)
    with pytest.raises(UserError, match=r"width 80, M_cnt's 64.*own_question"):
        pmn(widths=wide, asking="own", departures={"own_question": False}).build(stream)
    strategy = carry(pmn(widths=wide, asking="own"), experiences)
    assert strategy.network["vqa"].plan.sizes.hidden == 80
    assert np.isfinite(strategy.validation_scores["vqa"])
    strategy = pmn(widths={"vqa": {"attention": 9}, "cnt": {"attention": 9}})
    strategy.build(stream)  # both alike: copies fit


def test_a_kept_module_of_another_width_is_refused(
    usual: tuple[Progressive, Starts], experiences: Experiences, tmp_path: Path
) -> None:
    usual[0].save(tmp_path)
    strategy = pmn(start_from=[str(tmp_path)], widths={"obj": {"terminal": 7}})
    with pytest.raises(UserError, match="M_obj has other sizes than `widths`"):
        strategy.build([experiences["train"]["obj"]])
    same = pmn(start_from=[str(tmp_path)], widths={"obj": {"terminal": 160}})
    same.build([experiences["train"]["obj"]])
    assert digest_of(same.network["obj"]) == digest_of(usual[0].network["obj"])
