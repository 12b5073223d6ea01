"""What README and documentation show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_streams import TINY, tiny_stream

from pmn_cl.cli.main import main
from pmn_cl.config.stream import load_spec
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs

ROOT = Path(__file__).parent.parent


def example(name: str) -> str:
    """The code that begins with the name of a file, the same wherever it is shown."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    blocks = [
        b for p in pages for b in re.findall(r"```python\n(.*?)```", p.read_text("utf-8"), re.S)
    ]
    [found] = {block for block in blocks if block.startswith(f"# {name}")}
    return str(found)


def test_a_method_of_ones_own_takes_at_most_forty_lines_and_runs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = example("my_method.py")
    assert len(code.splitlines()) <= 40
    named = re.search(r"(\{name.*\})", code)
    assert named is not None
    stream = tiny_stream(tmp_path, named[1], my_method=code)
    runs = plan_runs(load_spec(stream), (), [0])
    [pulled] = Driver(tmp_path / "out", cache=cache).run(runs)
    assert pulled.status == "completed", pulled.error
    assert pulled.options["strength"] == 0.1
    [plain] = Driver(tmp_path / "out", cache=cache).run(
        plan_runs(load_spec(TINY), ["hard_sharing"], [0])
    )
    assert pulled.weights[0] != plain.weights[0]  # the penalty is felt
    assert len(pulled.scores["test"]) == 3


def test_a_measure_of_ones_own_is_shown_by_compare(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = example("my_measures.py")
    named = re.search(r"(measures: \[.*\])", code)
    assert named is not None
    stream = tiny_stream(
        tmp_path, "hard_sharing", "hard_sharing_joint", "executor", my_measures=code
    )
    stream.write_text(f"{stream.read_text('utf-8')}{named[1]}\n", "utf-8")
    Driver(tmp_path / "out", cache=cache).run(plan_runs(load_spec(stream), (), [0]))
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["compare", "out", "--measures"], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "lowest task (↑)" in shown.output
    assert "lowest task: the lowest final score of any task" in shown.output
