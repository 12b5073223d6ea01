"""The command line as a whole: its help, its mistakes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import STREAM, refused, run, run_fresh

from pmn_cl import __version__
from pmn_cl.cli.main import main

HEAVY = ("torch", "mlflow", "avalanche", "pandas", "numpy", "matplotlib", "h5py", "pydantic")
COMMANDS = [[], *([name] for name in main.commands), ["prepare", "digits"]]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import atexit, json, sys; from pmn_cl.cli.main import main; "
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr)); main()"
    )
    result = run_fresh("--help", code=code)
    assert result.returncode == 0 and "First steps" in result.stdout
    modules = json.loads(result.stderr)
    assert "pmn_cl.cli.main" in modules
    assert not {name.split(".")[0] for name in modules} & set(HEAVY)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(command: list[str], flag: str) -> None:
    result = run(*command, flag)
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.startswith("Usage: ")
    found: click.Command = main
    for name in command:
        assert isinstance(found, click.Group)
        found = found.commands[name].make_context(name, [], resilient_parsing=True).command
    assert found.help
    assert " ".join(found.help.split("\n\n")[0].split()) in " ".join(result.stdout.split())


def test_every_command_is_listed_once_by_what_one_wants_to_do() -> None:
    help = run("--help").stdout
    listed = help[help.index("Start:") :].splitlines()
    for name in main.commands:
        lines = [line for line in listed if line.split() and line.split()[0] == name]
        assert len(lines) == (name != "one-run"), name


def test_version() -> None:
    assert run("--version").stdout == f"pmn-bench, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shwo"], "No such command 'shwo'"),
        (["show"], "Missing argument 'STREAM'"),
        (["show", "stream.yaml", "--sed", "1"], "No such option"),
        (["show", "stream.yaml", "--seed", "-1"], "-1 is not in the range 0<=x"),
        (["prepare", "digits", "--train", "0"], "0 is not in the range x>=1"),
        (["prepare", "digits", "--noise", "much"], "'much' is not a valid float"),
        (["prepare", "digits", "--noise", "nan"], "--noise is nan, expected a finite number"),
        (["prepare", "digits", "--noise", "inf"], "--noise is inf, expected a finite number"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str) -> None:
    assert words in refused(*arguments)


def test_mistakes_go_to_stderr_without_a_traceback() -> None:
    Path("bad.yaml").write_text(STREAM.replace("seeds: [0]", "seeds: [0, x]\nsede: 1"))
    result = run_fresh("show", "bad.yaml")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.splitlines() == [
        "pmn-bench: bad.yaml:5:12: seeds[1]: found 'x' (text), expected a whole number",
        "bad.yaml:6:1: sede: unknown key 'sede', expected one of name, world, tasks, fraction, "
        "budget, threads, evaluate_every, primary, measures, strategies, seeds, splits, orders, "
        "tuned; did you mean 'seeds'?",
    ]


@pytest.mark.parametrize("command", ["run", "ablate", "sweep"])
def test_claims_that_are_none_are_refused_before_anything_is_learned(command: str) -> None:
    Path("named.yaml").write_text(f"{STREAM}\nprimary: [no forgetting, vqa over bas]\n")
    said = refused(command, "named.yaml", "--dry-run")
    assert "primary: no claim 'vqa over bas'" in said and "did you mean 'vqa over base'?" in said


def test_defects_of_ours_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pmn_cl.config.stream.find_stream", broken)
    result = CliRunner().invoke(main, ["show", "stream.yaml"])
    assert isinstance(result.exception, ZeroDivisionError)
