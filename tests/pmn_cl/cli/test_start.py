"""The first commands: `doctor`, `init`, `list`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import refused, run

from pmn_cl import registry
from pmn_cl.cli import doctor
from pmn_cl.cli.doctor import Diagnosis
from pmn_cl.config.stream import load_spec, shipped_streams


@pytest.mark.parametrize(("state", "code"), [("good", 0), ("note", 0), ("wrong", 1)])
def test_exit_code_of_doctor(monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    finding = Diagnosis("a thing", state, "as found", "do this")  # type: ignore[arg-type]
    monkeypatch.setattr(doctor, "examine", lambda folder: [finding])
    result = run("doctor")
    assert result.exit_code == code
    assert "as found" in result.stdout and "a thing: do this" in result.stdout


def test_doctor_on_this_machine() -> None:
    result = run("doctor")
    assert result.exit_code in (0, 1), result.stderr
    about = [re.split(r"  +", line)[1] for line in result.stdout.splitlines() if "  " in line]
    for thing in ("Python", "torch works", "Avalanche works", "cores", "cache", "MLflow store"):
        assert thing in about
    assert result.exit_code == int("WRONG" in result.stdout)


def test_init_writes_a_stream_that_is_accepted() -> None:
    result = run("init")
    assert result.exit_code == 0
    assert result.stdout == "wrote stream.yaml; next: pmn-bench show stream.yaml\n"
    assert load_spec(Path("stream.yaml")) == load_spec(shipped_streams()["stream.yaml"])


def test_init_overwrites_only_when_told() -> None:
    Path("mine.yaml").write_text("precious")
    message = refused("init", "mine.yaml")
    assert message == "pmn-bench: mine.yaml: is there already; --force overwrites it\n"
    assert Path("mine.yaml").read_text() == "precious"
    assert run("init", "mine.yaml", "--force").exit_code == 0
    assert load_spec(Path("mine.yaml")).name == "digits"


def test_init_where_nothing_can_be_written() -> None:
    assert refused("init", "none/mine.yaml") == (
        "pmn-bench: none/mine.yaml: cannot be written: No such file or directory\n"
    )
    Path("file").touch()
    assert "cannot be written: Not a directory" in refused("init", "file/mine.yaml")
    assert "is a directory" in refused("init", ".")


def test_list_names_everything_in_a_line_each() -> None:
    result = run("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    known = {**registry.STRATEGIES, **registry.TASKS, **registry.WORLDS}
    for name, reference in known.items():
        [at] = [i for i, line in enumerate(lines) if line.startswith(f"  {name} ")]
        summary = registry.STRATEGY_SUMMARIES.get(name) or registry.load(reference).summary
        assert lines[at].endswith(summary) and lines[at + 1].strip() == reference
        assert summary and "\n" not in summary
    for name, path in shipped_streams().items():
        assert any(line.split() == [name, str(path)] for line in lines)
    assert [line for line in lines if line in ("strategies", "tasks", "worlds", "streams")] == [
        "strategies",
        "tasks",
        "worlds",
        "streams",
    ]


def test_the_table_of_fairness_loses_no_name_in_brackets() -> None:
    result = run("list", "--fairness")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert set(registry.STRATEGIES) <= set(lines)
    assert "[b, r] of cnt's relational questions" in lines["pmn"]
    assert "`supervise: [cnt]`" in lines["pnn"] and "supervise" not in lines["independent"]
