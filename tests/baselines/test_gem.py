"""Gradient episodic memory: the projection against other solvers, and over a stream."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.optimize import minimize
from torch import Tensor

from baselines.gem import GradientEpisodicMemory, project
from baselines.hard_sharing import HardSharing
from baselines.options import GemOptions
from pmn_cl.modules.task_module import digest_of
from pmn_cl.strategy.avalanche import import_avalanche

import_avalanche()

from avalanche.training.plugins import SupervisedPlugin  # noqa: E402

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]
FAST = {"epochs": 1, "learning_rate": 0.01, "warmup": 0}
SMALL = {"width": 16, "attention": 8, "training": dict.fromkeys(TASKS, FAST)}


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS)


def gem(seed: int = 0, plugins: tuple[Any, ...] = (), **options: Any) -> GradientEpisodicMemory:
    """Learn with a small network, a small memory and one epoch per task, unless options differ."""
    given = {**SMALL, "patterns_per_experience": 10, **options}
    return GradientEpisodicMemory(
        options=GemOptions.model_validate(given), seed=seed, plugins=plugins
    )


def learn(strategy: HardSharing, experiences: Experiences, tasks: list[str]) -> None:
    for task in tasks:
        strategy.train(experiences["train"][task])


# The projection.


def projected(g: Any, memories: Any, margin: float = 0.0) -> list[float]:
    found = project(torch.tensor(g).double(), torch.tensor(memories).double(), margin)
    return [float(value) for value in found]


def test_a_violated_constraint_takes_away_what_goes_against_it() -> None:
    assert projected([1.0, -1.0], [[0.0, 3.0]]) == pytest.approx([1, 0])
    # Along (1, 1) there is 1/2 too little of each.
    assert projected([1.0, -2.0], [[1.0, 1.0]]) == pytest.approx([1.5, -1.5])
    # Between walls that leave only what is right of both.
    assert projected([-1.0, -1.0], [[1.0, 0.0], [0.0, 1.0]]) == pytest.approx([0, 0])


def test_the_memory_strength_goes_beyond_what_the_constraints_ask() -> None:
    assert projected([1.0, -1.0], [[0.0, 1.0]], 0.5) == pytest.approx([1, 0])  # v = 1 ≥ 1/2
    assert projected([1.0, -1.0], [[0.0, 1.0]], 2.0) == pytest.approx([1, 1])  # v = 2, the least
    # Only the first is violated, with v = 1; of the second, too, comes 2 at least.
    assert projected([-1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 2.0) == pytest.approx([1, 3])


def test_where_nothing_is_violated_the_gradient_is_the_same_one() -> None:
    g, memories = torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 5.0], [0.0, 1.0], [0.0, 0.0]])
    assert project(g, memories, 0.5) is g


def by_active_sets(g: NDArray[Any], memories: NDArray[Any]) -> NDArray[Any]:
    """The nearest of all points that lie on some of the walls and violate none."""
    best = np.zeros_like(g)  # violates nothing
    for size in range(len(memories) + 1):
        for chosen in combinations(memories, size):
            walls = np.array(chosen).reshape(size, len(g))
            point = g - np.linalg.pinv(walls) @ (walls @ g)
            right = (memories @ point >= -1e-9 * np.linalg.norm(memories, axis=1)).all()
            if right and np.linalg.norm(point - g) < np.linalg.norm(best - g):
                best = point
    return best


gradients = st.tuples(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 9))


@given(gradients)
@settings(max_examples=100, deadline=None)
def test_it_is_the_nearest_gradient_that_violates_nothing(drawn: tuple[int, int, int]) -> None:
    seed, count, width = drawn
    dice = np.random.default_rng(seed)
    g = dice.normal(size=width)
    memories = dice.normal(size=(count, width)) * 10 ** dice.uniform(-3, 3, size=(count, 1))
    found = project(torch.tensor(g), torch.tensor(memories)).numpy()
    units = memories / np.linalg.norm(memories, axis=1, keepdims=True)
    assert (units @ found >= -1e-6).all()
    np.testing.assert_allclose(found, by_active_sets(g, units), atol=1e-6)


@given(gradients, st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_it_solves_the_dual_of_the_paper(drawn: tuple[int, int, int], margin: float) -> None:
    seed, count, width = drawn
    dice = np.random.default_rng(seed)
    g, memories = dice.normal(size=width), dice.normal(size=(count, width))
    if (memories @ g >= 0).all():
        g = -g
    assert (memories @ g < 0).any()
    dual = minimize(
        lambda v: 0.5 * v @ memories @ memories.T @ v + g @ memories.T @ v,
        np.full(count, margin + 1.0),
        jac=lambda v: memories @ (memories.T @ v + g),
        bounds=[(margin, None)] * count,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    found = project(torch.tensor(g), torch.tensor(memories), margin).numpy()
    np.testing.assert_allclose(found, g + memories.T @ dual.x, atol=1e-4)


@pytest.mark.parametrize(
    "memories",
    [
        [[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]],  # the same twice
        [[1.0, 2.0, 0.0], [-1.0, -2.0, 0.0]],  # one against the other
        [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]],  # a loss that cannot fall
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]],
        [[1e-6, 2e-6, 0.0], [1e6, 2e6, 1.0]],  # nearly the same, of very different lengths
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_gradients_that_depend_on_each_other(memories: Any, kind: torch.dtype) -> None:
    G = torch.tensor(memories, dtype=kind)
    g = torch.tensor([-1.0, -0.5, -0.3], dtype=kind)
    found = project(g, G).double().numpy()
    lengths = np.linalg.norm(G.numpy(), axis=1, keepdims=True)
    units = G.double().numpy() / np.where(lengths, lengths, 1)
    assert (units @ found >= -1e-6).all()
    np.testing.assert_allclose(found, by_active_sets(g.double().numpy(), units), atol=1e-5)


# Over a stream.


class Watch(SupervisedPlugin):
    """Works out anew, with every step, how the gradient stands to those of the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.cosines: list[float] = []
        self.alone: list[float] = []  # of the gradient as the batch alone would have it
        self.touched: set[str] = set()  # heads that a gradient reached

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        g = self._gradient(strategy.model)
        heads = strategy.model.heads
        reached = (n for n, h in heads.items() if any(p.grad is not None for p in h.parameters()))
        self.touched.update(reached)
        own = self._of(strategy, strategy.mb_x, strategy.mb_y, strategy.experience)
        for experience, x, y in strategy.memory.values():
            memory = self._of(strategy, x, y, experience)
            self.cosines.append(float(torch.cosine_similarity(g, memory, dim=0)))
            self.alone.append(float(torch.cosine_similarity(own, memory, dim=0)))

    def _of(self, strategy: Any, x: Any, y: Any, experience: Any) -> Tensor:
        twin = copy.deepcopy(strategy.model)
        twin.zero_grad()
        experience.task.loss(twin(x, experience.task.name, teacher=y), y).backward()
        return self._gradient(twin)

    @staticmethod
    def _gradient(model: Any) -> Tensor:
        parts = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in model.parameters()]
        return torch.cat([part.flatten() for part in parts]).double()


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_no_step_goes_against_the_memory(experiences: Experiences, strength: float) -> None:
    watch = Watch()
    strategy = gem(plugins=(watch,), memory_strength=strength)
    learn(strategy, experiences, ["obj"])
    assert (strategy.checks, strategy.projections) == (0, 0)
    assert watch.touched == {"obj"}
    watch.touched.clear()
    learn(strategy, experiences, ["att", "rel"])
    assert min(watch.alone) < -0.01  # as there was something to mend
    assert min(watch.cosines) > -1e-5
    steps = len(watch.alone)  # one old task, then two
    assert 0 < strategy.projections <= strategy.checks < steps
    assert watch.touched == {"obj", "att", "rel"}  # old heads take part


def test_how_often_it_projects_is_counted(experiences: Experiences) -> None:
    watch = Watch()
    strategy = gem(plugins=(watch,))
    learn(strategy, experiences, ["obj", "att"])
    assert strategy.checks == len(watch.alone)
    assert strategy.projections == sum(cosine < 0 for cosine in watch.alone) > 0


def test_the_first_task_is_learned_as_by_hard_sharing_and_the_second_is_not(
    experiences: Experiences,
) -> None:
    ours = gem()
    theirs = HardSharing(options=HardSharing.Options.model_validate(SMALL))
    for strategy in (ours, theirs):
        learn(strategy, experiences, ["obj"])
    assert digest_of(ours.network) == digest_of(theirs.network)
    for strategy in (ours, theirs):
        learn(strategy, experiences, ["att"])
    assert digest_of(ours.network) != digest_of(theirs.network)


def test_a_task_that_comes_again_does_not_constrain_itself(experiences: Experiences) -> None:
    strategy = gem()
    learn(strategy, experiences, ["obj", "obj"])
    assert strategy.checks == 0
    assert strategy.memory_samples() == 10


def test_the_memory_holds_samples_of_the_task_and_says_its_size(experiences: Experiences) -> None:
    strategy = gem(patterns_per_experience=7)
    strategy.build(experiences["train"][task] for task in ("obj", "cnt"))
    assert strategy.memory_samples() == 14
    expected = 0
    for experience, x, y in strategy.memory.values():
        rows = x["sample"]
        assert len(set(rows.tolist())) == 7
        again, targets = experience.batches[rows]
        assert all(torch.equal(again[name], x[name]) for name in x.keys())  # noqa: SIM118
        assert all(torch.equal(targets[name], y[name]) for name in y.keys())  # noqa: SIM118
        boxes, features = x["regions"].shape[1:]
        expected += 7 * boxes * (4 * features + 4 * 4 + 1)  # regions, boxes, mask
        expected += 7 * 8 * 3  # scene, sample, task
    obj, cnt = (experiences["train"][task].samples.columns for task in ("obj", "cnt"))
    expected += 7 * obj["label"].shape[1] * (8 + 1)  # which object, and whether it is asked about
    expected += 7 * 8 * (cnt["question"].shape[1] + 1)  # words and the count
    asked = [cnt[name] for name in ("ask_boxes", "ask_relation", "ask_direction")]
    for column in asked:
        size = column.dtype.itemsize if column.dtype == bool else 8
        expected += 7 * size * int(np.prod(column.shape[1:]))
    assert strategy.memory_bytes() == strategy.details()["memory_bytes"] == expected


def test_a_memory_larger_than_the_task_holds_all_of_it(experiences: Experiences) -> None:
    strategy = gem(patterns_per_experience=1000)
    strategy.build([experiences["train"]["obj"]])
    (kept,) = strategy.memory.values()
    assert kept.x["sample"].tolist() == list(range(300))


def test_looking_at_the_memory_counts_as_seen(experiences: Experiences) -> None:
    strategy = gem()
    learn(strategy, experiences, ["obj"])
    first = strategy.samples_seen
    learn(strategy, experiences, ["att"])
    assert strategy.samples_replayed == 10 * strategy.checks
    new = strategy.samples_seen - first - strategy.samples_replayed
    assert new == first  # as many steps of as many samples as obj had


def test_it_forgets_less_than_hard_sharing(experiences: Experiences) -> None:
    training = {"obj": {**FAST, "epochs": 8}, "att": {**FAST, "epochs": 3}}
    lost = []
    for kind in (GradientEpisodicMemory, HardSharing):
        chosen = kind.Options.model_validate({**SMALL, "training": training})
        strategy = kind(options=chosen)
        learn(strategy, experiences, ["obj"])
        first = strategy.score(experiences["test"]["obj"])["top1"]
        learn(strategy, experiences, ["att"])
        lost.append(first - strategy.score(experiences["test"]["obj"])["top1"])
    assert lost[0] < lost[1] - 0.1


def test_cut_off_in_the_middle_of_a_task_it_goes_on_as_if_nothing_was(
    experiences: Experiences,
) -> None:
    whole, states = gem(), []
    whole.on_step = lambda: states.append(whole.state())
    train, val = (
        [experiences[split][task] for task in ("obj", "att")] for split in ("train", "val")
    )
    for experience, validation in zip(train, val, strict=True):
        whole.learn(experience, validation)
    cut = gem()
    cut.restore(states[-4], train[:1])
    cut.learn(train[1], val[1])
    assert whole.projections > 0
    assert digest_of(cut.network) == digest_of(whole.network)
    assert cut.details() == whole.details()
    assert cut.samples_seen == whole.samples_seen


def test_all_six_tasks_the_same_seed_and_what_was_kept(
    experiences: Experiences, tmp_path: Path
) -> None:
    digests = []
    for seed in (0, 0, 1):
        strategy = gem(seed)
        strategy.budget = 4.0
        learn(strategy, experiences, TASKS)
        digests.append(digest_of(strategy.network))
    assert digests[0] == digests[1] != digests[2]
    strategy.save(tmp_path)
    loaded = gem(1)
    loaded.load(tmp_path, [experiences["train"][task] for task in TASKS])
    for task in TASKS:
        experience = experiences["test"][task]
        assert np.array_equal(loaded.predict(experience), strategy.predict(experience))
    for label, kept in strategy.memory.items():
        assert torch.equal(loaded.memory[label].x["sample"], kept.x["sample"])
        other = gem(0)
        other.build([kept.experience])
        assert not torch.equal(other.memory[label].x["sample"], kept.x["sample"])


@pytest.mark.parametrize(
    "wrong", [{"patterns_per_experience": 0}, {"memory_strength": -0.1}, {"memory": 5}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        GemOptions.model_validate(wrong)
