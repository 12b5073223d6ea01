"""The search: as many trials for all, by its protocol, on validation alone, kept in a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from tiny_streams import tiny_stream

from pmn_cl.config.names import strategy_options
from pmn_cl.config.searches import RATE, Searches, read_searches
from pmn_cl.config.spec import BenchmarkSpec, Protocol
from pmn_cl.config.stream import load_spec, shipped_streams
from pmn_cl.errors import UserError
from pmn_cl.results.result import read_results
from pmn_cl.studies import tuning
from pmn_cl.studies.request import TuningRequest
from pmn_cl.studies.tuning import (
    DEVELOPMENT_WORLD,
    PARAMETERS,
    TRIALS,
    WIDER,
    grid_of,
    trial_stream,
    tune_command,
)

FIELD = load_spec(shipped_streams()["field.yaml"])


@pytest.mark.parametrize("method", PARAMETERS)
def test_every_method_has_as_many_trials_over_rates_and_at_most_one_parameter(method: str) -> None:
    grid = grid_of(method)
    assert len(grid) == len({str(trial) for trial in grid}) == TRIALS
    assert all(trial.keys() == grid[0].keys() and len(trial) <= 2 for trial in grid)
    for trial in grid:
        strategy_options(method).model_validate(trial)
        assert min(WIDER) < trial[RATE] < max(WIDER)


def test_another_world_is_one_that_nothing_is_judged_on() -> None:
    stream = trial_stream(FIELD, "another-world")
    assert stream.world.options["seed"] == DEVELOPMENT_WORLD
    assert stream.tasks == FIELD.tasks
    for path in shipped_streams().values():
        assert load_spec(path).world.options.get("seed", 0) < DEVELOPMENT_WORLD


def test_the_other_protocols_stay_on_the_world() -> None:
    assert trial_stream(FIELD, "end-of-stream") == FIELD.stream
    first = trial_stream(FIELD, "first-task")
    assert first.world == FIELD.world
    assert [item.task for item in first.tasks] == ["obj"]


def on_world(**world: object) -> BenchmarkSpec:
    changed = FIELD.world.model_copy(update=world)
    return FIELD.model_copy(update={"world": changed})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (on_world(options={"seed": DEVELOPMENT_WORLD}), "worlds from 1000 on are for trials"),
        (on_world(name="visual_genome", options={"path": "p"}), "cannot be made anew"),
    ],
)
def test_a_world_that_has_no_other_is_refused(spec: BenchmarkSpec, said: str) -> None:
    with pytest.raises(UserError, match=said):
        trial_stream(spec, "another-world")


def searched(
    stream: Path,
    folder: Path,
    *strategies: str,
    protocol: Protocol = "another-world",
    exits: int = 0,
) -> tuple[Searches, str]:
    """Search; return what is kept, and what was printed."""
    said = Console(file=io.StringIO(), width=200)
    request = TuningRequest(
        stream=str(stream),
        strategies=strategies,
        out=folder / "trials",
        save=folder / "tuned.json",
        protocol=protocol,
    )
    assert tune_command(request, said) == exits
    assert isinstance(said.file, io.StringIO)
    return read_searches(folder / "tuned.json"), said.file.getvalue()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let methods without a parameter try two rates, and ewc one strength at one."""
    monkeypatch.setattr(tuning, "_MANY", (0.5, 1.0))
    monkeypatch.setattr(tuning, "_FEW", (1.0,))
    monkeypatch.setitem(PARAMETERS, "ewc", {"strength": (10.0,)})


def rates(searches: Searches, method: str) -> list[float]:
    return [trial.options[RATE] for trial in searches.methods[method].trials]


@pytest.mark.usefixtures("few")
def test_a_search_is_widened_for_all_kept_and_gone_on_with(tmp_path: Path) -> None:
    supervised = '{name: hard_sharing, variant: "[b, r]", supervise: [cnt], lr_scale: 9}'
    stream = tiny_stream(tmp_path, supervised, "hard_sharing", "ewc")
    # Of two rates one is the lowest and the other the highest: an edge, whichever is chosen.
    first, said = searched(stream, tmp_path, "hard_sharing")
    assert rates(first, "hard_sharing") == sorted([0.5, 1.0, *WIDER])
    assert "an edge was chosen" in said
    results = read_results(tmp_path / "trials")
    assert {(r.seed, *r.scores) for r in results} == {(tuning.DEVELOPMENT_SEED, "val")}
    assert {r.run.stream.world.options["seed"] for r in results} == {DEVELOPMENT_WORLD}
    # What the stream says first of a method is searched, but for what is tried.
    assert first.methods["hard_sharing"].given == {"supervise": ["cnt"]}
    assert {str(r.options["supervise"]) for r in results} == {"['cnt']"}
    # Another method joins, and is widened as well; what was tried is not tried again.
    both, _ = searched(stream, tmp_path)
    assert both.methods["hard_sharing"] == first.methods["hard_sharing"]
    assert rates(both, "ewc") == sorted([1.0, *WIDER])
    assert searched(stream, tmp_path)[0] == both
    assert len(read_results(tmp_path / "trials")) == 4 + 3
    with pytest.raises(UserError, match=r"trials on other terms \(world, tasks, protocol\)"):
        searched(stream, tmp_path, protocol="first-task")
    other = tiny_stream(tmp_path, "hard_sharing", "{name: ewc, width: 32}")
    with pytest.raises(UserError, match=r"other terms \(options of hard_sharing, options of ewc\)"):
        searched(other, tmp_path)


@pytest.mark.usefixtures("few")
def test_a_trial_that_fails_is_kept_at_the_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_MANY", (1.0, 1e30))
    stream = tiny_stream(tmp_path, "hard_sharing")
    found, said = searched(stream, tmp_path, exits=1)
    failed = {t.options[RATE]: t.scores for t in found.methods["hard_sharing"].trials if t.failed}
    assert failed[1e30] == found.terms.floor and 1.0 not in failed
    assert "hard_sharing-trial" in said and "failed: " in said
    again, _ = searched(stream, tmp_path)  # nothing is tried again
    assert again == found


def test_what_cannot_be_searched_or_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names no strategy that is searched"):
        searched(tiny_stream(tmp_path, "constant"), tmp_path)
    request = TuningRequest(
        stream=str(tiny_stream(tmp_path, "hard_sharing")), save=tmp_path / "none" / "t.json"
    )
    with pytest.raises(UserError, match="no folder"):
        tune_command(request, Console(file=io.StringIO()))
