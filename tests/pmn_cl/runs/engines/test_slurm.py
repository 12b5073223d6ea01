"""Runs as a Slurm array: the script does what the driver does, one run an index.

Slurm itself is not needed: what it would do is call the script with an index, send SIGTERM when
the time is up, and call it again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_streams import tiny_stream

from pmn_cl.cli.main import main
from pmn_cl.config.spec import RunSpec
from pmn_cl.config.stream import load_spec, shipped_streams
from pmn_cl.errors import UserError
from pmn_cl.files import held
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.results.result import Result, read_result, read_results
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.engines.slurm import Array, one_run, write_array
from pmn_cl.runs.journal import read_journal
from pmn_cl.runs.plan import plan_runs
from pmn_cl.runs.worker import Terms

TIRED = """
import os, signal
from pathlib import Path
from baselines.hard_sharing import HardSharing

class Tired(HardSharing):
    def prepare(self, experience):
        super().prepare(experience)
        time_is_up = Path(__file__).with_name("time_is_up")
        if experience.task.name == "att" and time_is_up.exists():
            os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place with a space")
    return tiny_stream(folder, '"tired:Tired"', "constant", tired=TIRED).parent


@pytest.fixture(scope="module")
def runs(place: Path) -> list[RunSpec]:
    return plan_runs(load_spec(place / "stream.yaml"), (), [0])


@pytest.fixture(scope="module")
def script(place: Path, cache: Path) -> Path:
    """The script as the command writes it, for two runs into ``place / "out"``."""
    given = ["plan", str(place / "stream.yaml"), "--seed", "0", "--out", str(place / "out")]
    given += ["--slurm", str(place / "job.sbatch"), "--workers", "1", "--cache", str(cache)]
    told = CliRunner().invoke(main, [*given, "--checkpoint-every", "0"])
    assert told.exit_code == 0, told.output
    assert f"sbatch {place / 'job.sbatch'}" in told.output
    return place / "job.sbatch"


def started(script: Path, index: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        ["bash", str(script)],
        env={**os.environ, "PYTHONPATH": path, "SLURM_ARRAY_TASK_ID": str(index)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def what_matters(results: list[Result]) -> list[Any]:
    return [(r.key, r.status, r.scores, r.weights, r.parameters, r.validation) for r in results]


def test_the_listing_names_every_run(place: Path, runs: list[RunSpec]) -> None:
    given = ["plan", str(place / "stream.yaml"), "--seed", "0"]
    told = CliRunner().invoke(main, given).output.splitlines()
    found = [line.split() for line in told[1:]]
    assert found == [
        ["0", runs[0].key, "tired:Tired", "0", "100%"],
        ["1", runs[1].key, "constant", "0", "100%"],
    ]


def test_what_slurm_is_asked_for(script: Path, place: Path, runs: list[RunSpec]) -> None:
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", script.read_text("utf-8"), re.MULTILINE))
    assert asked["array"] == "0-1%1"
    assert asked["cpus-per-task"] == "1"
    assert asked["signal"] == "B:TERM@60" and "requeue" in asked and "gpus" not in asked
    assert asked["output"] == f"'{place / 'out' / 'slurm' / '%A_%a.txt'}'"
    assert (place / "out" / "slurm").is_dir()  # else Slurm would not start
    threads = [load_spec(place / "stream.yaml").model_copy(update={"threads": n}) for n in (2, 3)]
    wide = [run for spec in threads for run in plan_runs(spec, ["constant"], [0])]
    array = Array("wide", wide, place / "other")
    write_array(array, place / "wide.sh", Terms(), modules=place, limit=None, gpus=2)
    text = (place / "wide.sh").read_text("utf-8")
    assert "--array=0-1\n" in text and "--cpus-per-task=3\n" in text and "--gpus=2\n" in text


def test_the_array_does_what_the_driver_does(
    script: Path, place: Path, runs: list[RunSpec], cache: Path, tmp_path: Path
) -> None:
    """Both at the same time, and one runs out of time on the way."""
    (place / "time_is_up").touch()
    tired, constant = (started(script, index) for index in (0, 1))
    said = [job.communicate()[0] for job in (tired, constant)]
    assert (tired.returncode, constant.returncode) == (1, 0), said
    assert f"{runs[0].key}: interrupted" in said[0] and f"{runs[1].key}: completed" in said[1]
    (place / "time_is_up").unlink()
    again = [started(script, index) for index in (0, 1)]
    said = [job.communicate()[0] for job in again]
    assert [job.returncode for job in again] == [0, 0], said
    events = [e["event"] for e in read_journal(place / "out" / runs[0].key / JOURNAL)]
    assert events.count("interrupted") == 1 and events.count("experience") == 3  # it went on
    assert events[-1] == "completed"
    found = [read_result(place / "out" / run.key / RESULT) for run in runs]
    assert what_matters(found) == what_matters(Driver(tmp_path, cache=cache).run(runs))
    assert len(read_results(place / "out")) == 2
    # And the driver has nothing left to do.
    before = {path: path.stat().st_mtime_ns for path in (place / "out").glob("*/[!.]*")}
    assert Driver(place / "out", cache=cache).run(runs) == found
    assert {path: path.stat().st_mtime_ns for path in (place / "out").glob("*/[!.]*")} == before


def test_a_run_that_somebody_holds_is_left_alone(
    script: Path, place: Path, runs: list[RunSpec]
) -> None:
    folder = place / "out" / runs[1].key
    folder.mkdir(exist_ok=True)
    job = "import sys; from pathlib import Path; from pmn_cl.runs.engines.slurm import one_run; "
    job += "one_run(Path(sys.argv[1]), 1, patience=0.1)"
    path = os.pathsep.join(p for p in sys.path if p)
    with held(folder, "this run"):
        done = subprocess.run(
            [sys.executable, "-c", job, str(script.with_suffix(".json"))],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert f"this run is in use by process {os.getpid()} on" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stream", sorted(shipped_streams()))
def test_a_run_is_the_same_after_it_was_written_down(stream: str, tmp_path: Path) -> None:
    from pmn_cl.runs.engines import slurm

    spec = load_spec(shipped_streams()[stream])
    for run in plan_runs(spec):
        written = json.loads(json.dumps(slurm._described(run)))
        assert slurm._run(tmp_path, written) == run


def test_a_plan_that_is_none_is_refused(script: Path, tmp_path: Path) -> None:
    path = script.with_suffix(".json")
    with pytest.raises(UserError, match="no run 2, it has 0 to 1"):
        one_run(path, 2)
    plan = json.loads(path.read_text("utf-8"))
    plan["runs"][1]["run"]["seed"] = 5
    (tmp_path / "changed.json").write_text(json.dumps(plan), "utf-8")
    with pytest.raises(UserError, match=r"has constant-seed0-\w+, which is now constant-seed5-"):
        one_run(tmp_path / "changed.json", 1)
    (tmp_path / "other.json").write_text(json.dumps({**plan, "version": 1}), "utf-8")
    (tmp_path / "broken.json").write_text("{", "utf-8")
    for name in ("other.json", "broken.json"):
        with pytest.raises(UserError, match=f"{name}: is no plan of version 2"):
            one_run(tmp_path / name, 0)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        one_run(tmp_path / "none.json", 0)
    with pytest.raises(UserError, match="expected the name of a script"):
        write_array(
            Array("tiny", [], tmp_path),
            tmp_path / "job.json",
            Terms(),
            modules=tmp_path,
            limit=None,
            gpus=0,
        )
