"""Progressive Neural Networks: by hand, against Avalanche's, and over a whole stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from baselines.common.heads import head_for
from baselines.common.trunk import NetworkPlan, observed
from baselines.options import PnnOptions
from baselines.pnn import Lateral, LateralLayer, ProgressiveColumns, ProgressiveNetwork, Wiring
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Sizes, WorldShape
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.attributes import AttributeTask
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.captions import CaptionTask
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import RelationTask

import_avalanche()

from avalanche.benchmarks import nc_benchmark  # noqa: E402
from avalanche.models.dynamic_modules import avalanche_model_adaptation  # noqa: E402
from avalanche.models.pnn import PNN  # noqa: E402
from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]
KINDS: dict[str, Task] = {
    "obj": ObjectTask(),
    "att": AttributeTask(),
    "rel": RelationTask(),
    "cap": CaptionTask(),
    "cnt": CountTask(),
    "vqa": AnswerTask(),
}
NAMES = {
    "objects": ["none", "cat", "dog"],
    "attributes": ["red", "big"],
    "relations": ["left of", "above", "near"],
    "directions": ["to", "from"],
    "caption words": ["", "a", "b", "c", "d"],
    "question words": ["", "how", "many", "is"],
    "counts": ["0", "1", "2", "3"],
    "answers": ["yes", "no", "cat"],
}
REGION, WIDTH, ATTENTION = 5, 6, 3
SIZES = Sizes(
    hidden=4,
    knowledge=4,
    attention=ATTENTION,
    relation=4,
    relation_attention=ATTENTION,
    caption=4,
    word=2,
    terminal=4,
)
PLAN = NetworkPlan(WorldShape(REGION, NAMES), SIZES, WIDTH, ATTENTION)
B, N = 7, 4
PLACED = 4 + (9 * 9 - 1)  # centre and size; sine and cosine of 40 plane waves


def network_of(tasks: list[Task], wiring: Wiring | None = None) -> ProgressiveNetwork:
    torch.manual_seed(0)
    network = ProgressiveNetwork(PLAN, wiring)
    for label, task in enumerate(tasks):
        experience: Any = SimpleNamespace(task=task, task_label=label)
        network.add(experience)
    return network


def batch_for(task: Task, seed: int = 1) -> dict[str, Tensor]:
    """Samples that carry the query of one task, and no other."""
    torch.manual_seed(seed)
    corner = torch.rand(B, N, 2) / 2
    x = {
        "regions": torch.randn(B, N, REGION),
        "boxes": torch.cat([corner, corner + torch.rand(B, N, 2) / 2], dim=2),
        "mask": torch.ones(B, N, dtype=torch.bool),
    }
    queries = {
        "question": torch.randint(1, 4, (B, 3)),
        "box": torch.randint(0, N, (B,)),
        "relation": torch.randint(0, 3, (B,)),
        "direction": torch.randint(0, 2, (B,)),
    }
    return {**x, **{name: queries[name] for name in task.query}}


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def fill(parameter: Tensor, values: Any) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(values))


# The equations, by hand.


def test_a_layer_with_adapters_is_equation_2() -> None:
    layer = LateralLayer(2, 1, columns=2, wiring=Wiring(adapters=True, alpha=0.01))
    assert layer.lateral.alpha.tolist() == pytest.approx([0.01, 0.01])  # as the options say
    fill(layer.W.weight, [[1.0, -1.0]])
    fill(layer.W.bias, [0.5])
    fill(layer.lateral.alpha, [0.5, 2.0])
    fill(layer.lateral.V.weight, [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])
    fill(layer.lateral.V.bias, [0.0, 1.0])
    fill(layer.lateral.U.weight, [[2.0, 7.0]])
    earlier = [torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[2.0, 3.0]] * 2)]
    # α ⊙ h = (0.5, 0, 4, 6); V gives (4.5, −5), σ of it (4.5, 0), U of that 9.
    # W h = 1 − 2 + 0.5 = −0.5 for the first sample, and 0 − 20 + 0.5 for the second.
    found = layer(torch.tensor([[1.0, 2.0], [0.0, 20.0]]), earlier)
    assert found.tolist() == [[8.5], [0.0]]


def test_a_layer_without_adapters_is_equation_1() -> None:
    layer = LateralLayer(2, 1, columns=2, wiring=Wiring(adapters=False))
    fill(layer.W.weight, [[1.0, -1.0]])
    fill(layer.W.bias, [0.5])
    fill(layer.lateral.U.weight, [[1.0, 5.0, 0.0, -1.0]])  # U⁽¹⁾ = (1, 5), U⁽²⁾ = (0, −1)
    earlier = [torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 3.0]])]
    # 4 − 1 + 0.5, plus 1 of the first column, minus 3 of the second.
    assert layer(torch.tensor([[4.0, 1.0]]), earlier).tolist() == [[1.5]]


def test_a_first_column_receives_nothing() -> None:
    layer = LateralLayer(3, 2, columns=0, wiring=Wiring())
    h = torch.randn(5, 3)
    assert torch.equal(layer(h, []), layer.W(h).relu())
    assert size(layer) == 3 * 2 + 2


def test_a_layer_wants_all_its_columns() -> None:
    with pytest.raises(ValueError, match="1 columns came, expected 2"):
        Lateral(3, 3, 2, Wiring())(torch.zeros(1, 3), [torch.zeros(1, 3)])


@settings(max_examples=25, deadline=None)
@given(
    lead=st.lists(st.integers(1, 3), min_size=0, max_size=3),
    columns=st.integers(0, 3),
    below=st.integers(1, 4),
    adapters=st.booleans(),
)
def test_a_layer_treats_every_place_alone(
    lead: list[int], columns: int, below: int, adapters: bool
) -> None:
    torch.manual_seed(0)
    layer = LateralLayer(below, 3, columns, Wiring(adapters, 1.0))
    h, *earlier = torch.randn(columns + 1, *lead, below)
    whole = layer(h, earlier)
    assert whole.shape == (*lead, 3)
    for place in np.ndindex(*lead):
        alone = layer(h[place], [e[place] for e in earlier])
        assert torch.allclose(whole[place], alone, atol=1e-6)


def lateral_by_hand(weights: Mapping[str, Tensor], name: str, received: list[Tensor]) -> Tensor:
    """U σ(V · α ⊙ h), with α multiplied onto the activations, as it is written."""
    alpha = weights[f"{name}.alpha"]
    stacked = torch.cat([a * h for a, h in zip(alpha, received, strict=True)], dim=-1)
    inner = stacked @ weights[f"{name}.V.weight"].T + weights[f"{name}.V.bias"]
    return inner.clamp(min=0) @ weights[f"{name}.U.weight"].T


def test_three_columns_over_regions_are_the_equations_written_out() -> None:
    """The head is the next layer: its W h + U σ(V · α ⊙ h), where U is the head's W times ours."""

    class Again(ObjectTask):
        name = "again"

    network = network_of([KINDS["obj"], KINDS["att"], Again()], Wiring(alpha=0.7))
    x = batch_for(KINDS["obj"])
    seen = observed(Environment.of(x))
    firsts: list[Tensor] = []
    seconds: list[Tensor] = []
    for name in ("obj", "att", "again"):
        w = {key: value.detach() for key, value in network[name].state_dict().items()}
        first = (seen @ w["first.weight"].T + w["first.bias"]).clamp(min=0)
        second = first @ w["second.W.weight"].T + w["second.W.bias"]
        if firsts:
            second = second + lateral_by_hand(w, "second.lateral", firsts)
        second = second.clamp(min=0)
        outputs = second @ w["head.scores.weight"].T + w["head.scores.bias"]
        if firsts:
            product = w["head.scores.weight"] @ w["regions.U.weight"]
            outputs = outputs + lateral_by_hand(
                {**w, "regions.U.weight": product}, "regions", seconds
            )
        assert torch.allclose(network(x, name), outputs, atol=1e-5)
        firsts.append(first)
        seconds.append(second)


# Which columns receive from which.


def test_a_fused_vector_is_heard_where_its_query_is_asked() -> None:
    network = network_of(list(KINDS.values()))
    assert {name: network[name].receives_from for name in KINDS} == {
        "obj": set(),  # whose head looks at regions alone, as that of att
        "att": set(),
        "rel": set(),
        "cap": set(),  # no box, no relation
        "cnt": {"cap"},
        "vqa": {"cap", "cnt"},
    }


def test_a_second_relation_receives_from_the_first_and_captions() -> None:
    class Again(RelationTask):
        name = "again"

    network = network_of([KINDS["rel"], KINDS["vqa"], KINDS["cap"], Again()])
    assert network["again"].receives_from == {"rel", "cap"}


@pytest.mark.parametrize(
    ("part", "received"),
    [
        ("obj.first", True),
        ("rel.second.W", True),  # its regions are there whatever is asked
        ("rel.reader.relation", False),
        ("rel.fusion.join", False),
        ("cap.fusion.join", True),
        ("cnt.reader.project", True),
        ("cap.head.start", False),  # heads tell nobody
        ("vqa.fusion.join", True),
    ],
)
def test_which_parts_an_answer_depends_on(part: str, received: bool) -> None:
    network = network_of(list(KINDS.values()), Wiring(alpha=1.0))
    x = batch_for(KINDS["vqa"])
    before = network(x, "vqa")
    with torch.no_grad():
        for parameter in network.columns.get_submodule(part).parameters():
            parameter.add_(0.5)
    assert torch.equal(network(x, "vqa"), before) != received


def test_no_column_receives_from_a_later_one() -> None:
    network = network_of(list(KINDS.values()))
    alone = {name: network_of(list(KINDS.values())[: i + 1]) for i, name in enumerate(KINDS)}
    for name, smaller in alone.items():
        shared = {k: v for k, v in network.state_dict().items() if k in smaller.state_dict()}
        smaller.load_state_dict(shared)
        x = batch_for(KINDS[name])
        assert torch.equal(smaller(x, name), network(x, name))


# What learns.


@pytest.mark.parametrize("adapters", [True, False])
def test_gradients_reach_all_of_the_new_column_and_nothing_else(adapters: bool) -> None:
    network = network_of(list(KINDS.values()), Wiring(adapters))  # nothing is frozen by itself
    x = batch_for(KINDS["vqa"])
    network(x, "vqa").square().sum().backward()
    without = [name for name, p in network["vqa"].named_parameters() if p.grad is None]
    assert without == []
    laterals = ["second.lateral", "regions", "fused"]
    kinds = ["U.weight", "V.weight", "alpha"] if adapters else ["U.weight"]
    for name in (f"{lateral}.{kind}" for lateral in laterals for kind in kinds):
        grad = network["vqa"].get_parameter(name).grad
        assert grad is not None and bool((grad != 0).any()), name
    for earlier in TASKS[:-1]:
        assert all(p.grad is None for p in network[earlier].parameters())


def test_a_frozen_column_keeps_out_of_training() -> None:
    network = network_of([KINDS["obj"], KINDS["att"]])
    x = batch_for(KINDS["obj"])
    layers: Any = [network["obj"].first, nn.Dropout(0.5), nn.BatchNorm1d(N)]
    network["obj"].first = nn.Sequential(*layers)  # with what would change by itself
    network["obj"].freeze()
    before = digest_of(network["obj"])
    network.train()
    assert not any(module.training for module in network["obj"].modules())
    assert all(module.training for module in network["att"].modules())
    first, second = network(x, "att"), network(x, "att")
    assert torch.equal(first, second)  # no dropout
    assert digest_of(network["obj"]) == before  # no running statistics
    assert not any(p.requires_grad for p in network["obj"].parameters())


# How many parameters.


def lateral_size(columns: int, adapters: bool) -> int:
    if not columns:
        return 0
    if not adapters:
        return columns * WIDTH * WIDTH
    return columns + (columns * WIDTH * WIDTH + WIDTH) + WIDTH * WIDTH


def encoder_size(kind: str, columns: int, fused: int, adapters: bool) -> int:
    regions = (REGION + PLACED) * WIDTH + WIDTH + WIDTH * WIDTH + WIDTH
    regions += 2 * lateral_size(columns, adapters)
    if kind in ("obj", "att"):
        return regions
    gru = 3 * (4 * 2 + 4 * 4 + 2 * 4)  # three gates, 2 wide words, 4 wide states
    question = 4 * 2 + gru + 4 * WIDTH + WIDTH
    readers = {"rel": 3 * 2 * WIDTH, "cap": WIDTH, "cnt": question, "vqa": question}
    attention = 2 * (WIDTH * ATTENTION + ATTENTION) + ATTENTION + 1
    join = 3 * WIDTH * WIDTH + WIDTH
    return regions + readers[kind] + attention + join + lateral_size(fused, adapters)


@pytest.mark.parametrize("adapters", [True, False])
def test_how_many_parameters_a_column_has(adapters: bool) -> None:
    network = network_of(list(KINDS.values()), Wiring(adapters))
    fused = {"cnt": 1, "vqa": 2}
    for columns, (kind, task) in enumerate(KINDS.items()):
        head = size(head_for(task, PLAN))
        expected = encoder_size(kind, columns, fused.get(kind, 0), adapters) + head
        assert size(network[kind]) == expected


def test_parameters_grow_with_the_square_of_the_tasks() -> None:
    numbered = [type(f"Task{i}", (AnswerTask,), {"name": f"vqa{i}"})() for i in range(6)]
    totals = [size(network_of(numbered[:n])) for n in range(1, 7)]
    # One column more is an α and a square of V more, in each of three laterals; the first
    # lateral is not counted, as it also brings U.
    assert np.diff(totals, 2)[1:].tolist() == [3 * (1 + WIDTH * WIDTH)] * 3


# Over a stream.


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, fraction=20)


def pnn(seed: int = 0, plugins: tuple[Any, ...] = (), **options: Any) -> ProgressiveColumns:
    training = {task: {"epochs": 1, "batch_size": 128, "warmup": 0} for task in TASKS}
    chosen = {"training": training, "width": 16, "attention": 8, **options}
    return ProgressiveColumns(options=PnnOptions.model_validate(chosen), seed=seed, plugins=plugins)


def learn(strategy: ProgressiveColumns, experiences: Experiences, *tasks: str) -> None:
    for task in tasks:
        strategy.learn(experiences["train"][task], experiences["val"][task])


@pytest.mark.parametrize("adapters", [True, False])
def test_evaluating_the_whole_stream_after_every_task_changes_nothing(
    experiences: Experiences, adapters: bool
) -> None:
    watched, alone = pnn(adapters=adapters), pnn(adapters=adapters)
    with pytest.raises(UserError, match="'obj' was not learned; learned: none"):
        watched.predict(experiences["val"]["obj"])
    first: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for place, task in enumerate(TASKS):
        learn(watched, experiences, task)
        learn(alone, experiences, task)
        before = digest_of(watched.model)
        for seen in TASKS[: place + 1]:
            experience = experiences["val"][seen]
            predictions = watched.predict(experience)
            assert np.array_equal(predictions, first.setdefault(seen, predictions))
            samples = experience.samples
            found = experience.task.score(predictions, samples.columns, samples.store.names)
            score = found[experience.task.metric]
            assert scores.setdefault(seen, score) - score == 0  # forgetting
            watched.eval(experience)  # as Avalanche's users do
        for unseen in TASKS[place + 1 :]:
            with pytest.raises(UserError, match=f"'{unseen}' was not learned; learned: obj"):
                watched.predict(experiences["val"][unseen])
            with pytest.raises(UserError, match=f"'{unseen}' was not learned"):
                watched.eval(experiences["val"][unseen])
        assert list(watched.network.columns) == TASKS[: place + 1]
        assert digest_of(watched.model) == before
    assert digest_of(watched.model) == digest_of(alone.model)


class Watch(SupervisedPlugin):
    """Notes the digests of all columns before and after a task."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: dict[str, str] = {}
        self.changed: list[set[str]] = []
        self.learning: list[set[str]] = []

    def _digests(self, strategy: Any) -> dict[str, str]:
        return {name: digest_of(c) for name, c in strategy.network.columns.items()}

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.digests = self._digests(strategy)
        optimized = {id(p) for group in strategy.optimizer.param_groups for p in group["params"]}
        columns = strategy.network.columns.items()
        self.learning.append(
            {name for name, c in columns if any(id(p) in optimized for p in c.parameters())}
        )

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        now = self._digests(strategy)
        self.changed.append({name for name in now if now[name] != self.digests[name]})


def test_a_task_changes_its_own_column_alone(experiences: Experiences) -> None:
    watch = Watch()
    strategy = pnn(plugins=(watch,))
    learn(strategy, experiences, *TASKS)
    assert watch.learning == watch.changed == [{task} for task in TASKS]
    for task in TASKS:
        assert strategy.learning(experiences["train"][task]) is strategy.network[task]
    total, trainable = strategy.parameter_count()
    assert total == size(strategy.model)
    assert trainable == size(strategy.network["vqa"])
    assert not any(p.requires_grad for p in strategy.model.parameters())


def test_a_task_learned_twice_stays_as_it_was(experiences: Experiences) -> None:
    strategy = pnn()
    learn(strategy, experiences, "obj", "att")
    before = digest_of(strategy.model)
    learn(strategy, experiences, "obj")
    assert digest_of(strategy.model) == before


def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    experiences: Experiences,
) -> None:
    digests = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed + 100)  # what was drawn before must not matter
        strategy = pnn(seed)
        learn(strategy, experiences, "obj", "rel")
        digests.append([digest_of(strategy.network[task]) for task in ("obj", "rel")])
    assert digests[0] == digests[1]
    assert all(a != b for a, b in zip(digests[0], digests[2], strict=True))


def test_what_is_saved_is_loaded(experiences: Experiences, tmp_path: Path) -> None:
    strategy, again = pnn(), pnn(seed=5)
    learn(strategy, experiences, *TASKS)
    strategy.save(tmp_path)
    again.load(tmp_path, list(experiences["train"].values()))
    assert digest_of(again.model) == digest_of(strategy.model)
    assert again.parameter_count() == strategy.parameter_count()
    assert all(again.network[task].frozen for task in TASKS)
    for task in TASKS:
        experience = experiences["val"][task]
        assert np.array_equal(again.predict(experience), strategy.predict(experience))
    with pytest.raises(UserError, match="does not fit this strategy's options"):
        pnn(adapters=False).load(tmp_path, list(experiences["train"].values()))


def test_options_reach_the_columns(experiences: Experiences) -> None:
    strategy = pnn(alpha=0.25)
    strategy.build([experiences["train"]["obj"], experiences["train"]["att"]])
    assert strategy.network["att"].regions.alpha.tolist() == [0.25]
    for wrong in ({"alpha": 0.0}, {"adapters": 1}, {"adapter": True}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            PnnOptions.model_validate(wrong)


# Against Avalanche's, which is right as long as it is evaluated on seen tasks only.

PIXELS = 64  # of a digit of scikit-learn's; layers are as wide, so that V is the same in both


class Perceptrons(nn.Module):
    """Columns of two lateral layers and a linear head on split digits.

    As in Avalanche, the first layer receives the input once more for every earlier column.
    """

    def __init__(self, adapters: bool) -> None:
        super().__init__()
        self.wirings = Wiring(True), Wiring(adapters)  # Avalanche's first layer always has some
        self.columns = nn.ModuleList()
        self.heads = nn.ModuleList()

    def take_over(self, theirs: Any) -> None:
        """Add a column with the weights that Avalanche's new column starts from."""
        place = len(self.columns)
        layers = [LateralLayer(PIXELS, PIXELS, place, wiring).double() for wiring in self.wirings]
        for ours, layer in zip(layers, theirs.layers, strict=True):
            copy_column(layer.columns[place], ours)
        head = nn.Linear(PIXELS, 2).double()
        head.load_state_dict(theirs.classifier.classifiers[str(place)].classifier.state_dict())
        self.columns.append(nn.ModuleList(layers))
        self.heads.append(head)

    def forward(self, x: Tensor, task: int) -> Tensor:
        firsts: list[Tensor] = []
        seconds: list[Tensor] = []
        for place, (first, second) in enumerate(self.columns[: task + 1]):
            with torch.set_grad_enabled(torch.is_grad_enabled() and place == task):
                h = first(x, [x] * place)
                seconds.append(second(h, firsts))
                firsts.append(h)
        outputs: Tensor = self.heads[task](seconds[task])
        return outputs


@torch.no_grad()
def copy_column(theirs: Any, ours: LateralLayer) -> None:
    """Copy weights; their U have biases, which are added to the same sum as that of W."""
    ours.W.load_state_dict(theirs.itoh.state_dict())
    if not theirs.num_prev_modules:
        return
    if ours.lateral.adapters:
        ours.lateral.alpha.copy_(theirs.adapter.alphas)
        ours.lateral.V.load_state_dict(theirs.adapter.V.state_dict())
        ours.lateral.U.weight.copy_(theirs.adapter.U.weight)
        ours.W.bias.add_(theirs.adapter.U.bias)
    else:
        laterals = list(theirs.adapter.lat_layers)
        ours.lateral.U.weight.copy_(torch.cat([u.weight for u in laterals], dim=1))
        ours.W.bias.add_(sum(u.bias for u in laterals))


@pytest.fixture(scope="module")
def split_digits() -> Any:
    """Five tasks of two digits each, with task labels."""
    from sklearn.datasets import load_digits
    from torch.utils.data import TensorDataset

    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    sets = []
    for chosen in (slice(0, 1200), slice(1200, None)):
        data = TensorDataset(x[chosen], y[chosen])
        data.targets = y[chosen].tolist()  # which Avalanche asks for
        sets.append(data)
    return nc_benchmark(*sets, 5, True, shuffle=False, class_ids_from_zero_in_each_exp=True)


def tensors_of(experience: Any) -> tuple[Tensor, Tensor]:
    x, y, _ = zip(*experience.dataset, strict=True)
    return torch.stack(x).double(), torch.tensor(y)


def train(network: nn.Module, x: Tensor, y: Tensor, task: int) -> None:
    learning = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(network(x, task), y).backward()
        optimizer.step()


@pytest.mark.parametrize("adapter", ["mlp", "linear"])
def test_ours_and_avalanches_agree_on_seen_tasks(split_digits: Any, adapter: str) -> None:
    torch.manual_seed(0)
    theirs, ours = PNN(2, PIXELS, PIXELS, adapter=adapter), Perceptrons(adapter == "mlp")
    for task, experience in enumerate(split_digits.train_stream[:3]):
        avalanche_model_adaptation(theirs, experience)
        theirs.double()  # so that nothing but rounding far below the tolerance can differ
        for name, parameter in theirs.named_parameters():
            if name.endswith("U.bias") or ("lat_layers" in name and name.endswith("bias")):
                parameter.requires_grad_(False)  # else what is one bias here learns twice as fast
        ours.take_over(theirs)
        x, y = tensors_of(experience)
        with torch.no_grad():
            assert torch.allclose(ours(x, task), theirs(x, task), atol=1e-9)
        train(theirs, x, y, task)
        train(ours, x, y, task)
        for seen, test in enumerate(split_digits.test_stream[: task + 1]):
            x, y = tensors_of(test)
            with torch.no_grad():
                answers = [network(x, seen) for network in (ours, theirs)]
            assert torch.allclose(*answers, atol=1e-9)
            accuracies = [float((a.argmax(1) == y).float().mean()) for a in answers]
            assert accuracies[0] == accuracies[1] > 0.9
