"""Runs on Ray: the same results as on one machine, whatever is lost on the way.

Nodes are simulated on this machine. Runs that are to be disturbed wait before their second task
until they may go on, so that nothing depends on chance.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_streams import TINY, tiny_stream

from pmn_cl.config.names import make_world
from pmn_cl.config.spec import RunSpec
from pmn_cl.config.stream import load_spec
from pmn_cl.console import INTERRUPTED
from pmn_cl.errors import UserError
from pmn_cl.results.folder import JOURNAL, LEARNED, RESULT
from pmn_cl.results.result import Result, read_results
from pmn_cl.runs.checkpoint import CHECKPOINT
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.journal import read_journal
from pmn_cl.runs.plan import plan_runs

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
from ray.cluster_utils import Cluster  # noqa: E402

from pmn_cl.runs.engines.ray import RayEngine  # noqa: E402

pytestmark = pytest.mark.long

WAITS = "waiting:Waiting"
WAITING = """
import os, time
from pathlib import Path
from baselines.hard_sharing import HardSharing

class Waiting(HardSharing):
    def prepare(self, experience):
        super().prepare(experience)
        place = Path(__file__).parent
        if experience.task.name == "att":
            (place / "here").write_text(str(os.getpid()))
            while (place / "wait").exists():
                time.sleep(0.01)
"""


def what_matters(results: list[Result]) -> list[Any]:
    """All that must not depend on where a run was, and what happened there."""
    return [
        (r.key, r.status, r.scores, r.secondary, r.weights, r.parameters, r.validation, r.error)
        for r in results
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    return tiny_stream(folder, "constant", "pmn", f'"{WAITS}"', waiting=WAITING).parent


@pytest.fixture(scope="module")
def run(place: Path) -> RunSpec:
    return plan_runs(load_spec(place / "stream.yaml"), [WAITS], [0])[0]


@pytest.fixture(scope="module")
def undisturbed(run: RunSpec, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return Driver(tmp_path_factory.mktemp("undisturbed"), cache=cache).run([run])[0]


@pytest.fixture(scope="module")
def nodes_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nodes keep worlds when they do not see the driver's."""
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def cluster(nodes_cache: Path) -> Iterator[Any]:
    """Three nodes with a core each; the driver is on the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PMN_BENCH_CACHE", str(nodes_cache))
        head = {"num_cpus": 1, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            made.add_node(num_cpus=1)
        made.wait_for_nodes()
        yield made
        ray.shutdown()
        made.shutdown()


def lost(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The key of every attempt that was lost."""
    messages = [r.getMessage() for r in caplog.records]
    return [m.split()[0] for m in messages if "was lost and begins anew" in m]


# What is lost.


def processes(name: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text("utf-8")
        except OSError:
            continue
        if command.startswith(f"ray::{name}"):
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("victim", ["run", "task", "fork server"])
@pytest.mark.parametrize("share", [True, False], ids=["shared", "copied"])
def test_a_run_that_was_lost_goes_on_elsewhere(
    victim: str,
    share: bool,
    place: Path,
    run: RunSpec,
    undisturbed: Result,
    cluster: Any,
    cache: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (place / "here").unlink(missing_ok=True)
    (place / "wait").touch()

    class Killing:
        """Kills as soon as the run is at its second task and its state has come home."""

        def begin(self, waiting: int) -> None: ...

        def update(self, running: dict[str, Any], ended: list[Result]) -> None:
            there = (place / "here").exists() and (tmp_path / run.key / CHECKPOINT).exists()
            if not there or not (place / "wait").exists():
                return
            names = {"run": "", "task": run.key, "fork server": "Node"}
            found = processes(names[victim]) if victim != "run" else []
            for process in found or [int((place / "here").read_text("utf-8"))]:
                os.kill(process, signal.SIGKILL)
            (place / "wait").unlink()

    engine = RayEngine(cluster.address, share=share)
    driver = Driver(tmp_path, cache=cache, every=0, engine=engine)
    [found] = driver.run([run], Killing())
    assert what_matters([found]) == what_matters([undisturbed])
    assert len(lost(caplog)) == 1
    events = Counter(e["event"] for e in read_journal(tmp_path / run.key / JOURNAL))
    assert events["started"] == 2 and events["experience"] == 3  # it did not start over
    assert not (tmp_path / run.key / CHECKPOINT).exists()
    names = {path.name for path in (tmp_path / run.key).iterdir()}
    assert names <= {JOURNAL, RESULT, LEARNED, "output.txt", "progress.json", ".lock"}


def test_what_is_lost_too_often_is_said(
    place: Path, run: RunSpec, cluster: Any, cache: Path, tmp_path: Path
) -> None:
    (place / "here").unlink(missing_ok=True)
    (place / "wait").touch()
    killed = []

    class Killing:
        def begin(self, waiting: int) -> None: ...

        def update(self, running: dict[str, Any], ended: list[Result]) -> None:
            if (place / "here").exists():
                killed.append(int((place / "here").read_text("utf-8")))
                (place / "here").unlink()
                os.kill(killed[-1], signal.SIGKILL)

    engine = RayEngine(cluster.address, retries=1)
    [found] = Driver(tmp_path, cache=cache, engine=engine).run([run], Killing())
    (place / "wait").unlink()
    assert len(set(killed)) == 2  # the first attempt and one more
    assert found.status == "interrupted" and found.error is not None
    assert found.error.message == "ended by signal SIGKILL; run again to go on"


def parent(process: int) -> int:
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def waiting_on(node: Any, runs: list[RunSpec], out: Path) -> list[str]:
    """The keys of those of these runs that descend from a node's raylet; they cannot end yet."""
    raylet, found = node.all_processes["raylet"][0].process.pid, []
    for run in runs:
        if run.key.startswith("waiting") and (out / run.key / CHECKPOINT).exists():
            lock = json.loads((out / run.key / ".lock").read_text("utf-8"))
            process = int(lock["process"])
            while process > 1 and process != raylet:
                process = parent(process)
            if process == raylet:
                found.append(run.key)
    return found


def test_of_three_nodes_one_is_killed_and_no_result_is_missing(
    place: Path, cache: Path, tmp_path: Path, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs = plan_runs(load_spec(place / "stream.yaml"), (), range(4))
    assert len(runs) == 12
    (place / "wait").unlink(missing_ok=True)
    expected = Driver(tmp_path / "local", workers=2, cache=cache).run(runs)
    (place / "wait").touch()
    out = tmp_path / "ray"

    class Killing:
        """Kills a node in the middle of a run, when some results are there and others not."""

        done, on_the_node = 0, ()

        def begin(self, waiting: int) -> None: ...

        def update(self, running: dict[str, Any], ended: list[Result]) -> None:
            self.done += len(ended)
            for node in list(cluster.worker_nodes):
                if self.done and not self.on_the_node:
                    self.on_the_node = tuple(waiting_on(node, runs, out))
                    if self.on_the_node:
                        cluster.remove_node(node, allow_graceful=False)
            if set(self.on_the_node) & set(lost(caplog)):
                (place / "wait").unlink(missing_ok=True)

    killing = Killing()
    driver = Driver(out, workers=12, cache=cache, every=0, engine=RayEngine(cluster.address))
    found = driver.run(runs, killing)
    cluster.add_node(num_cpus=1)  # for the other tests
    cluster.wait_for_nodes()
    assert [result.status for result in found] == ["completed"] * 12
    assert what_matters(found) == what_matters(expected)
    # What Ray gives to the node before it knows of its end is lost with it, too.
    assert len(killing.on_the_node) == 1 and set(killing.on_the_node) <= set(lost(caplog))
    assert not list(out.glob("*/.attempt"))


def test_a_run_holds_its_room_while_it_goes_on(
    place: Path, run: RunSpec, undisturbed: Result, cluster: Any, cache: Path, tmp_path: Path
) -> None:
    (place / "here").unlink(missing_ok=True)
    (place / "wait").touch()
    free: list[float] = []

    class Looking:
        """Looks how many of the three cores are free while the run waits; Ray knows with delay."""

        def begin(self, waiting: int) -> None: ...

        def update(self, running: dict[str, Any], ended: list[Result]) -> None:
            if (place / "here").exists() and (place / "wait").exists():
                free.append(ray.available_resources().get("CPU", 0))
                if free[-1] == 2 or len(free) == 20:
                    (place / "wait").unlink()

    [found] = Driver(tmp_path, cache=cache, engine=RayEngine(cluster.address)).run([run], Looking())
    assert free[-1] == 2, free
    assert what_matters([found]) == what_matters([undisturbed])


# Nodes that see nothing of the driver's.


def test_worlds_go_out_and_results_and_modules_come_home(
    cluster: Any, cache: Path, nodes_cache: Path, tmp_path: Path
) -> None:
    spec = load_spec(TINY)
    store = make_world(spec.world).prepare(cache)
    [plain] = plan_runs(spec, ["pmn"], [0])
    results = {}
    for name, engine in (("local", None), ("ray", RayEngine(cluster.address, share=False))):
        out = tmp_path / name
        less = spec.stream.model_copy(update={"fraction": 50.0})
        reusing = [
            plain.model_copy(update={"stream": stream, "reuse": str(out / "modules")})
            for stream in (spec.stream, less)
        ]
        given = {} if engine is None else {"engine": engine}
        results[name] = Driver(out, cache=cache, **given).run(reusing)
    assert what_matters(results["ray"]) == what_matters(results["local"])
    names = [
        sorted(str(p.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("[!.]*"))
        for name in ("local", "ray")
    ]
    assert names[0] == names[1]  # the same files, modules among them
    assert len([name for name in names[1] if name.startswith("modules/")]) > 0
    assert [r.details for r in results["ray"]] == [r.details for r in results["local"]]
    [copy] = nodes_cache.glob("copies/*/*.h5")
    assert copy.read_bytes() == store.path.read_bytes()


# What cannot be had.


def test_no_room_is_said_after_a_while(cluster: Any, cache: Path, tmp_path: Path) -> None:
    spec = load_spec(TINY).model_copy(update={"threads": 2})  # no node has two cores
    engine = RayEngine(cluster.address, patience=1.0)
    with pytest.raises(UserError) as error:
        Driver(tmp_path, cache=cache, engine=engine).run(plan_runs(spec, ["constant"], [0]))
    assert re.search(r"for 2 CPU: free are 3 of 3 CPU.* on 3 nodes, for 1 s", str(error.value))
    assert "--ray-timeout" in str(error.value)


def test_a_busy_cluster_is_waited_for_while_runs_of_ours_go_on(
    place: Path, run: RunSpec, undisturbed: Result, cluster: Any, cache: Path, tmp_path: Path
) -> None:
    (place / "wait").touch()
    began = time.monotonic()

    class Patient:
        def begin(self, waiting: int) -> None: ...

        def update(self, running: dict[str, Any], ended: list[Result]) -> None:
            if time.monotonic() > began + 25:  # more than once as long as Ray is waited for
                (place / "wait").unlink(missing_ok=True)

    engine = RayEngine(cluster.address, patience=10.0)
    [found] = Driver(tmp_path, cache=cache, engine=engine).run([run], Patient())
    assert what_matters([found]) == what_matters([undisturbed])


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://127.0.0.1:10001", "is a client's address, expected HOST:PORT"),
        ("127.0.0.1:1", "no answer"),
        ("nowhere", "no answer"),
    ],
)
def test_an_address_that_leads_nowhere(address: str, words: str) -> None:
    with pytest.raises(UserError, match=words), RayEngine(address):
        pass


def test_a_node_with_other_code_is_refused(
    cluster: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pmn_cl.runs.engines import ray as ray_engine

    code = {**ray_engine.code_here(), "torch": "1.0.0"}
    monkeypatch.setattr(ray_engine, "code_here", lambda: code)
    [found] = Driver(tmp_path, cache=cache, engine=RayEngine(cluster.address)).run(
        plan_runs(load_spec(TINY), ["constant"], [0])
    )
    assert found.status == "interrupted" and found.error is not None
    assert "would give other results: torch: " in found.error.message
    assert "expected 1.0.0" in found.error.message


# The command, with a cluster of its own.


def started(stream: Path, out: Path, cache: Path, *more: str) -> subprocess.Popen[str]:
    given = [sys.executable, "-W", "ignore", "-m", "pmn_cl.cli.main", "run", str(stream), "--out"]
    given += [str(out), "--cache", str(cache), "--checkpoint-every", "0", "--tracking", "off"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment.pop("RAY_ADDRESS", None)
    return subprocess.Popen(
        [*given, "--engine", "ray", *more],
        env=environment,
        start_new_session=True,  # Ctrl-C goes to all processes of a terminal
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_ctrl_c_stops_in_order_and_leaves_nothing_behind(
    place: Path, run: RunSpec, undisturbed: Result, cache: Path, tmp_path: Path
) -> None:
    driver = started(TINY, tmp_path, cache, "--strategy", "pmn", "--workers", "2")
    while len(list(tmp_path.glob(f"*/{CHECKPOINT}"))) < 2:
        assert driver.poll() is None
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    said, _ = driver.communicate()
    assert driver.returncode == INTERRUPTED, said
    assert "go on with: pmn-bench run" in said and "Traceback" not in said
    found = read_results(tmp_path)
    assert [result.status for result in found] == ["interrupted"] * 2
    assert len(list(tmp_path.glob(f"*/{CHECKPOINT}"))) == 2
    group = [p for p in Path("/proc").glob("[0-9]*") if _group(p) == driver.pid]
    assert group == []
    runs = plan_runs(load_spec(TINY), ["pmn"])
    expected = Driver(tmp_path / "undisturbed", workers=2, cache=cache).run(runs)
    again = Driver(tmp_path, workers=2, cache=cache).run(runs)
    assert what_matters(again) == what_matters(expected)


def _group(process: Path) -> int:
    try:
        return int((process / "stat").read_text("utf-8").rpartition(")")[2].split()[2])
    except OSError:
        return 0


def test_a_machine_without_what_is_asked_for_says_so(cache: Path, tmp_path: Path) -> None:
    driver = started(TINY, tmp_path, cache, "--strategy", "constant", "--gpus", "9")
    said, _ = driver.communicate()
    assert driver.returncode == 2, said
    assert "asks for 1 CPU and 9 GPU" in said and "this machine has no more to give" in said
    assert "Traceback" not in said
