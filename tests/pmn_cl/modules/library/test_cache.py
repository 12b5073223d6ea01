"""Modules shared by runs: the same bits as if each had learned its own, learned once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pmn_cl import provenance
from pmn_cl.modules.library.cache import ModuleCache
from strategies.options import PmnOptions
from strategies.pmn import Progressive

TASKS = ["obj", "att", {"task": "rel", "calls": ["obj", "att"]}]


def learned(stream: Any, folder: Path | None, tasks: int = 3, **options: Any) -> Progressive:
    given = PmnOptions.model_validate(options)
    strategy = Progressive(options=given, seed=0, budget=2.0)
    if folder is not None:
        strategy.reuse(folder)
    for name in list(stream["train"])[:tasks]:
        strategy.learn(stream["train"][name], stream["val"][name])
    return strategy


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
    assert (first.details(), second.details()) == ({"modules_reused": 0}, {"modules_reused": 3})
    assert second.samples_seen == 0 < first.samples_seen == alone.samples_seen
    assert second.validation_scores == first.validation_scores == alone.validation_scores
    assert second.parameter_count().trainable == 0


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
    ],
)
def test_only_what_would_be_the_same_is_shared(
    changed: dict[str, Any], shared: int, stream: Any, tmp_path: Path
) -> None:
    learned(stream, tmp_path)
    other = learned(stream, tmp_path, **changed)
    assert other.details() == {"modules_reused": shared}
    assert other.digest() == learned(stream, None, **changed).digest()


def test_other_samples_are_another_module(open_stream: Any, stream: Any, tmp_path: Path) -> None:
    learned(stream, tmp_path, tasks=1)
    half = learned(open_stream(TASKS, 50.0), tmp_path, tasks=1)
    assert half.details() == {"modules_reused": 0}


def test_another_order_of_calls_is_another_module(
    open_stream: Any, stream: Any, tmp_path: Path
) -> None:
    learned(stream, tmp_path)
    turned = open_stream([*TASKS[:2], {"task": "rel", "calls": ["att", "obj"]}])
    other = learned(turned, tmp_path)
    assert other.network["rel"].call_list == ("att", "obj", "Δ")
    assert other.details() == {"modules_reused": 2}


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
    reused = []
    for digest in ("one change", "another change", "one change"):
        monkeypatch.setattr(provenance, "own_code_digest", lambda root, digest=digest: digest)
        reused.append(learned(stream, tmp_path, tasks=1).details()["modules_reused"])
    assert reused == [0, 0, 1]
