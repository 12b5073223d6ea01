"""``pmn-bench run``: what strategies learn in the same way is learned once."""

from __future__ import annotations

import re
from pathlib import Path

from commands import refused
from commands import run as run_here
from made_results import changed, learned
from tiny_streams import TINY, tiny_stream

from pmn_cl.config.stream import load_spec
from pmn_cl.results.result import REUSED, REUSED_CPU, Result, read_results
from pmn_cl.runs.plan import plan_runs
from pmn_cl.studies.request import RunRequest
from pmn_cl.studies.run import next_steps, plan_comparison, said_of_added


def test_runs_of_a_folder_share_their_modules_under_the_keys_that_they_always_had(
    tmp_path: Path,
) -> None:
    runs = plan_comparison(RunRequest(stream=TINY, out=tmp_path)).runs
    assert {run.reuse for run in runs} == {str(tmp_path.resolve() / "modules")}
    assert [run.key for run in runs] == [run.key for run in plan_runs(load_spec(TINY))]


def test_a_strategy_that_the_stream_does_not_name_is_added_as_it_is(tmp_path: Path) -> None:
    asked = RunRequest(stream=TINY, out=tmp_path, strategies=("ewc", "pmn"), seeds=(0,))
    runs = plan_comparison(asked).runs
    assert [run.strategy.name for run in runs] == ["pmn", "ewc"]
    assert runs[1].strategy.options == {} and runs[1].stream == runs[0].stream
    assert said_of_added(asked) == ["ewc: not named by the stream, added with its usual options"]
    [pmn, *_] = plan_runs(load_spec(TINY), ["pmn"], [0])
    assert runs[0].key == pmn.key
    said = refused("run", TINY, "--strategy", "ewq", "--out", tmp_path)
    assert "did you mean 'ewc'?" in said
    assert "--strategy plugin: needs options" in refused("run", TINY, "--strategy", "plugin")


def test_next_steps_are_those_that_show_something(tmp_path: Path) -> None:
    def commands(*results: Result) -> list[str]:
        return [command.split()[1] for command, _ in next_steps(results, tmp_path)]

    one, two = (learned("pmn", seed, 0.8, 0.8, 0.7) for seed in (0, 1))
    assert commands(one) == ["report"]
    assert commands(one, two) == ["report", "compare"]
    asked = changed(one, tasks=["a", "vqa"])
    assert commands(asked) == ["report", "explain"]
    assert commands(changed(one, status="failed")) == []


def test_the_end_says_what_was_spent_and_what_counts(cache: Path, tmp_path: Path) -> None:
    stream = tiny_stream(tmp_path, "independent", "parameter_matched")
    given = ["run", stream, "--seed", "0", "--workers", "2", "--tracking", "off"]
    done = run_here(*given, "--out", tmp_path / "out", "--cache", cache)
    assert done.exit_code == 0, done.output
    results = read_results(tmp_path / "out")
    # Both begin at once: which of them learns a module, and which waits for it, is open.
    assert sum(result.details[REUSED] for result in results) == 2
    counted = sum(cost.cpu_seconds for result in results for cost in result.costs)
    spent = counted - sum(result.details[REUSED_CPU] for result in results)
    assert 0 < spent < counted
    said = f"4 modules or tasks learned, 2 reused, {spent:.0f} CPU-s spent "
    said += f"({counted:.0f} with each run counted alone)"
    assert re.search(re.escape(said), done.stdout), done.stdout


def test_a_strategy_that_cannot_be_as_the_others_are_is_not_added(tmp_path: Path) -> None:
    def said(strategy: str, text: str) -> str:
        (tmp_path / "stream.yaml").write_text(text, "utf-8")
        return refused("run", tmp_path / "stream.yaml", "--strategy", strategy, "--dry-run")

    here = "name: s\ntasks: [obj]\nseeds: [0]\nworld: {name: digits}\n"
    large = f"{here}strategies: [{{name: pmn, size: paper}}]\n"
    assert "gives networks a size (paper)" in said("ewc", large)
    parity = f"{here.replace('digits', 'visual_genome')}strategies: [constant]\n"
    assert "programs" in said("executor", parity)
