"""The command line as a function: from a script without a guard, as objects and as frames."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_streams import TINY

import pmn_cl

SCRIPT = """
import sys
import pmn_cl
assert not {{"torch", "pydantic", "pandas", "rich"}} & sys.modules.keys()  # nothing heavy
print("once")  # a run that ran this script again would say it again
found = pmn_cl.run({stream!r}, strategies=["constant", "pmn"], seeds=[0], out={out!r},
                   cache={cache!r}, tracking="off", quiet=True)
print(found, [result.status for result in found])
"""


@pytest.fixture(scope="module")
def results(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> pmn_cl.Results:
    place = tmp_path_factory.mktemp("notebook")
    script = place / "script.py"
    given = {"stream": str(TINY), "out": str(place / "out"), "cache": str(cache)}
    script.write_text(SCRIPT.format(**given), "utf-8")
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "once",
        f"<2 results in {place / 'out'}> ['completed', 'completed']",
    ]
    return pmn_cl.Results.read(place / "out")


def test_a_row_for_each_run(results: pmn_cl.Results) -> None:
    frame = results.runs().set_index("strategy")
    assert list(frame.index) == ["constant", "pmn"]
    for result in results:
        row = frame.loc[result.strategy]
        assert row["average"] == result.summary()["average"]
        assert [row[task] for task in result.tasks] == result.scores["test"][-1]
        assert row["parameters"] == result.parameters["total"][-1]
    novel = results.runs("novel").set_index("strategy")
    assert novel.loc["pmn", "cnt"] == results[1].scores["novel"][-1][2]


def test_a_row_for_each_score(results: pmn_cl.Results) -> None:
    frame = results.scores()
    assert len(frame) == 2 * 2 * (1 + 2 + 3)  # runs, splits, a triangle of scores
    where = (frame.strategy == "pmn") & (frame.split == "test")
    found = frame[where & (frame.after == "cnt") & (frame.task == "obj")]
    assert list(found.score) == [results[1].scores["test"][2][0]]
