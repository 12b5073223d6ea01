"""Results run again from their records: the same again, and what was altered comes to light."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Done
from made_results import changed, learned
from rich.console import Console

from pmn_cl.cli.main import main
from pmn_cl.config.spec import RunSpec, StrategySpec
from pmn_cl.config.stream import load_spec, shipped_streams
from pmn_cl.errors import UserError
from pmn_cl.results.difference import difference, findings
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import (
    REUSED,
    REUSED_CPU,
    Epoch,
    Inside,
    Result,
    Work,
    read_result,
    read_results,
    write_result,
)
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.learned import runnable
from pmn_cl.runs.plan import plan_runs
from pmn_cl.runs.record import result_of
from pmn_cl.runs.verify import find_result
from pmn_cl.studies.request import TuningRequest
from pmn_cl.studies.tuning import Searching, grid_of

STREAM = """
name: tiny
world: {name: digits, scenes: {train: 300, val: 50, test: 100, novel: 100}}
tasks: [obj, {task: att, fraction: 50}]
fraction: 80
budget: 10
evaluate_every: {steps: 3}
strategies:
  - {name: hard_sharing, lr_scale: 2.0}
  - {name: hard_sharing, matched_to: pnn, attention: 3}
  - {name: pnn, width: 20}
seeds: [0]
"""


@pytest.fixture(scope="module")
def out(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the records of two runs, the second one of a matched variant."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "stream.yaml").write_text(STREAM, "utf-8")
    runs = plan_runs(load_spec(folder / "stream.yaml"))[:2]
    results = Driver(folder / "out", cache=cache).run(runs)
    assert [result.status for result in results] == ["completed"] * 2
    return folder / "out"


@pytest.fixture(scope="module")
def real(out: Path) -> Result:
    [result] = [result for result in read_results(out) if not result.variant]
    return result


def verify(cache: Path, *paths: Path) -> Done:
    given = ["verify", *map(str, paths), "--cache", str(cache)]
    done = CliRunner().invoke(main, given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def put(result: Result, out: Path) -> Path:
    (out / result.key).mkdir(parents=True)
    return write_result(result, out / result.key)


def with_change(result: Result, change: Callable[[dict[str, Any]], object]) -> Result:
    found = result.model_dump()
    change(found)
    return Result.model_validate(found)


def lines(done: Done) -> dict[str, dict[str, str]]:
    """What is said, by path and by thing."""
    found: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            current = found.setdefault(line, {})
        elif "verified: " not in line:
            current[line[2:22].strip()] = line[22:]
    return found


def test_a_record_is_verified_and_what_was_altered_is_found_out(
    real: Result, cache: Path, tmp_path: Path
) -> None:
    def raise_score(found: dict[str, Any]) -> None:
        found["scores"]["test"][1][0] += 0.25

    def other_weights(found: dict[str, Any]) -> None:
        found["weights"][1] = "0" * 64

    def other_option(found: dict[str, Any]) -> None:
        found["options"]["lr_scale"] = found["run"]["strategy"]["options"]["lr_scale"] = 0.5

    good = put(real, tmp_path / "good")
    score = put(with_change(real, raise_score), tmp_path / "score")
    weights = put(with_change(real, other_weights), tmp_path / "weights")
    option = put(with_change(real, other_option), tmp_path / "option")
    done = verify(cache, good, score.parent, weights, option)
    assert done.exit_code == 1
    said = lines(done)
    assert set(said[str(good)].values()) == {"same"}
    assert {"data", "scores on test", "scores on novel", "samples seen"} < said[str(good)].keys()
    was, now = real.scores["test"][1][0], with_change(real, raise_score).scores["test"][1][0]
    assert [what for what, line in said[str(score)].items() if line.startswith("differs")] == [
        "scores on test"
    ]
    assert said[str(score)]["scores on test"] == (
        f"differs (1 of 4, by at most 0.25, first 2.obj: {now}, now {was})"
    )
    assert said[str(weights)]["weights"] == (
        f"differs (1 of 2, first 2: {'0' * 12}…, now {real.weights[1][:12]}…)"
    )
    assert said[str(option)]["key"].startswith("differs")
    assert said[str(option)]["weights"].startswith("differs (2 of 2")
    assert done.stdout.count("  verified: ") == 1 and done.stdout.count("  not verified: ") == 3


def test_all_is_well_where_all_is_the_same(out: Path, cache: Path) -> None:
    done = verify(cache, *(path.parent for path in out.glob(f"*/{RESULT}")))
    assert done.exit_code == 0
    assert done.stdout.count("  verified: it comes to the same again") == 2
    said = lines(done)
    assert len(said) == 2 and all(set(found.values()) == {"same"} for found in said.values())


def test_on_other_data_nothing_is_compared(real: Result, cache: Path, tmp_path: Path) -> None:
    path = put(real.model_copy(update={"data": "0" * 64}), tmp_path)
    done = verify(cache, path)
    assert done.exit_code == 1
    said = lines(done)[str(path)]
    assert said["data"] == f"differs ({'0' * 12}…, now {real.data[:12]}…)"
    assert said["weights"] == said["scores on novel"] == "cannot be compared (other data)"


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("key", "another"),
        ("data", "another"),
        ("options", {"lr_scale": 7.0}),
        ("metrics", ["top1", "f1"]),
        ("samples", {"train": [1, 2]}),
        ("constant", {"test": [0.5, None], "novel": [0.5, 0.5]}),
        ("scores", {"test": [[0.1, None], [0.1, 0.2]]}),
        ("secondary", {"test": []}),
        ("validation", {"obj": 0.5}),
        ("parameters", {"total": [1, 2], "trainable": [1, 1]}),
        ("weights", []),
        ("details", {"memory": 3.0}),
        ("curves", {"obj": [Epoch(step=1, loss=0.5, score=0.5)]}),
        ("inside", Inside(phase=[1], step=[2], cpu_seconds=[0.1], scores=[[0.5, 0.5]])),
        ("work", Work(learned=[1.0, 1.0], answer={"obj": 2.0}, bytes={"weights": [1, 1]})),
    ],
)
def test_nothing_that_matters_is_left_out(part: str, value: Any, real: Result) -> None:
    altered = real.model_copy(update={part: value})
    assert all(finding.state == "same" for finding in findings(real, real))
    assert any(finding.state == "differs" for finding in findings(altered, real))
    assert any(finding.state == "differs" for finding in findings(real, altered))


def test_times_and_memory_are_no_part_of_it(real: Result) -> None:
    dear = [cost.model_copy(update={"learn_seconds": 99.0}) for cost in real.costs]
    slow = real.inside.model_copy(update={"cpu_seconds": [99.0] * len(real.inside.step)})
    other = {
        "costs": dear,
        "inside": slow,
        "seconds": 999.0,
        "started": "2020-01-01T00:00:00+00:00",
    }
    assert all(f.good for f in findings(real, real.model_copy(update=other)))
    [first, *others] = real.costs
    more = [first.model_copy(update={"samples_seen": 1}), *others]
    [apart] = [f for f in findings(real, real.model_copy(update={"costs": more})) if not f.good]
    assert apart.what == "samples seen"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"versions": {"torch": "1.0"}}, "another torch: 1.0, here 2"),
        ({"revision": "abc"}, "another code revision: abc, here def"),
        ({"device": "cuda"}, "another device: cuda, here cpu"),
        ({"data": "e"}, "other data: e, here d"),
    ],
)
def test_under_other_circumstances_numbers_cannot_be_compared(
    change: dict[str, Any], why: str
) -> None:
    here = {"versions": {"torch": "2"}, "revision": "def", "device": "cpu"}
    again = learned("pmn", 0, 0.5, 0.5, 0.5).model_copy(update=here)
    elsewhere = again.model_copy(update=change)
    others = [f for f in findings(elsewhere, again) if f.what != "data"]
    assert {f.state for f in others} == {"same"}  # what is the same needs no excuse
    altered = elsewhere.model_copy(update={"scores": {"test": [[0.5, None], [0.5, 0.75]]}})
    [score] = [f for f in findings(altered, again) if f.what == "scores on test"]
    assert score.state == "cannot be compared" and not score.good
    assert score.why == f"{why}; 1 of 4, by at most 0.25, first 2.b: 0.75, now 0.5"
    [score] = [
        f
        for f in findings(again.model_copy(update={"scores": altered.scores}), again)
        if f.what == "scores on test"
    ]
    assert score.state == "differs"


def test_whose_modules_a_run_has_does_not_matter(real: Result) -> None:
    taken = {**real.details, REUSED: 2.0, REUSED_CPU: 3.5}
    assert all(f.good for f in findings(real.model_copy(update={"details": taken}), real))
    seen = [cost.model_copy(update={"samples_seen": 0}) for cost in real.costs]
    less = real.model_copy(update={"details": taken, "costs": seen})
    assert [f.what for f in findings(less, real) if not f.good] == ["samples seen"]


def test_differences_by_hand() -> None:
    assert difference([1, {"a": 2.0}], [1, {"a": 2}]) == ""
    assert difference([], []) == difference(None, None) == ""
    assert difference("x", "y") == "x, now y"
    assert difference([1, 2, 3], [1, 2.5, 1]) == "2 of 3, by at most 2, first 2: 2, now 2.5"
    assert difference({"a": [1]}, {"b": [1]}) == "2 of 2, first a.1: 1, now nothing"
    assert difference([True, None], [False, None]) == "1 of 2, first 1: True, now False"
    assert difference([0.1, None], [0.1, 0.2]) == "1 of 2, first 2: None, now 0.2"


def test_modules_of_other_runs_are_learned_anew(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text(STREAM, "utf-8")
    spec = load_spec(tmp_path / "stream.yaml")
    first, second = (
        RunSpec(
            stream=spec.stream,
            strategy=StrategySpec(name="pmn", variant=name),
            seed=0,
            reuse=str(tmp_path / "modules"),
        )
        for name in ("first", "second")
    )
    made, taken = Driver(tmp_path / "out", cache=cache).run([first, second])
    assert (made.details[REUSED], taken.details[REUSED]) == (0, 2)
    assert taken.weights[-1] == made.weights[-1]
    done = verify(cache, tmp_path / "out" / second.key)
    assert done.exit_code == 0, done.stdout
    said = lines(done)[str(tmp_path / "out" / second.key / RESULT)]
    assert {what for what, line in said.items() if line != "same"} == set()


# From a record to a run.


def recorded(run: RunSpec) -> Result:
    """A record of a run that took no time, written and read."""
    ended = result_of(run, []).model_copy(update={"status": "completed"})
    return Result.model_validate_json(ended.model_dump_json(), strict=True)


def all_runs(tmp_path: Path) -> list[RunSpec]:
    (tmp_path / "stream.yaml").write_text(STREAM, "utf-8")
    specs = [load_spec(path) for path in [tmp_path / "stream.yaml", *shipped_streams().values()]]
    return [run for spec in specs for run in plan_runs(spec)] + all_trials(tmp_path)


def all_trials(tmp_path: Path) -> list[RunSpec]:
    spec = load_spec(shipped_streams()["claims.yaml"], tuned=False)
    search = Searching(spec, TuningRequest(stream="claims.yaml", out=tmp_path), Console())
    runs = [search.run_of(m, tried) for m in search.methods for tried in grid_of(m)]
    return [run.model_copy(update={"reuse": None}) for run in runs]  # a place, which no record has


def test_the_record_of_every_run_leads_back_to_it(tmp_path: Path) -> None:
    runs = all_runs(tmp_path)
    assert any(run.matched for run in runs) and any(run.splits == ["val"] for run in runs)
    at_end = {"seed": 3, "evaluate_at_end": True, "rung": "M_vqa5", "study": "ablate"}
    runs.append(runs[0].model_copy(update=at_end))
    for run in runs:
        found = runnable(tmp_path, recorded(run))
        assert found == run and found.key == run.key


def test_a_record_that_lacks_what_was_given_is_not_run_again(real: Result, tmp_path: Path) -> None:
    older = real.model_copy(update={"incomplete": "the options as they were given"})
    with pytest.raises(UserError, match="lacks the options as they were given"):
        runnable(tmp_path, older)


# What cannot be verified.


def refused(cache: Path, *paths: Path) -> str:
    done = verify(cache, *paths)
    assert done.exit_code == 2 and "Traceback" not in done.output
    return done.stderr


def test_only_whole_results_of_known_strategies_are_run_again(
    real: Result, cache: Path, tmp_path: Path
) -> None:
    path = put(real, tmp_path)
    assert "it has 1 runs, such as" in refused(cache, tmp_path)
    assert "no such file or folder" in refused(cache, tmp_path / "nowhere")

    def change(run: Callable[[dict[str, Any]], object] = bool, **changes: Any) -> str:
        found = json.loads(real.model_dump_json())
        run(found["run"])
        path.write_text(json.dumps({**found, **changes}), "utf-8")
        return refused(cache, path)

    def strategy(**changes: Any) -> str:
        return change(lambda run: run["strategy"].update(changes))

    assert "the run is interrupted, and only a completed one" in change(status="interrupted")
    assert "is a result of version 3, expected 2" in change(version=3)
    assert "unknown strategy 'hard_shoring'" in strategy(name="hard_shoring")
    assert "did you mean 'hard_sharing'" in strategy(name="hard_shoring")
    assert "no module 'my_own' on the path" in strategy(name="my_own:Method")
    assert "PYTHONPATH" in strategy(name="my_own:Method")
    assert "unknown task 'cat'" in change(lambda run: run["stream"]["tasks"][0].update(task="cat"))
    assert "rats: Extra inputs" in strategy(options={"rats": 1})
    assert "world: Field required" in change(lambda run: run["stream"].pop("world"))
    path.write_text(path.read_text("utf-8")[:99], "utf-8")
    assert "is no whole result" in refused(cache, path)


def test_a_result_is_meant_by_its_file_or_its_folder(real: Result, tmp_path: Path) -> None:
    path = put(real, tmp_path)
    assert find_result(path) == find_result(path.parent) == path
    assert read_result(find_result(path.parent)) == real
    assert path.name == RESULT


def test_a_run_that_fails_now_is_no_proof(real: Result, cache: Path, tmp_path: Path) -> None:
    path = put(changed(real, strategy="pmn", as_given={"supervise": ["cmt"]}), tmp_path)
    done = verify(cache, path)
    assert done.exit_code == 1
    assert lines(done)[str(path)]["run"].startswith("differs (completed, now failed: ")
    assert "unknown task 'cmt'" in done.stdout
