"""Many runs: what is done stays done, what was cut off goes on, and nobody is waited for twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import run as run_here
from tiny_streams import TINY, tiny_stream

from benchmarks.stream import Stream
from pmn_cl.config.spec import RunSpec
from pmn_cl.config.stream import load_spec
from pmn_cl.console import INTERRUPTED
from pmn_cl.errors import UserError
from pmn_cl.files import held
from pmn_cl.results.folder import JOURNAL, LEARNED, RESULT
from pmn_cl.results.result import REUSED, REUSED_CPU, Result, read_result, read_results
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.execute import make_strategy
from pmn_cl.runs.journal import read_journal
from pmn_cl.runs.plan import plan_runs

# A process of its own imports torch and Avalanche twice, in the driver's server too: it is started
# where a driver is killed or its working directory matters, and else called in this process.
PROGRAM = [sys.executable, "-W", "ignore", "-m", "pmn_cl.cli.main"]
SCRIPT = str(Path(sys.executable).parent / "pmn-bench")  # what users run
NO_MIRROR = ("--tracking", "off")


def what_matters(results: list[Result]) -> list[Any]:
    """All that must not depend on when or how often a run was cut off."""
    named = ("key", "status", "scores", "secondary", "weights", "parameters", "validation")
    whose = (REUSED, REUSED_CPU)  # learned a module may well depend on it
    return [
        [
            *(getattr(r, name) for name in (*named, "curves")),
            {name: value for name, value in r.details.items() if name not in whose},
            samples_seen(r),
        ]
        for r in sorted(results, key=lambda r: r.key)
    ]


def samples_seen(result: Result) -> list[int]:
    return [cost.samples_seen for cost in result.costs]


@pytest.fixture(scope="module")
def runs() -> list[RunSpec]:
    return plan_runs(load_spec(TINY))


@pytest.fixture(scope="module")
def undisturbed(
    runs: list[RunSpec], cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Result]]:
    out = tmp_path_factory.mktemp("undisturbed")
    results = Driver(out, workers=2, cache=cache).run(runs)
    assert [result.status for result in results] == ["completed"] * len(runs)
    return out, results


def test_every_run_leaves_a_whole_record(
    runs: list[RunSpec], undisturbed: tuple[Path, list[Result]]
) -> None:
    out, results = undisturbed
    assert [result.key for result in results] == [run.key for run in runs]
    pmn = next(result for result in results if result.strategy == "pmn")
    assert pmn.tasks == ["obj", "att", "cnt"]
    assert pmn.metrics == ["top1", "map", "accuracy"]
    for split in ("test", "novel"):
        matrix = pmn.scores[split]
        assert [[value is None for value in row] for row in matrix] == [
            [False, True, True],
            [False, False, True],
            [False, False, False],
        ]
        assert [row[0] for row in matrix] == [matrix[0][0]] * 3  # frozen
    assert pmn.summary()["forgetting"] == 0
    assert pmn.samples["train"][0] == 300 and pmn.samples["test"][0] == 100
    assert pmn.parameters["total"] == sorted(pmn.parameters["total"])
    assert len(set(pmn.weights)) == 3 and all(pmn.weights)
    assert pmn.costs[-1].samples_seen > pmn.costs[0].samples_seen > 0
    assert pmn.versions["torch"] and pmn.data and pmn.error is None
    constant = results[0]
    assert constant.scores["test"][-1] == constant.constant["test"] == pmn.constant["test"]
    assert not list(out.glob("*/checkpoint*"))  # of no use any more
    assert pmn.curves.keys() == set(pmn.tasks)
    for task, curve in pmn.curves.items():
        steps = [epoch.step for epoch in curve]
        assert steps == sorted(set(steps)) and max(e.score for e in curve) == pmn.validation[task]


def test_question_families_are_in_journal_and_record(
    undisturbed: tuple[Path, list[Result]],
) -> None:
    out, results = undisturbed
    families = {"count", "count_related"}
    for result in (r for r in results if r.strategy != "constant"):
        written = [e for e in read_journal(out / result.key / JOURNAL) if e["event"] == "epoch"]
        shown = [event for event in written if event["task"] == "cnt"]
        assert shown and len(shown) == len(result.curves["cnt"])
        for event, epoch in zip(shown, result.curves["cnt"], strict=True):
            assert event["families"].keys() == event["mass"].keys() == families
            assert (event["families"], event["mass"]) == (epoch.families, epoch.mass)
            assert all(
                0 <= value <= 1 for value in (*epoch.families.values(), *epoch.mass.values())
            )
        assert all("families" not in event for event in written if event["task"] == "obj")
        assert list(result.floors) == ["cnt"]
        floor = result.floors["cnt"]
        assert floor.scores.keys() == {"val", "test", "novel"} and floor.mass.keys() == families
        # One answer for all questions is never better than one for each family.
        assert 0 < result.constant["test"][2] < max(floor.scores["test"].values())
        last = result.secondary["test"][-1]["cnt"]
        assert {f"family {name}" for name in families} <= last.keys()


def test_what_was_learned_is_kept(
    runs: list[RunSpec], cache: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    out, results = undisturbed
    for run, result in zip(runs, results, strict=True):
        stream = Stream.open(run.stream, run.seed, cache=cache)
        experiences = list(stream.as_avalanche().train_stream)
        strategy = make_strategy(run, experiences)
        strategy.load(out / run.key / LEARNED, experiences)
        assert strategy.digest() == result.weights[-1]


def test_what_is_done_is_not_done_again(
    runs: list[RunSpec], cache: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    out, results = undisturbed
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/[!.]*")}
    assert Driver(out, cache=cache).run(runs) == results
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/[!.]*")} == before


def test_fresh_starts_over_and_keeps_the_old(
    runs: list[RunSpec], cache: Path, tmp_path: Path
) -> None:
    run = next(run for run in runs if run.key.startswith("constant-"))
    [first] = Driver(tmp_path, cache=cache).run([run])
    [second] = Driver(tmp_path, cache=cache, fresh=True).run([run])
    assert what_matters([first]) == what_matters([second])
    assert read_result(tmp_path / "earlier" / "1" / run.key / RESULT) == first
    assert read_results(tmp_path) == [second]


def test_fresh_learns_again_what_runs_share(
    runs: list[RunSpec], cache: Path, tmp_path: Path
) -> None:
    pmn = next(run for run in runs if run.key.startswith("pmn-"))
    modules = tmp_path / "modules"
    run = pmn.model_copy(update={"reuse": str(modules)})
    found = [Driver(tmp_path, cache=cache, fresh=fresh).run([run])[0] for fresh in (False, True)]
    assert [result.details[REUSED] for result in found] == [0, 0]
    assert what_matters(found[:1]) == what_matters(found[1:])
    [moved] = (tmp_path / "earlier").glob("*/modules")
    assert sorted(p.name for p in moved.iterdir()) == sorted(p.name for p in modules.iterdir())


FAILING = """
from pmn_cl.strategy.base import Strategy
class Failing(Strategy):
    def learn(self, experience, validation):
        if experience.task.name == "att":
            raise ValueError("no idea")
    def predict(self, experience):
        samples = experience.samples
        one = experience.task.constant(samples.columns, samples.store.names)
        return one[None].repeat(len(samples), 0)
    def save(self, folder): ...
    def load(self, folder, experiences): ...
"""


def test_a_failed_run_is_a_result_and_the_others_go_on(cache: Path, tmp_path: Path) -> None:
    names = ("constant", '"failing_strategy:Failing"')
    stream = tiny_stream(tmp_path, *names, failing_strategy=FAILING)
    out = tmp_path / "out"
    for attempt in (1, 2):  # what failed is tried again
        results = Driver(out, cache=cache).run(plan_runs(load_spec(stream), (), [0]))
        assert [result.status for result in results] == ["completed", "failed"]
        failed = results[1]
        assert failed.error is not None and failed.error.message == "no idea"
        assert failed.error.kind == "ValueError"
        assert "no idea" in (out / failed.key / "traceback.txt").read_text("utf-8")
        assert [row[0] is not None for row in failed.scores["test"]] == [True]  # up to there
        assert len(list((out / failed.key).glob(f"{JOURNAL}*"))) == attempt


def test_a_run_that_cannot_begin_is_a_result_and_the_others_go_on(
    cache: Path, tmp_path: Path
) -> None:
    bad = "{name: pmn, supervise: [cmt]}"
    stream = tiny_stream(tmp_path, bad, "constant")
    given = ["run", str(stream), "--seed", "0", "--seed", "0", *NO_MIRROR]
    given += ["--out", str(tmp_path / "out"), "--cache", str(cache)]
    path = os.pathsep.join(p for p in sys.path if p)
    first = subprocess.run(
        [*PROGRAM, *given],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    check_one_could_not_begin(tmp_path / "out", first.returncode, first.stdout, first.stderr)
    again = run_here(*given)
    check_one_could_not_begin(tmp_path / "out", again.exit_code, again.stdout, again.stderr)


def check_one_could_not_begin(out: Path, code: int, said: str, warned: str) -> None:
    assert code == 1, warned
    assert "unknown task 'cmt'" in said and "Traceback" not in warned
    failed, whole = sorted(read_results(out), key=lambda r: r.status != "failed")
    assert (failed.status, whole.status) == ("failed", "completed")
    assert failed.summary()["average"] is None
    lines = said.splitlines()
    [titles] = [number for number, line in enumerate(lines) if line.split()[:1] == ["strategy"]]
    assert "constant (floor)" in lines[titles + 1]


def test_a_state_that_the_journal_knows_nothing_of_is_not_trusted(
    runs: list[RunSpec], cache: Path, tmp_path: Path
) -> None:
    run = next(run for run in runs if run.key.startswith("hard_sharing-"))
    chosen = ("--strategy", "hard_sharing", "--seed", str(run.seed))
    driver = start(tmp_path, cache, *chosen, *NO_MIRROR)
    folder = tmp_path / run.key
    journal = folder / JOURNAL
    while not journal.exists() or "experience" not in {e["event"] for e in read_journal(journal)}:
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    with held(folder, "this run", patience=30):  # until the run has noticed
        pass
    if read_result(folder / RESULT).status == "completed":
        pytest.skip("the run was faster than the kill")
    (folder / JOURNAL).write_text("", "utf-8")
    [result] = Driver(tmp_path, cache=cache).run([run])
    assert result.status == "failed" and result.error is not None
    assert "knows 0 experiences" in result.error.message


def test_two_drivers_in_one_folder_are_told_apart(runs: list[RunSpec], tmp_path: Path) -> None:
    with held(tmp_path, "the folder"), pytest.raises(UserError, match=f"process {os.getpid()} on"):
        Driver(tmp_path).run(runs[:1])


def test_the_working_directory_shadows_nothing(cache: Path, tmp_path: Path) -> None:
    for name in ("strategies", "benchmarks", "torch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('shadowed')", "utf-8")
    given = ["pmn-bench", "run", str(TINY), "--strategy", "hard_sharing", "--seed", "0"]
    given += ["--out", "out", "--cache", str(cache), *NO_MIRROR]
    script = f"import sys; sys.argv = {given!r}; sys.path.remove('')\n"
    script += "from pmn_cl.cli.main import main; main()"
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout


# Cut off at any moment.


def whole_stream(out: Path, cache: Path) -> list[str]:
    return ["run", str(TINY), "--out", str(out), "--cache", str(cache), "--checkpoint-every", "0"]


def start(out: Path, cache: Path, *more: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [SCRIPT, *whole_stream(out, cache), *more],
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C goes to all processes of a terminal
    )


def workers_of(out: Path, driver: int) -> list[int]:
    """The processes that hold a run's folder; the driver itself does, for a moment."""
    found = []
    for lock in out.glob("*/.lock"):
        try:
            found.append(int(json.loads(lock.read_text("utf-8"))["process"]))
        except (ValueError, OSError):
            continue
    return [p for p in found if p != driver and Path(f"/proc/{p}").exists()]


def lines_of(out: Path) -> dict[str, int]:
    return {path.parent.name: len(read_journal(path)) for path in out.glob(f"*/{JOURNAL}")}


def kill_and_resume(out: Path, cache: Path, kills: int, seed: int, *more: str) -> list[Result]:
    """Kill driver or worker at random moments, start again, and return the end."""
    chance = random.Random(seed)
    for number in range(kills):
        driver = start(out, cache, *more)
        before = lines_of(out)
        moment = time.monotonic() + chance.uniform(0.5, 6.0)
        # So that every kill hits a run that is under way.
        while time.monotonic() < moment or not workers_of(out, driver.pid):
            if driver.poll() is not None:
                break
            time.sleep(0.02)
        victims = workers_of(out, driver.pid) if number % 2 else [driver.pid]
        for process in victims[:1]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if number % 2:
            assert driver.wait() in (0, 1)
        else:
            driver.wait()
        after = lines_of(out)  # every line can be read, and none was lost
        assert all(after.get(key, 0) >= count for key, count in before.items())
    last = run_here(*whole_stream(out, cache), *more)
    assert last.exit_code == 0, last.output
    return read_results(out)


def test_runs_killed_at_random_moments_end_as_if_nothing_had_happened(
    cache: Path, tmp_path: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    # The driver, and a worker; with a mirror among the fifty.
    found = kill_and_resume(tmp_path, cache, 2, 1, *NO_MIRROR)
    assert what_matters(found) == what_matters(undisturbed[1])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_fifty_kills(
    seed: int, cache: Path, tmp_path: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    found = kill_and_resume(tmp_path, cache, 5, seed)
    assert what_matters(found) == what_matters(undisturbed[1])


def test_ctrl_c_stops_in_order_and_says_how_to_go_on(
    cache: Path, tmp_path: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    driver = start(tmp_path, cache, "--workers", "2")
    while not workers_of(tmp_path, driver.pid):
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    said, _ = driver.communicate()
    assert driver.returncode == INTERRUPTED, said
    statuses = {result.status for result in read_results(tmp_path)}
    assert "interrupted" in statuses and "failed" not in statuses
    again = run_here(*whole_stream(tmp_path, cache), *NO_MIRROR)
    assert again.exit_code == 0, again.output
    assert what_matters(read_results(tmp_path)) == what_matters(undisturbed[1])


def interrupt_after(seconds: float, out: Path, cache: Path) -> str:
    """Start the stream, press Ctrl-C, and return what was said."""
    driver = start(out, cache)
    try:
        said, _ = driver.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGINT)
        said, _ = driver.communicate()
    return in_order(driver, said)


def in_order(driver: subprocess.Popen[str], said: str) -> str:
    assert driver.returncode in (INTERRUPTED, 0), said
    assert "Traceback" not in said and "warning" not in said
    lines = [line for line in said.splitlines() if "interrupted" in line]
    assert len(lines) == (driver.returncode == INTERRUPTED), said
    assert all("; go on with: pmn-bench run " in line for line in lines)
    return said


def test_ctrl_c_while_it_imports_is_one_line(cache: Path, tmp_path: Path) -> None:
    [line] = interrupt_after(0.3, tmp_path, cache).strip().splitlines()
    assert line.startswith("pmn-bench: interrupted")


def test_ctrl_c_while_the_first_run_is_started_is_one_line_and_leaves_no_run(
    cache: Path, tmp_path: Path
) -> None:
    driver = start(tmp_path, cache)
    assert driver.stdout is not None
    while "at a time" not in driver.stdout.readline():
        assert driver.poll() is None
    time.sleep(1.0)  # the server imports torch for longer
    os.killpg(driver.pid, signal.SIGINT)
    said, _ = driver.communicate()
    assert driver.returncode == INTERRUPTED
    assert len(in_order(driver, said).strip().splitlines()) == 1
    deadline = time.monotonic() + 10  # the server ends by itself
    while any(_session(p) == driver.pid for p in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _session(process: Path) -> int | None:
    """The session of a process: of those of a terminal all have the same."""
    try:
        return int((process / "stat").read_text("utf-8").rpartition(")")[2].split()[3])
    except OSError:
        return None


@pytest.mark.long
def test_ctrl_c_at_twenty_moments_ends_in_order_and_goes_on(
    cache: Path, tmp_path: Path, undisturbed: tuple[Path, list[Result]]
) -> None:
    begun = time.monotonic()
    assert start(tmp_path / "whole", cache).wait() == 0
    whole = time.monotonic() - begun
    for moment in range(20):
        out = tmp_path / str(moment)
        interrupt_after(0.1 + moment / 19 * whole, out, cache)
        again = subprocess.run(
            [*PROGRAM, *whole_stream(out, cache)], capture_output=True, text=True, check=False
        )
        assert again.returncode == 0, again.stderr
        assert "warning" not in again.stderr and "Traceback" not in again.stderr
        assert what_matters(read_results(out)) == what_matters(undisturbed[1])
