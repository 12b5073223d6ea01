"""Modules shared by runs: the same bits as if each had learned its own, learned once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pmn_cl import provenance
from pmn_cl.modules.library.cache import ModuleCache
from pmn_cl.strategy.base import LearningCost, State
from strategies.options import PmnOptions
from strategies.pmn import Progressive

TASKS = ["obj", "att", {"task": "rel", "calls": ["obj", "att"]}]


def learned(
    stream: Any,
    folder: Path | None,
    tasks: int = 3,
    kind: type[Progressive] = Progressive,
    **options: Any,
) -> Progressive:
    strategy = kind(options=kind.Options.model_validate(options), seed=0, budget=2.0)
    if folder is not None:
        strategy.reuse(folder)
    for name in list(stream["train"])[:tasks]:
        learn(strategy, stream, name)
    return strategy


def learn(strategy: Progressive, stream: Any, name: str) -> None:
    """Learn a task and leave its module, as a run does; each takes 1.5 seconds of a CPU."""
    before = strategy.samples_seen
    strategy.learn(stream["train"][name], stream["val"][name])
    if strategy.taken() is None:
        samples, size = strategy.samples_seen - before, strategy.parameter_count().trainable
        strategy.leave(LearningCost(2.0, 1.5, 10**6, samples, size, [{"step": 1, "score": 0.5}]))


def reused(strategy: Progressive) -> float:
    return strategy.details()["modules_reused"]


@pytest.fixture(scope="module")
def stream(open_stream: Any) -> Any:
    return open_stream(TASKS)


@pytest.fixture(scope="module")
def alone(stream: Any) -> Progressive:
    return learned(stream, None)


def test_what_is_taken_is_what_would_have_been_learned(
    stream: Any, alone: Progressive, tmp_path: Path
) -> None:
    first, second = learned(stream, tmp_path), learned(stream, tmp_path)
    assert first.digest() == second.digest() == alone.digest()
    assert first.details() == {"modules_reused": 0, "cpu_seconds_reused": 0}
    assert second.details() == {"modules_reused": 3, "cpu_seconds_reused": 3 * 1.5}
    assert second.validation_scores == first.validation_scores == alone.validation_scores


def test_what_is_taken_counts_as_if_it_had_been_learned(
    stream: Any, alone: Progressive, tmp_path: Path
) -> None:
    first, second = learned(stream, tmp_path), learned(stream, tmp_path)
    assert second.samples_seen == first.samples_seen == alone.samples_seen > 0
    assert second.parameter_count() == first.parameter_count() == alone.parameter_count()
    assert first.taken() is None
    cost = second.taken()
    assert cost is not None and (cost.learn_seconds, cost.cpu_seconds) == (2.0, 1.5)
    assert cost.curve == [{"step": 1, "score": 0.5}]
    assert cost.trainable == alone.parameter_count().trainable > 0


def test_a_module_of_which_nobody_knows_what_it_took_is_learned_again(
    stream: Any, tmp_path: Path
) -> None:
    """As earlier versions have left them, had they had the same code."""
    first = learned(stream, tmp_path, tasks=1)
    [cost] = tmp_path.glob("obj-*/cost.json")
    cost.unlink()
    second = learned(stream, tmp_path, tasks=1)
    assert reused(second) == 0 and second.samples_seen == first.samples_seen > 0
    assert reused(learned(stream, tmp_path, tasks=1)) == 1


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        ({"supervise": []}, 3),  # of no concern to any of these
        ({"gates": {"kind": "equal"}}, 2),  # M_rel calls others: it might have gates
        ({"gates": {"kind": "equal"}, "gates_of": ["vqa"]}, 3),
        ({"lr_scale": 2.0}, 0),
        ({"training": {"att": {"epochs": 3}}}, 1),  # and M_rel calls M_att
        ({"untrained": ["att"]}, 1),
        ({"shuffled": ["obj"]}, 1),  # M_att
        ({"widths": {"rel": {"attention": 8}}}, 2),
        ({"memory": False}, 2),  # which rounds otherwise what M_rel is told
    ],
)
def test_only_what_would_be_the_same_is_shared(
    changed: dict[str, Any], shared: int, stream: Any, tmp_path: Path
) -> None:
    learned(stream, tmp_path)
    other = learned(stream, tmp_path, **changed)
    assert reused(other) == shared
    assert other.digest() == learned(stream, None, **changed).digest()


@pytest.mark.parametrize("control", ["untrained", "shuffled"])
def test_what_is_not_validated_has_no_score_when_it_is_taken(
    control: str, stream: Any, tmp_path: Path
) -> None:
    first, second = (learned(stream, tmp_path, tasks=2, **{control: ["att"]}) for _ in range(2))
    assert reused(second) == 2
    assert second.validation_scores == first.validation_scores
    assert second.validation_scores.keys() == {"obj"}


class MyOptions(PmnOptions):
    strength: float = 1.0


class Mine(Progressive):
    """A user's own, which learns by an option of its own."""

    Options = MyOptions

    def batch_loss(self, x: Any, y: Any, experience: Any) -> Any:
        outputs, loss = super().batch_loss(x, y, experience)
        return outputs, self.options.strength * loss  # type: ignore[attr-defined]


class MineToo(Mine):
    """Another in the same file."""


def test_a_strategy_of_a_users_own_shares_with_its_like_alone(stream: Any, tmp_path: Path) -> None:
    learned(stream, tmp_path, tasks=1)
    assert reused(learned(stream, tmp_path, 1, Mine)) == 0
    assert reused(learned(stream, tmp_path, 1, Mine, strength=2.0)) == 0
    assert reused(learned(stream, tmp_path, 1, MineToo)) == 0
    assert reused(learned(stream, tmp_path, 1, Mine)) == 1


def test_other_samples_are_another_module(open_stream: Any, stream: Any, tmp_path: Path) -> None:
    learned(stream, tmp_path, tasks=1)
    half = learned(open_stream(TASKS, 50.0), tmp_path, tasks=1)
    assert reused(half) == 0


def test_another_order_of_calls_is_another_module(
    open_stream: Any, stream: Any, tmp_path: Path
) -> None:
    learned(stream, tmp_path)
    turned = open_stream([*TASKS[:2], {"task": "rel", "calls": ["att", "obj"]}])
    other = learned(turned, tmp_path)
    assert other.network["rel"].call_list == ("att", "obj", "Δ")
    assert reused(other) == 2


def test_one_learns_and_the_others_wait(tmp_path: Path) -> None:
    recipe = {"task": "obj", "seed": 0}
    first = ModuleCache(tmp_path)
    assert first.find(recipe) is None
    waited, found = threading.Event(), []
    second = ModuleCache(tmp_path, waited.set)
    thread = threading.Thread(target=lambda: found.append(second.find(recipe)))
    thread.start()
    assert waited.wait(10) and not found
    first.give_up()  # or its process ended
    thread.join()
    assert found == [None]  # the turn of the second


def test_waiting_can_be_called_off(tmp_path: Path) -> None:
    recipe = {"task": "obj", "seed": 0}
    first = ModuleCache(tmp_path)
    assert first.find(recipe) is None

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ModuleCache(tmp_path, stop).find(recipe)


def test_two_uncommitted_changes_of_the_code_share_no_module(
    stream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for digest in ("one change", "another change", "one change"):
        monkeypatch.setattr(provenance, "own_code_digest", lambda root, digest=digest: digest)
        found.append(reused(learned(stream, tmp_path, tasks=1)))
    assert found == [0, 0, 1]


# Runs that are cut off.


class CutOffError(Exception):
    """The power fails."""


def cut_in_second_task(stream: Any, folder: Path) -> State:
    """Learn obj and a step of att."""
    strategy = Progressive(seed=0, budget=2.0)
    strategy.reuse(folder)
    learn(strategy, stream, "obj")
    obj = strategy.samples_seen

    def cut() -> None:
        assert strategy.clock.train_exp_iterations < strategy.steps
        raise CutOffError

    strategy.on_step = cut
    with pytest.raises(CutOffError):
        learn(strategy, stream, "att")
    assert strategy.samples_seen > obj
    assert strategy.shared is not None
    strategy.shared._cache.give_up()  # as the end of a process does
    return strategy.state()


def go_on(stream: Any, folder: Path, state: State) -> Progressive:
    strategy = Progressive(seed=0, budget=2.0)
    strategy.reuse(folder)
    strategy.restore(state, [stream["train"]["obj"]])
    for name in ("att", "rel"):
        learn(strategy, stream, name)
    return strategy


@pytest.mark.parametrize("meanwhile", [True, False])
def test_what_was_begun_and_what_others_have_learned_meanwhile_come_to_the_same(
    meanwhile: bool, stream: Any, alone: Progressive, tmp_path: Path
) -> None:
    state = cut_in_second_task(stream, tmp_path)
    if meanwhile:
        learned(stream, tmp_path, tasks=2)
    resumed = go_on(stream, tmp_path, state)
    assert reused(resumed) == int(meanwhile)
    assert resumed.digest() == alone.digest()
    assert resumed.samples_seen == alone.samples_seen
    assert resumed.parameter_count() == alone.parameter_count()
    assert resumed.validation_scores == alone.validation_scores


def test_what_a_state_holds_is_neither_looked_for_nor_left(
    stream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state may be of other code than that which goes on from it."""
    state = cut_in_second_task(stream, tmp_path)
    monkeypatch.setattr(provenance, "own_code_digest", lambda root: "changed meanwhile")
    go_on(stream, tmp_path, state)
    assert len(list(tmp_path.glob("obj-*"))) == 1
    assert len(list(tmp_path.glob("rel-*/*.safetensors"))) == 1
