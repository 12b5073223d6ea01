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
    GRIDS,
    TRIALS,
    WIDER,
    trial_stream,
    tune_command,
)

FIELD = load_spec(shipped_streams()["field.yaml"])


@pytest.mark.parametrize("method", GRIDS)
def test_every_method_has_as_many_trials_over_rates_and_at_most_one_parameter(method: str) -> None:
    grid = GRIDS[method]
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
    stream: Path, folder: Path, protocol: Protocol = "another-world", *strategies: str
) -> tuple[Searches, str]:
    """Search with two trials for each method; return what is kept, and what was printed."""
    said = Console(file=io.StringIO(), width=200)
    request = TuningRequest(
        stream=str(stream),
        strategies=strategies,
        out=folder / "trials",
        save=folder / "tuned.json",
        protocol=protocol,
    )
    assert tune_command(request, said) == 0
    assert isinstance(said.file, io.StringIO)
    return read_searches(folder / "tuned.json"), said.file.getvalue()


def test_a_search_is_widened_for_all_kept_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"hard_sharing": [{RATE: 0.5}, {RATE: 1.0}], "ewc": [{RATE: 1.0, "strength": 10.0}]}
    monkeypatch.setattr(tuning, "GRIDS", few)
    stream = tiny_stream(tmp_path, "hard_sharing", "ewc")
    # Of two rates one is the lowest and the other the highest: an edge, whichever is chosen.
    first, said = searched(stream, tmp_path, "another-world", "hard_sharing")
    assert [trial.options[RATE] for trial in first.trials["hard_sharing"]] == [0.5, 1.0, *WIDER]
    assert "an edge was chosen" in said
    results = read_results(tmp_path / "trials")
    assert {(r.seed, *r.scores) for r in results} == {(tuning.DEVELOPMENT_SEED, "val")}
    assert {r.run.stream.world.options["seed"] for r in results} == {DEVELOPMENT_WORLD}
    # Another method joins, and is widened as well; what was tried is not tried again.
    both, _ = searched(stream, tmp_path)
    assert both.trials["hard_sharing"] == first.trials["hard_sharing"]
    assert [trial.options[RATE] for trial in both.trials["ewc"]] == [1.0, *WIDER]
    assert len(read_results(tmp_path / "trials")) == 4 + 3
    with pytest.raises(UserError, match=r"trials on other terms \(world, tasks\)"):
        searched(stream, tmp_path, "first-task")


def test_a_stream_without_a_method_that_is_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names no strategy that is searched"):
        searched(tiny_stream(tmp_path, "constant"), tmp_path)
