"""Searches on one scale by hand; what streams take from them; files on other terms or broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pmn_cl.config.searches import (
    BUILDS_ON,
    Search,
    Searches,
    Terms,
    Trial,
    read_searches,
    write_searches,
)
from pmn_cl.config.spec import RunSpec, StreamSpec, TaskSpec, TunedSpec, WorldSpec
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError
from pmn_cl.registry import STRATEGIES

WORLD = WorldSpec(name="digits", options={"seed": 1000})
STREAM = StreamSpec(name="s", world=WORLD, tasks=[TaskSpec(task="obj"), TaskSpec(task="att")])
TERMS = Terms(
    protocol="another-world", stream=STREAM, seed=100, floor={"obj": 0.2, "att": 0.5, "cap": 1.0}
)


def trial(obj: float, att: float, **options: Any) -> Trial:
    return Trial(options=options, scores={"obj": obj, "att": att, "cap": 1.0})


SEARCHES = Searches(
    terms=TERMS,
    methods={
        "pnn": Search(
            given={},
            trials=[
                trial(0.6, 1.0, lr_scale=1.0, alpha=0.1),  # 0.5 of obj's span, 0.5 of att's
                trial(0.8, 1.25, lr_scale=2.0, alpha=0.1),  # 0.75, 0.75
                trial(1.0, 0.5, lr_scale=4.0, alpha=0.1),  # 1, 0
            ],
        ),
        # The best of all: 1 on att. Nobody learns cap, which says nothing then.
        "hard_sharing": Search(
            given={"supervise": ["cnt"]},
            trials=[
                trial(0.1, 1.5, lr_scale=1.0),
                trial(0.1, 1.5, lr_scale=2.0),
                trial(0.1, 1.4, lr_scale=4.0),
            ],
        ),
    },
)


def test_trials_are_put_on_one_scale_by_hand() -> None:
    assert [r.value for r in SEARCHES.ranked("pnn")] == pytest.approx([0.75, 0.5, 0.5])
    assert SEARCHES.chosen("pnn") == {"lr_scale": 2.0, "alpha": 0.1}
    # Below the floor is as much as nothing: 0 and 1.
    assert SEARCHES.ranked("hard_sharing")[0].value == pytest.approx((0 + 1) / 2)


def test_a_task_that_nobody_learns_decides_nothing() -> None:
    some = [trial(0.209, 0.6, lr_scale=1.0), trial(0.1, 1.5, lr_scale=2.0)]
    searches = Searches(terms=TERMS, methods={"pnn": Search(given={}, trials=some)})
    assert searches.chosen("pnn") == {"lr_scale": 2.0}


def test_of_equal_trials_the_first_is_chosen_and_an_edge_is_said() -> None:
    assert SEARCHES.chosen("hard_sharing") == {"lr_scale": 1.0}
    assert SEARCHES.at_edge("hard_sharing")
    assert not SEARCHES.at_edge("pnn")


def test_what_has_no_search_learns_as_what_it_builds_on() -> None:
    expected = TunedSpec(
        protocol="another-world",
        method="hard_sharing",
        trials=3,
        chosen={"lr_scale": 1.0},
        at_edge=True,
    )
    assert SEARCHES.tuned("hard_sharing") == SEARCHES.tuned("ewc") == expected
    assert SEARCHES.tuned("pmn") is None
    assert {*BUILDS_ON, *BUILDS_ON.values()} <= STRATEGIES.keys()


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    write_searches(SEARCHES, tmp_path / "tuned.json")
    assert read_searches(tmp_path / "tuned.json") == SEARCHES


@pytest.mark.parametrize("text", ["", "{}", '{"pnn": {"trials": []}}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuned.json").write_text(text)
    with pytest.raises(UserError, match="cannot be read as what `pmn-bench tune --save` writes"):
        read_searches(tmp_path / "tuned.json")


def test_a_stream_takes_what_was_chosen_and_says_so(tmp_path: Path) -> None:
    write_searches(SEARCHES, tmp_path / "found.json")
    written = {
        "name": "s",
        "world": "digits",
        "tasks": ["obj", "att"],
        "seeds": [0],
        "tuned": "found.json",
        "strategies": [
            "pnn",
            {"name": "pnn", "variant": "without adapters", "adapters": False, "alpha": 0.2},
            "pmn",
        ],
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(written))
    plain, variant, other = load_spec(tmp_path / "s.yaml").strategies
    assert plain.options == {"lr_scale": 2.0, "alpha": 0.1}
    assert plain.tuned == SEARCHES.tuned("pnn")
    # What the stream says itself stays, and is not said to be chosen.
    assert variant.options == {"lr_scale": 2.0, "alpha": 0.2, "adapters": False}
    assert variant.tuned is not None and variant.tuned.chosen == {"lr_scale": 2.0}
    assert (other.options, other.tuned) == ({}, None)
    # How options were found does not make another run.
    run = RunSpec(stream=STREAM, strategy=plain, seed=0)
    found_otherwise = plain.model_copy(update={"tuned": None})
    assert run.key == run.model_copy(update={"strategy": found_otherwise}).key


def test_of_another_methods_search_only_the_rate_is_taken() -> None:
    searches = SEARCHES.with_trials("multinet", {}, [trial(1.0, 1.0, lr_scale=2.0, passes=3)])
    tuned = searches.tuned("multinet_frozen")
    assert tuned is not None and (tuned.method, tuned.chosen) == ("multinet", {"lr_scale": 2.0})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"budget": 30}, "searched with a budget of 100%, and the stream 's' has 30%"),
        ({"tasks": ["obj", "rel"]}, "searched on obj, att of the world 'digits', and the stream"),
        (
            {"world": {"name": "digits", "seed": 1000, "noise": 0.2}},
            "worlds from 1000 on are for trials alone",
        ),
        ({"seeds": [0, 100]}, "searched with seed 100, which is for trials alone"),
        (
            {"strategies": ["hard_sharing_modules"]},
            "what was chosen for 'hard_sharing_modules' does not fit",
        ),
    ],
)
def test_a_choice_is_for_streams_that_the_search_says_something_about(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    wrong = [trial(1.0, 1.0, lr_scale=rate, supervise=["cnt"]) for rate in (1.0, 2.0, 4.0)]
    searches = SEARCHES.with_trials("hard_sharing_modules", {}, wrong)
    write_searches(searches, tmp_path / "found.json")
    usual = {"name": "s", "world": "digits", "tasks": ["obj", "att"], "strategies": ["pmn"]}
    written = {**usual, "seeds": [0], "tuned": "found.json", **changed}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(written))
    with pytest.raises(UserError, match=said):
        load_spec(tmp_path / "s.yaml")
    assert load_spec(tmp_path / "s.yaml", tuned=False).strategies[0].tuned is None  # a search may


def test_unequal_searches_choose_nothing(tmp_path: Path) -> None:
    searches = SEARCHES.with_trials("lwf", {}, [trial(1.0, 1.0, lr_scale=1.0)])
    write_searches(searches, tmp_path / "found.json")
    (tmp_path / "s.yaml").write_text(
        "{name: s, world: digits, tasks: [obj, att], strategies: [pmn], seeds: [0], "
        "tuned: found.json}"
    )
    with pytest.raises(
        UserError, match=r"unequal numbers of trials \(hard_sharing 3, lwf 1, pnn 3"
    ):
        load_spec(tmp_path / "s.yaml")


def test_a_stream_without_its_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "{name: s, world: digits, tasks: [obj], strategies: [pmn], seeds: [0], tuned: none.json}"
    )
    with pytest.raises(UserError, match=r"none\.json: cannot be read"):
        load_spec(tmp_path / "s.yaml")
