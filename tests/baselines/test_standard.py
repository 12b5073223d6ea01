"""The standard methods: what each adds to hard sharing, and Avalanche's own loop beside ours."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from baselines.hard_sharing import HardSharing
from baselines.options import REFUSED, PluginOptions, ReplayOptions
from baselines.standard.plugin import Plugin
from baselines.standard.regularisation import Ewc, Mas, Si
from baselines.standard.rehearsal import Agem, Replay
from benchmarks.avalanche_stream import collate, make_benchmark
from benchmarks.stream import Stream, StreamTask
from pmn_cl.data.loader import BatchLoader
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import StoreWriter
from pmn_cl.data.world import World
from pmn_cl.errors import UserError
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.tasks.base import Columns, Names, Task
from strategies.loaders import task_seed

import_avalanche()

import avalanche.training.plugins as avalanche_plugins  # noqa: E402
from avalanche.core import BasePlugin  # noqa: E402
from avalanche.training.plugins import SupervisedPlugin  # noqa: E402
from avalanche.training.supervised import EWC, Naive  # noqa: E402
from avalanche.training.supervised import Replay as AvalancheReplay  # noqa: E402

Experiences = dict[str, dict[str, Any]]
EPOCHS_OF = {"obj": 4, "att": 2, "rel": 1}
TASKS = list(EPOCHS_OF)
REGULARISED: list[Any] = [Ewc, Si, Mas]
WITH_MEMORY: list[Any] = [Agem, Replay]
STRONG = {Ewc: 1e6, Si: 1e5, Mas: 100.0}


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(["obj", "att", {"task": "rel", "fraction": 15.0}])


def make(
    kind: Any, *, plugins: Any = (), seed: int = 0, budget: float = 100.0, **options: Any
) -> Any:
    """A strategy with short trainings."""
    usual = {"schedule": "constant", "warmup": 0}
    training = {task: {**usual, "epochs": epochs} for task, epochs in EPOCHS_OF.items()}
    chosen = kind.Options.model_validate({"training": training, "width": 32, **options})
    return kind(options=chosen, seed=seed, budget=budget, plugins=plugins)


def learn(strategy: Any, experiences: Experiences, tasks: list[str] = TASKS) -> Any:
    for task in tasks:
        strategy.learn(experiences["train"][task], experiences["val"][task])
    return strategy


class Watch(SupervisedPlugin):
    """Writes something down for every step, by task."""

    def __init__(self, look: Callable[[Any], Any], moment: str = "after_update") -> None:
        super().__init__()
        self.found: dict[str, list[Any]] = {}

        def watch(strategy: Any, **kwargs: Any) -> None:
            self.found.setdefault(strategy.experience.task.name, []).append(look(strategy))

        setattr(self, moment, watch)


# Penalties.


@pytest.mark.parametrize("kind", REGULARISED)
def test_a_penalty_is_zero_for_the_first_task_and_above_zero_for_every_other(
    experiences: Experiences, kind: Any
) -> None:
    watch = Watch(lambda strategy: strategy.penalty())
    strategy = make(kind, plugins=[watch])
    assert strategy.penalty() == 0  # nothing was learned yet
    learn(strategy, experiences)
    assert set(watch.found["obj"]) == {0.0}
    for task in ("att", "rel"):
        found = watch.found[task]
        resting = math.ceil(strategy.settings[task].carried_rest * len(found))  # of the trunk
        assert min(found[resting:]) > 0  # each step moves weights that had become important


@pytest.mark.parametrize("kind", REGULARISED)
def test_the_penalty_is_what_the_loss_has_too_much(experiences: Experiences, kind: Any) -> None:
    """What Avalanche adds, measured on its way, and all weights of the trunk take part in it."""
    extra: list[tuple[float, float]] = []

    class Measure(SupervisedPlugin):
        def before_backward(self, strategy: Any, **kwargs: Any) -> None:
            added = (strategy.loss - strategy.mb_loss).item()
            extra.append((added, strategy.penalty()))

    strategy = make(kind, plugins=[Measure()], strength=STRONG[kind])
    learn(strategy, experiences, ["obj", "att"])
    added, reported = np.array(extra).T
    assert reported.max() > 1e-3
    assert added == pytest.approx(reported, abs=1e-5)


@pytest.mark.parametrize("kind", REGULARISED)
def test_without_strength_it_is_plain_hard_sharing_and_with_much_it_forgets_less(
    experiences: Experiences, kind: Any
) -> None:
    plain, none, much = (
        learn(strategy, experiences, ["obj", "att"])
        for strategy in (
            make(HardSharing),
            make(kind, strength=0),
            make(kind, strength=STRONG[kind]),
        )
    )
    assert none.digest() == plain.digest()
    old, kept = (strategy.score(experiences["test"]["obj"])["top1"] for strategy in (plain, much))
    assert kept > old + 0.02
    new, held = (strategy.score(experiences["test"]["att"])["map"] for strategy in (plain, much))
    assert held < new  # which it pays for with what it learns


def batches(experience: Any, size: int) -> Iterator[tuple[Any, Any]]:
    yield from BatchLoader(experience.batches, size, shuffle=False)


def gradients(loss: Tensor, network: nn.Module) -> dict[str, Tensor]:
    names, weights = zip(*network.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_importances_of_ewc_and_mas_are_those_of_a_calculation_by_hand(
    experiences: Experiences, task: str
) -> None:
    experience = experiences["train"][task]
    ewc, mas = (make(kind) for kind in (Ewc, Mas))
    for strategy in (ewc, mas):
        strategy.train(experience)
    squares: dict[str, list[Tensor]] = {}
    sizes: dict[str, list[Tensor]] = {}
    for x, y in batches(experience, ewc.train_mb_size):
        terms = ewc.settings[task].loss
        loss = experience.task.training_loss(ewc.model(x, task, teacher=y), y, terms)
        for name, gradient in gradients(loss, ewc.model).items():
            squares.setdefault(name, []).append(gradient**2)
        norms = (mas.model(x, task, teacher=y) ** 2).sum() / len(x)  # mean over samples
        for name, gradient in gradients(norms, mas.model).items():
            sizes.setdefault(name, []).append(gradient.abs())
    assert "trunk.regions.first.weight" in squares  # shared by all tasks: Avalanche's issue 1099
    for by_hand, found in ((squares, ewc.plugin.importances[0]), (sizes, mas.plugin.importance)):
        assert by_hand.keys() == found.keys()
        for name, values in by_hand.items():
            expected = torch.stack(values).mean(0)
            torch.testing.assert_close(found[name].data, expected, rtol=1e-3, atol=1e-7)
        assert by_hand["trunk.regions.first.weight"][0].max() > 0


def test_importances_of_si_add_up_how_the_loss_fell_along_the_path(
    experiences: Experiences,
) -> None:
    """Zenke et al., eq. 5: Ω = Σ −g·Δθ / (Δ² + ξ), here within 0 … 0.001."""
    before, path = {}, {}

    class Path(SupervisedPlugin):
        def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            before.update(copy.deepcopy(strategy.model.state_dict()))

        def before_update(self, strategy: Any, **kwargs: Any) -> None:
            self.theta = copy.deepcopy(strategy.model.state_dict())

        def after_update(self, strategy: Any, **kwargs: Any) -> None:
            for name, weight in strategy.model.named_parameters():
                step = -weight.grad * (weight.detach() - self.theta[name])
                path[name] = path.get(name, 0) + step

    strategy = make(Si, plugins=[Path()])
    strategy.train(experiences["train"]["obj"])
    found = strategy.plugin.ewc_data[1]
    for name, weight in strategy.model.named_parameters():
        moved = (weight.detach() - before[name]) ** 2
        expected = (path[name] / (moved + 1e-7)).clamp(0, 0.001)
        torch.testing.assert_close(found[name].data, expected.flatten(), rtol=1e-2, atol=1e-6)
    assert found["trunk.regions.first.weight"].data.max() > 0


def test_weights_that_made_the_loss_rise_have_no_importance_for_si(
    experiences: Experiences,
) -> None:
    class Backwards(SupervisedPlugin):
        def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            for path in strategy.plugin.syn_data["trajectory"].values():
                path.data = -path.data

    strategy = make(Si)
    strategy.plugins.insert(0, Backwards())
    strategy.train(experiences["train"]["obj"])
    importances = torch.cat([known.data for known in strategy.plugin.ewc_data[1].values()])
    assert (importances == 0).all()  # less than none would reward forgetting


def test_avalanches_own_si_does_nothing_on_a_cpu(experiences: Experiences) -> None:
    """Why ``Si`` does not take it as it is; if this fails, Avalanche has mended it."""
    theirs = avalanche_plugins.SynapticIntelligencePlugin(si_lambda=1e9)
    alone, with_it = make(HardSharing), make(HardSharing, plugins=[theirs])
    for strategy in (alone, with_it):
        learn(strategy, experiences, ["obj", "att"])
    assert alone.digest() == with_it.digest()


# Memories.


def test_agem_projects_what_opposes_the_memory_and_nothing_else(experiences: Experiences) -> None:
    dots: dict[str, list[tuple[float, float]]] = {"before": [], "after": []}

    def gradient(model: nn.Module) -> Tensor:
        rows = [
            torch.zeros(p.numel()) if p.grad is None else p.grad.flatten()
            for p in model.parameters()
        ]
        return torch.cat(rows).double()

    class Look(SupervisedPlugin):
        def __init__(self, when: str) -> None:
            super().__init__()
            self.when = when

        def after_backward(self, strategy: Any, **kwargs: Any) -> None:
            if strategy.experience.task.name != "obj":
                reference, own = (
                    strategy.plugin.reference_gradients.double(),
                    gradient(strategy.model),
                )
                size = float(reference.norm() * own.norm())
                dots[self.when].append((float(own @ reference) / size, float(own.norm())))

    strategy = make(Agem, plugins=[Look("after")], sample_size=32)
    strategy.plugins.insert(0, Look("before"))
    learn(strategy, experiences, ["obj"])
    assert strategy.projections == 0
    learn(strategy, experiences, ["att", "rel"])
    before, after = (np.array(dots[when])[:, 0] for when in ("before", "after"))
    opposed = before < 0
    assert 0 < strategy.projections == opposed.sum() < len(before)
    assert np.array_equal(before[~opposed], after[~opposed])
    assert (after[opposed] > before[opposed]).all()


def test_the_reference_gradient_is_that_of_the_mean_loss_of_the_samples_drawn(
    experiences: Experiences,
) -> None:
    drawn: list[Any] = []
    found: list[tuple[Tensor, dict[str, Tensor]]] = []

    class Recording(Agem):
        def draw(self, count: int) -> Any:
            drawn.append(super().draw(count))
            return drawn[-1]

    class Look(SupervisedPlugin):
        def before_forward(self, strategy: Any, **kwargs: Any) -> None:
            if strategy.experience.task.name == "rel" and not found:
                loss = torch.zeros(())
                for label, task in enumerate(("obj", "att")):
                    experience = experiences["train"][task]
                    rows = [row for other, row in drawn[-1] if other == label]
                    asked = experience.samples.columns["asked"][rows].sum(
                        1
                    )  # regions of each sample
                    for row, share in zip(rows, asked / asked.sum(), strict=True):
                        x, y = experience.batches[np.array([row])]
                        one = experience.task.loss(strategy.model(x, task), y)  # mean over regions
                        loss = loss + len(rows) / 16 * share * one
                reference = strategy.plugin.reference_gradients
                found.append((reference, gradients(loss, strategy.model)))

    strategy = learn(make(Recording, plugins=[Look()], sample_size=16), experiences)
    reference, by_hand = found[0]
    assert {0, 1} <= {label for label, _ in drawn[-1]}  # of both earlier tasks
    expected = torch.cat([by_hand[name].flatten() for name, _ in strategy.model.named_parameters()])
    torch.testing.assert_close(reference, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("storage", "shares"), [("experience", [30, 30, 30]), ("reservoir", None)])
def test_replay_keeps_so_many_samples_of_each_task(
    experiences: Experiences, storage: str, shares: list[int] | None
) -> None:
    strategy = learn(make(Replay, mem_size=90, storage=storage), experiences)
    labels, rows = strategy.memory.T
    assert len({(label, row) for label, row in strategy.memory}) == 90  # none twice
    counts = np.bincount(labels, minlength=3)
    sizes = np.array([len(experiences["train"][task].samples) for task in TASKS])
    assert (rows < sizes[labels]).all()
    if shares is not None:
        assert counts.tolist() == shares
    else:  # every sample has the same chance
        expected = 90 * sizes / sizes.sum()
        assert (abs(counts - expected) < 4 * np.sqrt(expected)).all()


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [(Replay, {"mem_size": 50}, 50), (Agem, {"patterns_per_experience": 25}, 50)],
)
def test_a_memory_is_reported_in_samples_and_bytes(
    experiences: Experiences, kind: Any, options: Any, count: int
) -> None:
    strategy = make(kind, **options)
    assert strategy.details()["memory_bytes"] == 0
    learn(strategy, experiences, ["obj", "att"])
    boxes = experiences["train"]["obj"].samples.columns["label"].shape[1]
    attributes = len(experiences["train"]["obj"].samples.store.names["attributes"])
    seen = boxes * (128 * 4 + 4 * 4 + 1) + 8 + 8  # regions, boxes, mask; scene and sample
    obj, att = boxes * (8 + 1) + 8, boxes * (attributes + 1) + 8  # target, asked; task
    reported = strategy.details()
    assert reported["memory_samples"] == count
    assert (
        reported["memory_bytes"]
        == strategy.memory_bytes()
        == count * seen + count // 2 * (obj + att)
    )


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_every_step_draws_kept_samples_afresh_as_the_seed_says(
    experiences: Experiences, kind: Any
) -> None:
    class Recording(kind):  # type: ignore[misc]
        def draw(self, count: int) -> Any:
            found = super().draw(count)
            draws.append([row for _, row in found.tolist()])
            return found

    runs = []
    for seed in (0, 0, 1):
        draws: list[list[int]] = []
        strategy = learn(make(Recording, seed=seed), experiences, ["obj"])
        kept = set(strategy.memory[:, 1].tolist())
        learn(strategy, experiences, ["att"])
        runs.append(draws)
        assert all(len(set(drawn)) == len(drawn) for drawn in draws)  # none twice in a step
        seen = {row for drawn in draws for row in drawn}
        assert seen <= kept and len(seen) > 0.8 * len(kept)
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_a_memory_changes_what_is_forgotten(experiences: Experiences, kind: Any) -> None:
    plain, with_memory = (learn(make(k), experiences, ["obj", "att"]) for k in (HardSharing, kind))
    test = experiences["test"]["obj"]
    assert not np.array_equal(plain.predict(test), with_memory.predict(test))
    if kind is Replay:
        assert with_memory.score(test)["top1"] > plain.score(test)["top1"] + 0.02


# The same budget for all.


@pytest.mark.parametrize("kind", [*REGULARISED, *WITH_MEMORY])
@pytest.mark.parametrize("budget", [30.0, 100.0])
def test_every_method_learns_from_the_batches_of_plain_hard_sharing(
    experiences: Experiences, kind: Any, budget: float
) -> None:
    orders = []
    for each in (HardSharing, kind):
        watch = Watch(lambda strategy: strategy.mb_x["sample"].tolist())
        strategy = make(each, plugins=[watch], budget=budget)
        learn(strategy, experiences, ["obj", "att"])
        orders.append(watch.found)
    assert orders[0] == orders[1]
    new = sum(len(rows) for task in orders[1].values() for rows in task)
    replayed = strategy.details().get("samples_replayed", 0)
    assert strategy.samples_seen == new + replayed
    steps = len(orders[1]["att"])  # of which each has as many kept samples as a batch
    per_step = {Agem: 64, Replay: strategy.train_mb_size}.get(kind, 0)
    assert replayed == steps * per_step


# Plugins by name.


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_plugin_that_cannot_work_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ValidationError) as raised:
        PluginOptions.model_validate({"plugin": f"avalanche.training.plugins:{name}"})
    assert REFUSED[name] in str(raised.value)


def test_all_plugins_of_avalanches_are_known_to_work_or_not() -> None:
    theirs = {
        name
        for name, kind in vars(avalanche_plugins).items()
        if isinstance(kind, type) and issubclass(kind, BasePlugin)
    }
    works = {"EWCPlugin", "FromScratchTrainingPlugin", "SupervisedPlugin"}
    assert theirs - works <= set(REFUSED)


@pytest.mark.parametrize("storage", ["class", "task", "class-balanced"])
def test_a_storage_that_cannot_work_is_refused_with_the_reason(storage: str) -> None:
    with pytest.raises(
        ValidationError, match=r"cannot work here: it (counts classes|takes data sets)"
    ):
        ReplayOptions.model_validate({"storage": storage})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"plugin": "avalanche.training.plugin:EWCPlugin"},
            r"no module 'avalanche.training.plugin'",
        ),
        ({"plugin": "avalanche.training.plugins:EwcPlugin"}, r"has no 'EwcPlugin'; did you mean"),
        ({"plugin": "collections:OrderedDict"}, r"is no plugin of Avalanche's"),
        ({"plugin": "own_plugins:Patient"}, r"cannot work here: every method gets the same steps"),
        (
            {"plugin": "avalanche.training.plugins:EWCPlugin", "arguments": {"lambda": 1}},
            r"does not take the arguments \{'lambda': 1\}",
        ),
    ],
)
def test_a_plugin_that_cannot_be_made_is_refused_before_any_training(
    own_plugins: None, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        make(Plugin, **given)


def test_online_ewc_is_refused() -> None:
    given = {"ewc_lambda": 1, "mode": "online", "decay_factor": 0.5}
    with pytest.raises(ValidationError, match="'online' cannot work here"):
        PluginOptions.model_validate(
            {"plugin": "avalanche.training.plugins:EWCPlugin", "arguments": given}
        )


def test_a_name_that_is_no_reference_is_refused() -> None:
    with pytest.raises(ValidationError):
        PluginOptions.model_validate({"plugin": "ewc"})


OWN = '''
from avalanche.training.plugins import EarlyStoppingPlugin, SupervisedPlugin


class Patient(EarlyStoppingPlugin):
    pass


class Shorter(SupervisedPlugin):
    """Brings a loader of its own: three batches; and calls the network as Avalanche's do."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def before_training_exp(self, strategy, **kwargs):
        batches = strategy.experience.batches
        read = [batches[list(range(i, i + self.size))] for i in range(3)]
        strategy.dataloader = [[x, y, y["task"]] for x, y in read]

    def before_forward(self, strategy, **kwargs):
        assert strategy.model(strategy.mb_x).shape[0] == self.size
'''


@pytest.fixture
def own_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_plugins.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_any_plugin_can_be_named(experiences: Experiences) -> None:
    given = {"ewc_lambda": 1000.0}
    named = make(Plugin, plugin="avalanche.training.plugins:EWCPlugin", arguments=given)
    ours = make(Ewc, strength=1000.0)
    for strategy in (named, ours):
        learn(strategy, experiences, ["obj", "att"])
    assert named.digest() == ours.digest()  # though one reads sample by sample
    assert named.state() is None


@pytest.mark.parametrize("budget", [20.0, 100.0])
def test_a_plugin_with_a_loader_of_its_own_gets_the_same_steps(
    own_plugins: None, experiences: Experiences, budget: float
) -> None:
    plain = make(HardSharing, budget=budget)
    own = make(Plugin, plugin="own_plugins:Shorter", arguments={"size": 8}, budget=budget)
    for strategy in (plain, own):
        learn(strategy, experiences, ["obj", "att"])
    assert own.clock.train_iterations == plain.clock.train_iterations > 3
    assert own.samples_seen == 8 * own.clock.train_iterations


# Beside Avalanche's own strategies: digits in two halves, a head for each.

HALVES = {"low": range(5), "high": range(5, 10)}


class Halves(World):
    """Digits of scikit-learn's, an image a scene; the low ones and the high ones are tasks."""

    name, summary = "halves", "handwritten digits in two halves"

    def write(self, store: StoreWriter, progress: Any) -> None:
        store.name_values("digits", [str(digit) for digit in range(10)])
        images, labels = load_digits(return_X_y=True)
        for number, split in enumerate(("train", "val", "test")):
            chosen = np.arange(len(labels)) % 3 == number
            digits = labels[chosen]
            columns: dict[str, Any] = {
                "scenes/regions": (images[chosen, None] / 16).astype("f2"),
                "scenes/boxes": np.tile(np.float32([0, 0, 1, 1]), (len(digits), 1, 1)),
                "scenes/mask": np.ones((len(digits), 1), bool),
            }
            for task, half in HALVES.items():
                scenes = np.flatnonzero(np.isin(digits, half))
                columns |= {f"{task}/scene": scenes, f"{task}/label": digits[scenes]}
            for name, values in columns.items():
                store.create(f"{split}/{name}", len(values), values.shape[1:], values.dtype)
                store.append(f"{split}/{name}", values)


class Low(Task):
    """Which digit is it?"""

    name, summary, level = "low", "tell digits apart", 0
    target = ("label",)
    metric = "accuracy"
    outputs = "digits"
    form = "answer"

    def score(self, predictions: Any, columns: Columns, names: Names) -> dict[str, float]:
        return {"accuracy": float((predictions == columns["label"]).mean())}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy(outputs, targets["label"])

    def decode(self, outputs: Tensor) -> Any:
        return outputs.argmax(1).numpy()

    def constant(self, columns: Columns, names: Names) -> Any:
        return np.asarray(np.bincount(columns["label"]).argmax())


class High(Low):
    name = "high"


@pytest.fixture(scope="module")
def halves(cache: Path) -> Experiences:
    store = Halves().prepare(cache)
    experiences = [
        StreamTask(task, (), 100.0, {s: Samples.whole(store, s, task) for s in store.splits})
        for task in (Low(), High())
    ]
    benchmark = make_benchmark(Stream("halves", Halves(), store, tuple(experiences)))
    return {
        split: {experience.task.name: experience for experience in stream}
        for split, stream in benchmark.streams.items()
    }


BATCH, EPOCHS, RATE = 32, 3, 0.01


def on_halves(kind: Any, halves: Experiences, seed: int = 0, **options: Any) -> Any:
    """A strategy of ours, its network with both heads from the start."""
    settings = {"learning_rate": RATE, "batch_size": BATCH, "epochs": EPOCHS}
    given = {"training": dict.fromkeys(HALVES, settings), "width": 16, **options}
    strategy = kind(options=kind.Options.model_validate(given), seed=seed)
    torch.manual_seed(seed)
    for experience in halves["train"].values():
        strategy.prepare(experience)
    return strategy


class ByTask(nn.Module):
    """The same network for Avalanche: digit scores, whatever half a sample is of."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)

    def forward(self, x: Any) -> Tensor:
        labels = x["y", "task"]
        scores = torch.zeros(len(x), 10)
        for label, task in enumerate(HALVES):
            if (labels == label).any():
                scores[labels == label] = self.network(x[labels == label], task)
        return scores


class OurOrder(SupervisedPlugin):
    """Lets a strategy of Avalanche's read samples in the order that ours does."""

    def __init__(self, seed: int, kept: Callable[[], Any] = list) -> None:
        super().__init__()
        self.seed, self.kept = seed, kept
        self.experiences: list[Any] = []

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        experience = strategy.experience
        if experience not in self.experiences:
            self.experiences.append(experience)
        seed = task_seed(self.seed, experience.task.name)
        loader = BatchLoader(
            experience.batches, BATCH, seed=seed, epoch=strategy.clock.train_exp_epochs
        )
        strategy.dataloader = self.read(experience, [x["sample"] for x, _ in loader])

    def read(self, experience: Any, order: list[Tensor]) -> Iterator[Any]:
        """Sample by sample, out of Avalanche's data sets, with what is kept after what is new."""
        for rows in order:
            new = [experience.dataset[int(row)] for row in rows]
            kept = [self.experiences[label].dataset[int(row)] for label, row in self.kept()]
            yield collate(new + kept)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        torch.manual_seed(task_seed(self.seed, f"memory of {strategy.experience.task.name}"))


def in_avalanche(kind: Any, ours: Any, halves: Experiences, order: Any = None, **given: Any) -> Any:
    """Train a copy of our network, as it is now, by a strategy of Avalanche's."""
    model = ByTask(ours.network)
    return kind(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=RATE, fused=True),
        criterion=lambda scores, y: cross_entropy(scores, y["label"]),
        train_mb_size=BATCH,
        train_epochs=EPOCHS,
        plugins=[order] if order else [],
        evaluator=None,
        **given,
    )


def train_both(ours: Any, theirs: Any, halves: Experiences) -> None:
    for experience in halves["train"].values():
        ours.train(experience)
        theirs.train(experience, reset_optimizer_state=True)


def weights(strategy: Any) -> dict[str, Tensor]:
    state = strategy.model.state_dict()
    return {name.removeprefix("network."): value for name, value in state.items()}


@pytest.mark.parametrize(
    ("ours", "options", "theirs", "given"),
    [
        (HardSharing, {}, Naive, {}),
        (Ewc, {"strength": 100.0}, EWC, {"ewc_lambda": 100.0}),
    ],
)
def test_our_loop_gives_the_weights_of_avalanches_own_bit_for_bit(
    halves: Experiences, ours: Any, options: Any, theirs: Any, given: Any
) -> None:
    mine = on_halves(ours, halves, **options)
    start = copy.deepcopy(weights(mine))
    other = in_avalanche(theirs, mine, halves, OurOrder(0), **given)
    train_both(mine, other, halves)
    found, expected = weights(mine), weights(other)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert any(not torch.equal(found[name], start[name]) for name in found)
    plain = on_halves(HardSharing, halves)
    for experience in halves["train"].values():
        plain.train(experience)
    assert (plain.digest() == mine.digest()) == (ours is HardSharing)


def test_replay_gives_the_weights_of_avalanches_own_on_the_same_samples(
    halves: Experiences,
) -> None:
    """Avalanche's strategy keeps by itself what ours keeps, and learns from mixed batches."""
    draws: list[Any] = []

    class Recording(Replay):
        def draw(self, count: int) -> Any:
            draws.append(super().draw(count))
            return draws[-1]

    mine = on_halves(Recording, halves, mem_size=100)
    # What ours draws in each step, theirs draws after it.
    order = OurOrder(0, lambda: draws.pop(0) if draws else [])
    theirs = in_avalanche(AvalancheReplay, mine, halves, order, mem_size=100)
    train_both(mine, theirs, halves)
    assert not draws and mine.samples_replayed > 0
    buffer = theirs.plugins[1].storage_policy.buffer
    kept = sorted((int(label), int(x["sample"])) for x, _, label in buffer)
    assert kept == sorted((label, row) for label, row in mine.memory.tolist())
    found, expected = weights(mine), weights(theirs)
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4)


def accuracy(strategy: Any, experience: Any) -> float:
    x, y, _ = collate([experience.dataset[i] for i in range(len(experience.dataset))])
    with torch.no_grad():
        right = strategy.model.eval()(x).argmax(1) == y["label"]
    return float(right.float().mean())


def test_replay_agrees_with_avalanches_own_loader_within_the_noise_of_seeds(
    halves: Experiences,
) -> None:
    old = halves["test"]["low"]
    found: dict[str, list[float]] = {"plain": [], "ours": [], "theirs": []}
    for seed in range(4):
        mine, plain = (on_halves(kind, halves, seed) for kind in (Replay, HardSharing))
        theirs = in_avalanche(AvalancheReplay, mine, halves, mem_size=1000)
        train_both(mine, theirs, halves)
        for experience in halves["train"].values():
            plain.train(experience)
        found["ours"].append(mine.score(old)["accuracy"])
        found["theirs"].append(accuracy(theirs, old))
        found["plain"].append(plain.score(old)["accuracy"])
    plain_mean, ours, theirs_mean = (np.mean(found[who]) for who in ("plain", "ours", "theirs"))
    noise = np.std(found["ours"] + found["theirs"])
    assert abs(ours - theirs_mean) < max(2 * noise, 0.02)
    assert min(ours, theirs_mean) > plain_mean + 0.05
