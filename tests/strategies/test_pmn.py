"""PMN as a strategy: what is learned, what stays, and what the options change."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from benchmarks.stream import Stream
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import digest_of, identity_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import TrainingProgress
from pmn_cl.tasks.counts import count_distance
from strategies.losses import query_loss
from strategies.options import PmnOptions
from strategies.pmn import Progressive

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]
BELOW = TASKS[:5]


def pmn(plugins: tuple[Any, ...] = (), seed: int = 0, **options: Any) -> Progressive:
    """PMN with one epoch for each task, unless the options say otherwise."""
    training = {task: {"epochs": 1} for task in TASKS} | options.pop("training", {})
    chosen = PmnOptions.model_validate({"training": training, **options})
    return Progressive(options=chosen, plugins=plugins, seed=seed)


def carry(strategy: Progressive, experiences: Experiences) -> Progressive:
    """Take a strategy through a whole stream."""
    for task, experience in experiences["train"].items():
        strategy.learn(experience, experiences["val"][task])
    return strategy


@torch.no_grad()
def answers(strategy: Progressive, experiences: Experiences, task: str) -> Tensor:
    """What a module answers to the same samples each time, in full."""
    strategy.network.eval()
    # What is remembered was worked out in blocks: bits are compared with others of such.
    strategy.attach_scenes(experiences["val"][task])
    x, _ = experiences["val"][task].batches[np.arange(40)]
    found: Tensor = strategy.network(x, task)
    return found


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two answers are alike bit for bit."""
    return a.numpy().tobytes() == b.numpy().tobytes()


class Watch(SupervisedPlugin):
    """Writes down how each training begins, and the losses of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.start: dict[str, dict[str, str]] = {}  # digests of all modules, by task
        self.asking: dict[str, dict[str, Tensor]] = {}
        self.learning: dict[str, list[Tensor]] = {}  # what the optimizer holds
        self.losses: list[float] = []

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        task = strategy.experience.task.name
        modules = {name: strategy.network[name] for name in strategy.network.learned}
        self.start[task] = {name: digest_of(module) for name, module in modules.items()}
        self.learning[task] = [p for g in strategy.optimizer.param_groups for p in g["params"]]
        if hasattr(modules[task], "asking"):
            state = modules[task].asking.state_dict()
            self.asking[task] = {name: value.clone() for name, value in state.items()}

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        learning = {id(p) for g in strategy.optimizer.param_groups for p in g["params"]}
        for module in map(strategy.network.__getitem__, strategy.network.learned):
            if not any(id(p) in learning for p in module.parameters()):
                assert not any(part.training for part in module.modules())
                assert not any(p.requires_grad for p in module.parameters())

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self.losses.append(float(strategy.loss.detach()))


class Learned:
    """The whole stream, learned; what each module was and answered after every task."""

    def __init__(self, experiences: Experiences) -> None:
        self.watch = Watch()
        self.strategy = pmn((self.watch,))
        self.digests: list[dict[str, str]] = []
        self.answers: list[dict[str, Tensor]] = []
        for number, (task, experience) in enumerate(experiences["train"].items()):
            self.strategy.learn(experience, experiences["val"][task])
            so_far = TASKS[: number + 1]
            network = self.strategy.network
            self.digests.append({name: digest_of(network[name]) for name in so_far})
            self.answers.append({n: answers(self.strategy, experiences, n) for n in so_far})


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


@pytest.fixture(scope="module")
def few(open_stream: Callable[..., Experiences]) -> Experiences:
    """A tenth of the training samples."""
    return open_stream(TASKS, 10.0)


@pytest.fixture(scope="module")
def learned(experiences: Experiences) -> Learned:
    return Learned(experiences)


@pytest.fixture(scope="module")
def kept(learned: Learned, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all modules."""
    folder = tmp_path_factory.mktemp("modules")
    learned.strategy.save(folder)
    return folder


@pytest.fixture(scope="module")
def below(kept: Path) -> list[str]:
    """The modules below M_vqa."""
    return [str(path) for path in sorted(kept.iterdir()) if not path.name.startswith("vqa")]


# Whom it listens to.


def test_gates_are_told_over_all_and_by_question(
    learned: Learned, experiences: Experiences
) -> None:
    # A trace keeps all that was said: of the smallest split.
    experience, network = experiences["val"]["vqa"], learned.strategy.network
    found = learned.strategy.score(experience)
    trace, kinds = Trace(), torch.as_tensor(experience.samples.columns["kind"])
    x, _ = experience.batches[np.arange(len(experience.batches))]
    with torch.no_grad():
        network.eval()(x, "vqa", trace=trace)
    for callee in network["vqa"].call_list:
        steps = [call.gate for call in trace.of("vqa", callee) if call.gate is not None]
        assert len(steps) == 2
        gate = torch.stack(steps).mean(0)
        assert found[f"gate {callee}"] == pytest.approx(float(gate.mean()), abs=1e-5)
        for number, kind in enumerate(("yes/no", "number", "other")):
            mean = float(gate[kinds == number].mean())
            assert found[f"gate {callee}, {kind}"] == pytest.approx(mean, abs=1e-5)


def test_m_cnt_has_gates_where_it_may_ask_m_rel(learned: Learned, experiences: Experiences) -> None:
    experience, network = experiences["val"]["cnt"], learned.strategy.network
    found = learned.strategy.score(experience)
    x, _ = experience.batches[np.arange(len(experience.batches))]
    with torch.no_grad():
        network.eval()(x, "cnt", trace=(trace := Trace()))
    [asked] = trace.of("cnt", "rel")
    assert asked.gate is not None
    assert found["gate rel"] == pytest.approx(float(asked.gate.mean()), abs=1e-5)
    assert found["gate Ω"] + found["gate rel"] == pytest.approx(1, abs=1e-5)
    related = torch.as_tensor(experience.samples.columns["kind"]) == 1
    mean = float(asked.gate[related].mean())
    assert found["gate rel, relational"] == pytest.approx(mean, abs=1e-5)
    assert not any(
        name.startswith("gate") for name in learned.strategy.score(experiences["test"]["rel"])
    )


# No forgetting.


def test_no_module_changes_after_its_task(learned: Learned) -> None:
    for number, task in enumerate(TASKS):
        for later in range(number + 1, len(TASKS)):
            assert learned.digests[later][task] == learned.digests[number][task]
    assert len(set(learned.digests[-1].values())) == len(TASKS)


def test_every_answer_stays_bit_for_bit(learned: Learned) -> None:
    for number, task in enumerate(TASKS):
        for later in range(number + 1, len(TASKS)):
            assert same(learned.answers[later][task], learned.answers[number][task])


def test_the_optimizer_holds_the_new_modules_parameters_alone(learned: Learned) -> None:
    for task in TASKS:
        own = {id(parameter) for parameter in learned.strategy.network[task].parameters()}
        held = [id(parameter) for parameter in learned.watch.learning[task]]
        assert set(held) == own
        assert len(held) == len(own)


def test_every_task_is_learned(learned: Learned) -> None:
    for number, task in enumerate(TASKS):
        assert learned.watch.start[task][task] != learned.digests[number][task]
    assert set(learned.strategy.validation_scores) == set(TASKS)


def test_callees_belong_to_the_network_and_not_to_their_callers(learned: Learned) -> None:
    network = learned.strategy.network
    one_by_one = sum(p.numel() for task in TASKS for p in network[task].parameters())
    assert sum(p.numel() for p in network.parameters()) == one_by_one
    for task in TASKS:
        for name, callee in network[task].callees.items():
            assert callee is network[name]


def test_a_kept_module_says_what_it_was_learned_from(
    learned: Learned, experiences: Experiences
) -> None:
    cards, network = learned.strategy.cards, learned.strategy.network
    assert {task: card.level for task, card in cards.items()} == {
        "obj": 0,
        "att": 0,
        "rel": 1,
        "cap": 1,
        "cnt": 2,
        "vqa": 3,
    }
    for task, card in cards.items():
        experience = experiences["val"][task]
        assert card.data == experience.samples.store.digest
        assert card.score == learned.strategy.score(experience)[card.metric]
        assert card.identity == identity_of(network[task])
        assert card.calls == {k: m.identity for k, m in network[task].callees.items()}


# How M_vqa comes by what it asks with.


@pytest.fixture(scope="module")
def copied(few: Experiences, below: list[str]) -> tuple[Progressive, Watch]:
    watch = Watch()
    return carry(pmn((watch,), start_from=below, asking="copies"), few), watch


@pytest.fixture(scope="module")
def shared(few: Experiences, below: list[str]) -> tuple[Progressive, Watch]:
    watch = Watch()
    options = {"start_from": below, "asking": "shared", "finetune": ["cnt"]}
    return carry(pmn((watch,), **options), few), watch


@pytest.fixture(scope="module")
def beside(few: Experiences, below: list[str]) -> Progressive:
    options = {"asking": "shared", "finetune": ["cnt"], "keep_old": True}
    return carry(pmn(start_from=below, **options), few)


def test_copies_start_as_m_cnts_and_leave_m_cnt_alone(
    copied: tuple[Progressive, Watch], learned: Learned
) -> None:
    strategy, watch = copied
    theirs = strategy.network["cnt"].asking.state_dict()
    assert set(watch.asking["vqa"]) == set(theirs)
    assert all(torch.equal(watch.asking["vqa"][name], theirs[name]) for name in theirs)
    assert digest_of(strategy.network["cnt"]) == learned.digests[-1]["cnt"]
    assert digest_of(strategy.network["vqa"].asking) != digest_of(strategy.network["cnt"].asking)


def test_its_own_start_otherwise(few: Experiences, below: list[str], learned: Learned) -> None:
    watch = Watch()
    strategy = carry(pmn((watch,), start_from=below, asking="own"), few)
    theirs = strategy.network["cnt"].asking.state_dict()
    assert not any(torch.equal(watch.asking["vqa"][name], theirs[name]) for name in theirs)
    assert digest_of(strategy.network["cnt"]) == learned.digests[-1]["cnt"]


def test_without_m_cnt_there_is_nothing_to_copy_or_share(
    open_stream: Callable[..., Experiences], below: list[str]
) -> None:
    experiences = open_stream(["obj", "att", {"task": "vqa", "calls": ["obj", "att"]}], 1.0)
    for asking in ("copies", "shared"):
        strategy = carry(pmn(start_from=below, asking=asking), experiences)
        assert any("asking." in name for name in strategy.network["vqa"].state_dict())


def test_shared_parts_are_the_same_tensors_and_m_cnt_alone_changes(
    shared: tuple[Progressive, Watch], learned: Learned
) -> None:
    strategy, _ = shared
    network = strategy.network
    assert network["vqa"].asking is network["cnt"].asking
    for task in ("obj", "att", "rel", "cap"):
        assert digest_of(network[task]) == learned.digests[-1][task]
    assert digest_of(network["cnt"]) != learned.digests[-1]["cnt"]


def test_shared_parts_are_counted_kept_and_trained_once(
    shared: tuple[Progressive, Watch], copied: tuple[Progressive, Watch]
) -> None:
    strategy, watch = shared
    counts = [sum(p.numel() for p in s.network.parameters()) for s in (strategy, copied[0])]
    asking = sum(p.numel() for p in strategy.network["cnt"].asking.parameters())
    assert counts[0] == counts[1] - asking
    assert not any("asking." in name for name in strategy.network["vqa"].state_dict())
    held = [id(parameter) for parameter in watch.learning["vqa"]]
    assert len(held) == len(set(held))
    both = [strategy.network[task].parameters() for task in ("vqa", "cnt")]
    assert set(held) == {id(p) for parameters in both for p in parameters}


def test_a_fine_tuned_module_is_frozen_again_and_its_card_is_new(
    shared: tuple[Progressive, Watch], learned: Learned
) -> None:
    network, cards = shared[0].network, shared[0].cards
    assert not any(p.requires_grad for p in network.parameters())
    for task in ("cnt", "vqa"):
        assert network[task].identity == identity_of(network[task]) == cards[task].identity
    assert cards["cnt"].identity != learned.strategy.cards["cnt"].identity
    assert cards["cnt"].level == 2
    assert cards["vqa"].calls["cnt"] == cards["cnt"].identity
    assert cards["vqa"].shares == "cnt"


def test_fine_tuning_needs_no_sharing(few: Experiences, below: list[str], learned: Learned) -> None:
    strategy = carry(pmn(start_from=below, asking="copies", finetune=["cnt"]), few)
    changed = [t for t in BELOW if digest_of(strategy.network[t]) != learned.digests[-1][t]]
    assert changed == ["cnt"]


def test_the_best_epoch_of_a_fine_tuned_module_remains_too(
    few: Experiences, below: list[str]
) -> None:
    class SpoilLast(SupervisedPlugin):
        good: list[str]

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            network = strategy.network
            if strategy.clock.train_exp_epochs == 0:
                self.good = [digest_of(network[task]) for task in ("cnt", "vqa")]
            else:
                with torch.no_grad():
                    for task, factor in (("cnt", 2), ("vqa", 0)):
                        for value in network[task].state_dict().values():
                            value.mul_(factor)
                    network["vqa"].answer.bias[rarest] = 1.0

    answered = few["val"]["vqa"].samples.columns["answers"].ravel()
    names = few["val"]["vqa"].samples.store.names["answers"]
    rarest = int(np.bincount(answered, minlength=len(names)).argmin())
    spoil, seen = SpoilLast(), []
    chosen = PmnOptions.model_validate(
        {
            "asking": "shared",
            "finetune": ["cnt"],
            "start_from": below,
            "training": {"vqa": {"epochs": 2, "batch_size": 32, "warmup": 0}},
        }
    )
    strategy = Progressive(options=chosen, plugins=[spoil], on_progress=seen.append)
    carry(strategy, few)
    first, second = [progress.score for progress in seen if progress.score is not None]
    assert second < first  # as it was meant to be
    assert [digest_of(strategy.network[task]) for task in ("cnt", "vqa")] == spoil.good


def test_the_old_module_can_be_kept_beside_the_tuned_one(
    beside: Progressive, few: Experiences, learned: Learned
) -> None:
    assert digest_of(beside.network["cnt"]) == learned.digests[-1]["cnt"]
    assert same(answers(beside, few, "cnt"), learned.answers[-1]["cnt"])
    tuned = beside.network["vqa"].callees["cnt"]
    assert tuned is not beside.network["cnt"]
    assert beside.network["vqa"].asking is tuned.asking
    x, _ = few["val"]["cnt"].batches[np.arange(40)]
    with torch.no_grad():
        env = beside.network.environment(x, "cnt")
        tuned_answers = tuned.outputs(tuned(tuned.own_query(env), env), env)
    assert not torch.equal(tuned_answers, learned.answers[-1]["cnt"])


def test_keeping_the_old_module_does_not_change_what_is_learned(
    beside: Progressive, shared: tuple[Progressive, Watch], few: Experiences
) -> None:
    tuned = beside.network["vqa"].callees["cnt"]
    assert digest_of(tuned) == digest_of(shared[0].network["cnt"])
    assert same(answers(beside, few, "vqa"), answers(shared[0], few, "vqa"))
    # It borrows the very modules that the old one borrows.
    for name, callee in tuned.callees.items():
        assert callee is beside.network[name]


def test_only_what_m_vqa_calls_can_be_fine_tuned(
    open_stream: Callable[..., Experiences], below: list[str]
) -> None:
    experiences = open_stream(["obj", "att", {"task": "vqa", "calls": ["obj"]}], 1.0)
    with pytest.raises(UserError, match=r"finetune: 'cnt' is not called by 'vqa', only obj"):
        carry(pmn(start_from=below, finetune=["cnt"]), experiences)


def test_what_others_call_can_be_fine_tuned_as_a_copy_alone(
    few: Experiences, below: list[str], learned: Learned
) -> None:
    """M_rel, M_cap and M_cnt call M_obj: they would answer otherwise, and no longer be known."""
    with pytest.raises(UserError, match=r"finetune: 'obj' is called by .*cnt.*keep_old"):
        carry(pmn(start_from=below, finetune=["obj"]), few)
    strategy = carry(pmn(start_from=below, finetune=["obj"], keep_old=True), few)
    tuned = strategy.network["vqa"].callees["obj"]
    assert digest_of(tuned) != learned.digests[-1]["obj"]
    for task in BELOW:
        assert strategy.network[task].identity == identity_of(strategy.network[task])
        assert same(answers(strategy, few, task), learned.answers[-1][task])
    remembered = answers(strategy, few, "vqa")
    strategy.network.memory = None
    assert torch.allclose(remembered, answers(strategy, few, "vqa"), atol=1e-4)


# The loss.


def query_and_targets() -> tuple[RelationQuery, dict[str, Tensor]]:
    """Three samples over four boxes, two relations in two directions."""
    asked = RelationQuery(
        box=torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.5, 0.3, 0.1, 0.1]]),
        relation=torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.05, 0.15, 0.2, 0.6]]),
    )
    y = {
        "ask_boxes": torch.tensor([[0, 1, 0, 1], [1, 1, 1, 1], [1, 0, 0, 0]]).bool(),
        "ask_relation": torch.tensor([0, -1, 1]),
        "ask_direction": torch.tensor([0, 0, 1]),
    }
    return asked, y


def test_any_box_of_the_anchor_is_right_and_relations_have_directions() -> None:
    found = query_loss(*query_and_targets(), relations=2)
    # Boxes 1 and 3 of the first, box 0 of the last; relation 0 forth, relation 1 back (code 3).
    box = -(math.log(0.2 + 0.4) + math.log(0.5)) / 2
    relation = -(math.log(0.7) + math.log(0.6)) / 2
    assert float(found) == pytest.approx(box + relation, rel=1e-6)


@pytest.mark.parametrize("directions", [1, 3])
def test_relations_may_have_one_direction_or_three(directions: int) -> None:
    relations, sure = 2, 0.9
    asked = torch.full((1, relations * directions), (1 - sure) / (relations * directions - 1))
    asked[0, relations * directions - 1] = sure  # the last relation in the last direction
    y = {
        "ask_boxes": torch.ones(1, 1, dtype=torch.bool),
        "ask_relation": torch.tensor([relations - 1]),
        "ask_direction": torch.tensor([directions - 1]),
    }
    loss = query_loss(RelationQuery(torch.ones(1, 1), asked), y, relations)
    assert float(loss) == pytest.approx(-math.log(sure), rel=1e-6)


def test_a_sample_that_needs_no_relation_costs_nothing() -> None:
    asked, y = query_and_targets()
    needy = torch.tensor([0, 2])
    some = RelationQuery(asked.box[needy], asked.relation[needy])
    alone = query_loss(some, {name: value[needy] for name, value in y.items()}, relations=2)
    assert float(query_loss(asked, y, relations=2)) == float(alone)


def test_a_batch_that_needs_no_relation_costs_nothing_and_can_still_be_differentiated() -> None:
    asked, y = query_and_targets()
    box = asked.box.clone().requires_grad_()
    none = {**y, "ask_relation": torch.full((3,), -1)}
    loss = query_loss(RelationQuery(box, asked.relation), none, relations=2)
    loss.backward()
    assert loss.item() == 0
    assert box.grad is not None and not box.grad.any()


def test_a_query_that_is_wholly_wrong_costs_much_but_not_infinitely_much() -> None:
    asked, y = query_and_targets()
    wrong = RelationQuery(torch.zeros_like(asked.box), torch.zeros_like(asked.relation))
    found = float(query_loss(wrong, y, relations=2))
    assert 100 < found < math.inf


def test_the_distance_of_counts_by_hand() -> None:
    # Sure of 3 when it is 1: 2 − ½. Torn between 1 and 2 when it is 2: ½ · ½². Right: nothing.
    sure = -30.0 * torch.ones(3, 5)
    sure[0, 3] = sure[1, 1] = sure[1, 2] = sure[2, 4] = 0.0
    found = count_distance(sure, torch.tensor([1, 2, 4]))
    assert float(found) == pytest.approx((1.5 + 0.125 + 0) / 3, abs=1e-5)


def split_by_need(experience: Any) -> tuple[np.ndarray, np.ndarray]:
    """Samples that need a relation, and those that need none."""
    needs = experience.samples.columns["ask_relation"] >= 0
    return np.flatnonzero(needs)[:30], np.flatnonzero(~needs)[:30]


@pytest.mark.parametrize("task", ["cnt", "vqa"])
def test_supervision_adds_to_the_loss_of_those_who_need_a_relation_alone(
    experiences: Experiences, kept: Path, task: str
) -> None:
    experience = experiences["val"][task]
    by_weight = {}
    for weight in (0.0, 0.5, 1.0):
        given = {"supervise": [task] if weight else [], "supervision": weight or 1.0}
        strategy = carry(pmn(start_from=[str(kept)], **given), experiences)
        losses = []
        for rows in split_by_need(experience):
            x, y = experience.batches[rows]
            losses.append(float(strategy.batch_loss(x, y, experience)[1]))
        by_weight[weight] = losses
    needy, others = zip(*by_weight.values(), strict=True)
    assert others[0] == others[1] == others[2]
    assert needy[0] < needy[1] < needy[2]
    assert needy[2] - needy[0] == pytest.approx(2 * (needy[1] - needy[0]), rel=1e-4)


def test_supervision_is_that_of_the_query_that_m_rel_gets(
    experiences: Experiences, kept: Path
) -> None:
    from pmn_cl.modules.runtime.trace import Trace

    experience, trace = experiences["val"]["cnt"], Trace()
    off, on = (
        carry(pmn(start_from=[str(kept)], supervise=tasks, supervision=1.0), experiences)
        for tasks in ([], ["cnt"])
    )
    x, y = experience.batches[split_by_need(experience)[0]]
    with torch.no_grad():
        losses = [float(strategy.batch_loss(x, y, experience)[1]) for strategy in (off, on)]
        on.network(x, "cnt", trace=trace)
    asked = trace.of("cnt", "rel")[0].query
    relations = len(experience.samples.store.names["relations"])
    expected = float(query_loss(asked, y, relations))
    assert losses[1] - losses[0] == pytest.approx(expected, rel=1e-4)


def test_the_distance_of_counts_is_added_for_m_cnt_alone(
    experiences: Experiences, kept: Path
) -> None:
    found = {}
    for task in ("cnt", "vqa"):
        experience = experiences["val"][task]
        x, y = experience.batches[np.arange(30)]
        for weight in (0.0, 2.0):
            training = {t: {"epochs": 1, "loss": {"count_distance": weight}} for t in TASKS}
            options = {"supervise": [], "training": training, "start_from": [str(kept)]}
            strategy = carry(pmn(**options), experiences)
            with torch.no_grad():
                outputs, loss = strategy.batch_loss(x, y, experience)
            found[task, weight] = float(loss)
        if task == "cnt":
            by_hand = 2.0 * float(count_distance(outputs, y["count"]))
            assert by_hand > 0
            added = found[task, 2.0] - found[task, 0.0]
            assert added == pytest.approx(by_hand, rel=1e-4)
    assert found["vqa", 2.0] == found["vqa", 0.0]


@pytest.mark.parametrize("supervise", [["cnt"], []])
def test_samples_without_a_count_train_the_query_alone(
    supervise: list[str], experiences: Experiences, kept: Path
) -> None:
    """As the paper's relational synthetic questions do for Q_{cnt→rel} (section 4.1)."""
    experience = experiences["val"]["cnt"]
    x, y = experience.batches[np.arange(60)]
    asks = y["ask_relation"] >= 0
    assert asks.any() and not asks.all()
    departures = {"supervise_encoder": False}
    options = {"supervise": supervise, "departures": departures, "start_from": [str(kept)]}
    strategy = carry(pmn(memory=False, **options), experiences)
    module = strategy.network["cnt"]
    module.unfreeze()
    y["count"][asks] = -1

    def changed(rows: Tensor) -> set[str]:
        """Which parts get a gradient from some samples."""
        module.zero_grad()
        _, loss = strategy.batch_loss(x[rows], y[rows], experience)
        loss.backward()
        assert loss.isfinite()
        named = module.named_parameters()
        moved = [name for name, p in named if p.grad is not None and p.grad.any()]
        return {".".join(name.split(".")[:3]) for name in moved}

    query = {"asking.box.f", "asking.box.z", "asking.relation.0", "asking.relation.2"}  # b and r
    query |= {"asking.attention.g"}  # with which b compares, too
    assert changed(asks) == (query if supervise else set())
    assert changed(torch.ones(60, dtype=torch.bool)) > {"asking.attention.f", "layer.weight"}


def test_the_distance_of_counts_leaves_out_those_not_known() -> None:
    logits = torch.randn(4, 5)
    count = torch.tensor([1, -1, 4, -1])
    known = count_distance(logits[[0, 2]], count[[0, 2]])
    assert float(count_distance(logits, count)) == pytest.approx(float(known))
    assert float(count_distance(logits, torch.full((4,), -1))) == 0


# Call lists.

VARIANTS = {  # Tables 2 and 3 of the paper: M_cnt's call list, M_vqa's call list
    "cnt0": ([], None),
    "cnt1": (["obj", "att"], None),
    "cnt2": (["obj", "att", "rel"], None),
    "vqa0": (None, []),
    "vqa1": (None, ["obj", "att"]),
    "vqa2": (None, ["rel", "obj", "att"]),
    "vqa3": (["obj", "att"], ["obj", "att", "cnt"]),
    "vqa4": (["obj", "att", "rel"], ["rel", "obj", "att", "cnt"]),
    "vqa5": (["obj", "att", "rel"], ["rel", "obj", "att", "cnt", "cap"]),
}
YAML = """
name: {name}
world: {{name: digits, scenes: {{train: 300, val: 50, test: 250, novel: 200}}}}
tasks: [obj, att, rel, cap{tasks}]
fraction: 1
strategies: [pmn]
seeds: [0]
"""


@pytest.mark.parametrize("name", VARIANTS)
def test_the_papers_variants_are_built_from_yaml_and_learn_a_step(
    name: str, cache: Path, tmp_path: Path, kept: Path
) -> None:
    task, calls = name[:3], dict(zip(("cnt", "vqa"), VARIANTS[name], strict=True))
    more = [f", {{task: {k}, calls: {v}}}" for k, v in calls.items() if v is not None]
    path = tmp_path / "stream.yaml"
    path.write_text(YAML.format(name=name, tasks="".join(more)), "utf-8")
    benchmark = Stream.open(load_spec(path), 0, cache=cache).as_avalanche()
    experiences = {
        split: {experience.task.name: experience for experience in benchmark.streams[split]}
        for split in ("train", "val")
    }
    watch = Watch()
    one_step = {k: {"epochs": 1, "least_steps": 0, "batch_size": 64} for k in TASKS}
    known = [str(path) for path in kept.iterdir() if path.name[:3] != task]
    strategy = carry(pmn((watch,), start_from=known, training=one_step), experiences)
    module = strategy.network[task]
    assert set(module.callees) == set(calls[task] or [])
    assert set(module.call_list) - {"Ω", "Δ"} == (
        set(module.callees) if task == "vqa" else set(module.callees) & {"rel"}
    )
    assert digest_of(module) != watch.start[task][task]
    assert all(value.isfinite().all() for value in module.state_dict().values())
    metric = experiences["val"][task].task.metric
    assert 0 <= strategy.score(experiences["val"][task])[metric] <= 1


def test_m_vqa_calls_in_the_papers_order(learned: Learned) -> None:
    cnt, vqa = (learned.strategy.network[task] for task in ("cnt", "vqa"))
    assert cnt.call_list == ("Ω", "rel")
    assert vqa.call_list == ("Ω", "rel", "obj", "att", "Δ", "cnt", "cap")  # section 3.3


# Memory.


def test_remembering_scenes_does_not_change_twenty_steps_of_m_vqa5(
    few: Experiences, below: list[str]
) -> None:
    training = {"vqa": {"epochs": 4, "batch_size": 60, "warmup": 0}}  # 300 samples: 20 steps
    curves, found = [], []
    for memory in (True, False):
        watch = Watch()
        strategy = pmn((watch,), start_from=below, memory=memory, training=training)
        for task in BELOW:
            strategy.learn(few["train"][task], few["val"][task])
        strategy.train(few["train"]["vqa"])
        curves.append(watch.losses)
        found.append(answers(strategy, few, "vqa"))
    assert len(curves[0]) == 20
    # Rounding grows with every step, the faster the higher the learning rate.
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)
    assert torch.allclose(found[0], found[1], atol=1e-2)
    assert curves[0][-1] < curves[0][0]


# Modules that were learned before.


def test_starting_from_kept_modules_skips_training_and_answers_the_same(
    kept: Path, experiences: Experiences, learned: Learned
) -> None:
    seen: list[TrainingProgress] = []
    chosen = PmnOptions.model_validate({"start_from": [str(kept)]})
    strategy = carry(Progressive(options=chosen, seed=9, on_progress=seen.append), experiences)
    assert seen == []
    assert strategy.samples_seen == 0
    for task in TASKS:
        assert strategy.network[task].identity == learned.strategy.network[task].identity
        assert same(answers(strategy, experiences, task), learned.answers[-1][task])
        expected = learned.strategy.predict(experiences["val"][task])
        assert np.array_equal(strategy.predict(experiences["val"][task]), expected)
    assert strategy.cards == learned.strategy.cards


def test_what_was_not_given_is_learned_on_top_of_what_was(
    kept: Path, few: Experiences, learned: Learned
) -> None:
    seen: list[TrainingProgress] = []
    files = [str(path) for path in kept.iterdir() if path.name[:3] in ("obj", "att")]
    training = {task: {"epochs": 1} for task in TASKS}
    chosen = PmnOptions.model_validate({"start_from": files, "training": training})
    carry(Progressive(options=chosen, on_progress=seen.append), few)
    ended = [progress.task for progress in seen if progress.score is not None]
    assert ended == ["rel", "cap", "cnt", "vqa"]


def test_a_file_to_start_from_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(UserError, match=r"start_from: nowhere/at-all: no such file or folder"):
        pmn(start_from=["nowhere/at-all"])


def test_shared_modules_can_be_started_from(
    shared: tuple[Progressive, Watch], few: Experiences, tmp_path: Path
) -> None:
    shared[0].save(tmp_path)
    again = carry(pmn(start_from=[str(tmp_path)]), few)
    assert again.network["vqa"].asking is again.network["cnt"].asking
    for task in TASKS:
        assert same(answers(again, few, task), answers(shared[0], few, task))


# A user's own modules.

OWN_MODULE = '''
from pmn_cl.modules.terminal import ObjectModule


class Loud(ObjectModule):
    """M_obj, twice as sure."""

    def outputs(self, answer, env):
        return 2 * super().outputs(answer, env)
'''


def test_a_users_own_module_is_named_by_reference(
    open_stream: Callable[..., Experiences], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_object_module.py").write_text(OWN_MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    experiences = open_stream(["obj", "att", "rel"], 10.0)
    strategy = carry(pmn(modules={"obj": "own_object_module:Loud"}), experiences)
    assert type(strategy.network["obj"]).__name__ == "Loud"
    assert strategy.network["rel"].callees["obj"] is strategy.network["obj"]
    assert strategy.cards["obj"].module == "own_object_module:Loud"
    strategy.save(tmp_path / "modules")
    again = carry(pmn(start_from=[str(tmp_path / "modules")]), experiences)
    assert same(answers(again, experiences, "obj"), answers(strategy, experiences, "obj"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere_at_all:Name", "no module 'nowhere_at_all'"),
        ("pmn_cl.modules.terminal:ObjectModul", "did you mean 'ObjectModule'"),
        ("pmn_cl.modules.layers:GatedTanh", "TaskModule"),
        ("object", "unknown module 'object'"),
    ],
)
def test_a_reference_to_no_module_is_refused(
    few: Experiences, reference: str, message: str
) -> None:
    strategy = pmn(modules={"obj": reference})
    with pytest.raises(UserError, match=message):
        strategy.learn(few["train"]["obj"], few["val"]["obj"])


def test_m_vqa_can_call_a_module_of_the_users_own(learned: Learned) -> None:
    network = learned.strategy.network
    module = AnswerModule(network["obj"].plan, {"mine": network["obj"]})
    assert module.call_list == ("Ω", "Δ", "mine")


@pytest.mark.parametrize("training", [{"vqa": {"epoch": 3}}, {"vqa": {"epochs": 0}}], ids=str)
def test_wrong_training_settings_are_refused_with_the_options(training: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        pmn(training=training)


def test_the_training_of_a_new_task_has_to_be_said_in_full() -> None:
    message = "'mine' needs learning_rate, batch_size"
    with pytest.raises(UserError, match=message):
        pmn(training={"mine": {"epochs": 3}})


def test_a_fine_tuned_module_keeps_its_level(few: Experiences, below: list[str]) -> None:
    strategy = carry(pmn(start_from=below, finetune=["rel"], keep_old=True), few)
    assert strategy.cards["rel of vqa"].level == 1


def test_a_module_can_be_fine_tuned_where_there_is_no_m_cnt(
    open_stream: Callable[..., Experiences], below: list[str]
) -> None:
    experiences = open_stream(["obj", "att", "rel", {"task": "vqa", "calls": ["rel"]}], 1.0)
    untouched = carry(pmn(start_from=below), experiences)
    tuned = carry(pmn(start_from=below, finetune=["rel"]), experiences)
    digests = [digest_of(strategy.network["rel"]) for strategy in (untouched, tuned)]
    assert digests[0] != digests[1] == tuned.cards["rel"].digest
    assert tuned.cards["rel"].level == 1


@pytest.mark.parametrize("asking", ["copies", "shared"])
@pytest.mark.parametrize(
    ("cnt", "vqa"),
    [([], ["rel", "obj", "att", "cnt"]), (["obj", "att", "rel"], ["obj", "att", "cnt"])],
    ids=["M_vqa calls more", "M_cnt calls more"],
)
def test_m_vqa_takes_nothing_of_an_m_cnt_that_calls_other_modules(
    open_stream: Callable[..., Experiences],
    below: list[str],
    asking: str,
    cnt: list[str],
    vqa: list[str],
) -> None:
    """Ω and Q→rel would not fit, which is said, with the way out."""
    tasks = ["obj", "att", "rel", {"task": "cnt", "calls": cnt}, {"task": "vqa", "calls": vqa}]
    experiences = open_stream(tasks, 1.0)
    with pytest.raises(UserError, match=r"cannot have the same .* `asking: own`"):
        carry(pmn(start_from=below, asking=asking, finetune=["cnt"]), experiences)
    assert "vqa" in carry(pmn(start_from=below, asking="own"), experiences).cards


def test_copies_attend_as_m_cnt_does_whatever_the_order_of_calls(
    open_stream: Callable[..., Experiences], below: list[str]
) -> None:
    class Attention(SupervisedPlugin):
        def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            x, _ = strategy.experience.batches[np.arange(20)]
            env = strategy.network.environment(x, "vqa")
            cnt, vqa = (strategy.network[task] for task in ("cnt", "vqa"))
            key = cnt.own_query(env)
            self.maps = [module.asking.attend(key, env, module) for module in (cnt, vqa)]

    plugin = Attention()
    tasks = [*TASKS[:3], "cnt", {"task": "vqa", "calls": ["rel", "att", "obj", "cnt"]}]
    carry(pmn((plugin,), start_from=below, asking="copies"), open_stream(tasks, 1.0))
    assert torch.allclose(*plugin.maps, atol=1e-5)


def test_an_old_module_kept_beside_the_tuned_one_can_be_started_from(
    beside: Progressive, few: Experiences, tmp_path: Path
) -> None:
    beside.save(tmp_path)
    again = carry(pmn(start_from=[str(tmp_path)]), few)
    for task in TASKS:
        assert same(answers(again, few, task), answers(beside, few, task))


def test_a_loss_that_is_not_finite_is_traced_to_what_describes_the_regions(
    few: Experiences, below: list[str]
) -> None:
    strategy = pmn(start_from=[path for path in below if "cnt-" not in path])
    for task in TASKS[:4]:
        strategy.learn(few["train"][task], few["val"][task])
    nn.init.constant_(strategy.network["obj"].project.weight, math.nan)
    with pytest.raises(UserError, match=r"that of obj, called by M_"):
        strategy.learn(few["train"]["cnt"], few["val"]["cnt"])
