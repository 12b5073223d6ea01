"""The small search: validation alone, few trials, and defaults that are what was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_results import result

from pmn_cl.config.names import options_of, strategy_options
from pmn_cl.config.stream import load_spec, shipped_streams
from pmn_cl.results.result import Result
from pmn_cl.results.searches import TUNED, read_tuned, write_tuned
from pmn_cl.studies.tuning import DEVELOPMENT_SEED, MOST_TRIALS, TRIALS, choose, trial_runs


def test_no_method_gets_more_trials_than_another_may() -> None:
    for name, trials in TRIALS.items():
        assert 1 <= len(trials) <= MOST_TRIALS
        for trial in trials:
            strategy_options(name).model_validate(trial)


def test_trials_never_look_at_test_samples() -> None:
    runs = trial_runs(load_spec(shipped_streams()["field.yaml"]))
    assert set(runs) == set(TRIALS)
    for some in runs.values():
        assert {(run.seed, *run.splits) for run in some} == {(DEVELOPMENT_SEED, "val")}
        assert len({run.key for run in some}) == len(some)
    assert all("untrained" not in run.strategy.options for run in runs["pmn"])  # no variant of it


def trial(options: dict[str, Any], last: list[float]) -> Result:
    """A finished trial; only what is read of it says something."""
    given = {"options": options, "budget": 10, "constant": {"val": [0.2, 0.5]}, "study": "tune"}
    return result("ewc", 100, [], scores={"val": [[None, None], last]}, **given)


def test_the_best_mean_share_wins_by_hand(tmp_path: Path) -> None:
    found = choose(
        [
            trial({"strength": 1.0}, [0.4, 1.5]),  # 1, 0.6
            trial({"strength": 2.0}, [0.2, 2.5]),  # 0.5, 1
            trial({"strength": 3.0}, [0.36, 2.25]),  # 0.9, 0.9
        ]
    )
    assert [t.value for t in found.trials] == pytest.approx([0.9, 0.8, 0.75])
    assert found.chosen == {"strength": 3.0}
    write_tuned([found], tmp_path / "tuned.json")
    assert read_tuned(tmp_path / "tuned.json") == {"ewc": found}


@pytest.mark.parametrize("name", sorted(TRIALS))
def test_the_field_runs_with_what_was_chosen_for_its_budget(name: str) -> None:
    field, search = load_spec(shipped_streams()["field.yaml"]), read_tuned(TUNED)[name]
    assert search.budget == field.budget
    assert search.seed not in field.seeds
    for given in field.strategies:
        if given.label == name:
            used = options_of(given).model_dump()
            assert {option: used[option] for option in search.chosen} == search.chosen
