"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import pmn_cl
from benchmarks.overview import print_overview
from benchmarks.stream import Stream
from pmn_cl import __version__, registry
from pmn_cl.cli import doctor
from pmn_cl.cli.doctor import Diagnosis
from pmn_cl.cli.main import main
from pmn_cl.config.stream import load_spec, shipped_streams
from pmn_cl.data.store import Store

HOME = Path(pmn_cl.__file__).parent.parent
HEAVY = ("torch", "mlflow", "avalanche", "pandas", "numpy", "matplotlib", "h5py", "pydantic")
TINY = {"train": 12, "val": 4, "test": 6, "novel": 5}
COMMANDS = [[], *([name] for name in main.commands), ["prepare", "digits"]]
STREAM = """\
name: tiny
world: {name: digits, scenes: {train: 12, val: 4, test: 6, novel: 5}}
tasks: [obj, att, {task: rel, calls: [obj]}, {task: cap, fraction: 50}, vqa]
strategies: [constant]
seeds: [0]
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each command in an empty folder, and leave the path as it was."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path / "default cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])


def run(*arguments: str | Path) -> Result:
    """Run a command in this process; nothing but an exit may escape from it."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*arguments: str | Path) -> str:
    """Run a command that must refuse its input, and return its message."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


def run_fresh(*arguments: str | Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command, or some code, in a process of its own."""
    start = ["-c", code] if code else ["-m", "pmn_cl.cli.main"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def prepare_tiny(cache: Path) -> list[str]:
    sizes = [text for split, count in TINY.items() for text in (f"--{split}", str(count))]
    return ["prepare", "digits", *sizes, "--cache", str(cache)]


@pytest.fixture(scope="module")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the tiny world is prepared already."""
    cache = tmp_path_factory.mktemp("tiny")
    assert run(*prepare_tiny(cache)).exit_code == 0
    return cache


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
        found = found.commands[name]
    assert found.help
    assert " ".join(found.help.split("\n\n")[0].split()) in " ".join(result.stdout.split())


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


def test_prepare_builds_once_and_then_checks(tmp_path: Path) -> None:
    first = run(*prepare_tiny(tmp_path / "cache"))
    assert first.exit_code == 0 and "building the world: 27 of 27" in first.stderr
    [path] = (tmp_path / "cache").iterdir()
    store = Store(path)
    size = f"{path.stat().st_size:,}"
    assert first.stdout == f"{path}\n{size} bytes, digest {store.digest}\n"
    assert store.header["options"]["scenes"] == TINY
    written = path.stat().st_mtime_ns
    again = run(*prepare_tiny(tmp_path / "cache"))
    assert again.exit_code == 0 and again.stdout == first.stdout
    assert "building" not in again.stderr and path.stat().st_mtime_ns == written


def test_prepare_with_other_options_is_another_store(tmp_path: Path, tiny_cache: Path) -> None:
    result = run(*prepare_tiny(tmp_path / "cache"), "--noise", "0.5", "--seed", "3")
    assert result.exit_code == 0
    [path] = (tmp_path / "cache").iterdir()
    assert path.name not in [known.name for known in tiny_cache.iterdir()]
    assert Store(path).header["options"]["noise"] == 0.5
    assert Store(path).header["options"]["seed"] == 3


def test_prepare_finds_a_damaged_store(tmp_path: Path, tiny_cache: Path) -> None:
    [source] = tiny_cache.glob("*.h5")
    path = tmp_path / source.name
    column = Store(source).table("train", "obj")["scene"]
    damaged = bytearray(source.read_bytes())
    assert column.offset is not None
    damaged[column.offset] ^= 1
    path.write_bytes(damaged)
    message = f"pmn-bench: {path}: does not match its digest; delete it and prepare again"
    assert refused(*prepare_tiny(tmp_path)).strip() == message
    path.write_bytes(damaged[:1000])
    assert f"{path}: not a readable store" in refused(*prepare_tiny(tmp_path))
    path.unlink()
    assert run(*prepare_tiny(tmp_path)).exit_code == 0


def test_prepare_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in refused(*prepare_tiny(tmp_path / "file"))
    message = refused(*prepare_tiny(tmp_path / "file/cache"))
    assert "could not be written" in message and "Not a directory" in message


def share_of_commonest_answer(store: Store) -> float:
    """Count how often the commonest answer of training is right on test."""
    answers = {
        split: [int(row[0]) for row in store.table(split, "vqa")["answers"].array]
        for split in ("train", "test")
    }
    counts = Counter(answers["train"])
    commonest = min(answer for answer in counts if counts[answer] == max(counts.values()))
    return answers["test"].count(commonest) / len(answers["test"])


def test_show(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tiny_cache)
    assert result.exit_code == 0 and result.stderr.strip() == ""
    head, *_ = result.stdout.splitlines()
    assert head.startswith("tiny: 5 tasks on the world digits")
    [path] = tiny_cache.glob("*.h5")
    store = Store(path)
    assert str(path) in result.stdout and store.digest[:12] in result.stdout
    rows = [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]
    tasks = {row[0]: row for row in rows if len(row) == 10 and row[0] in registry.TASKS}
    assert list(tasks) == ["obj", "att", "rel", "cap", "vqa"]
    expected = {"obj": ("0", "-"), "att": ("0", "-"), "rel": ("1", "obj"),
                "cap": ("1", "obj, att"), "vqa": ("3", "rel, obj, att, cap")}  # fmt: skip
    assert {name: (row[1], row[2]) for name, row in tasks.items()} == expected
    for name, row in tasks.items():
        sizes = [f"{len(store.table(s, name)['scene']):,}" for s in ("val", "test", "novel")]
        assert row[4:7] == sizes
        assert row[7] == registry.load(registry.TASKS[name]).metric
        assert all(float(value) >= 0 for value in row[8:10])
    assert tasks["vqa"][8] == f"{share_of_commonest_answer(store):.3f}"
    whole = len(store.table("train", "cap")["scene"])
    assert tasks["obj"][3] == f"{len(store.table('train', 'obj')['scene'])}"
    assert tasks["cap"][3] == f"{whole // 2}"
    assert ["(50%)"] in rows
    assert any(row[0] == "obj" and "=" in row[1] for row in rows)  # its prior


@pytest.mark.parametrize("columns", ["80", "200"])
def test_tables_lose_no_number_in_a_narrow_terminal(tiny_cache: Path, columns: str) -> None:
    big = {"train": 10_000, "test": 2_000}
    Path("tiny.yaml").write_text(STREAM)
    stream = Stream.open(load_spec("tiny.yaml"), 0, cache=tiny_cache)
    for experience in stream.tasks:  # as many digits as the default stream has
        for split, times in big.items():
            samples = experience.splits[split]
            experience.splits[split] = dataclasses.replace(
                samples, rows=np.resize(samples.rows, 10 * times)
            )
    console = Console(width=int(columns), file=io.StringIO(), force_terminal=False)
    print_overview(stream, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert printed.count("100,000") == printed.count("20,000") == 5
    assert max(map(len, printed.splitlines()[3:])) <= int(columns)


def test_show_builds_the_world_where_there_is_none(tmp_path: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tmp_path / "cache")
    assert result.exit_code == 0 and "building the world: 27 of 27" in result.stderr
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_show_draws_a_preview(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tiny_cache, "--preview", "some.png")
    assert result.exit_code == 0 and result.stdout.endswith("wrote some.png\n")
    content = Path("some.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n") and len(content) > 10_000


def test_preview_where_nothing_can_be_written(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    arguments = ["show", "tiny.yaml", "--cache", str(tiny_cache), "--preview"]
    assert "none/some.png" in refused(*arguments, "none/some.png")


def test_shipped_stream_is_found_and_that_is_said(
    tmp_path: Path, tiny_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped.yaml"
    shipped.write_text(STREAM)  # the real one would build 15,000 scenes
    monkeypatch.setattr("pmn_cl.config.stream.shipped_streams", lambda: {"shipped.yaml": shipped})
    for name in ("shipped.yaml", "shipped"):
        result = run("show", name, "--cache", tiny_cache)
        assert result.exit_code == 0
        assert result.stdout.startswith(
            f"{name}: no such file here, using the stream that comes with pmn-bench\ntiny: "
        )
    Path("shipped.yaml").write_text(STREAM.replace("name: tiny", "name: own"))
    assert run("show", "shipped.yaml", "--cache", tiny_cache).stdout.startswith("own: ")


def test_show_of_an_unknown_stream() -> None:
    message = refused("show", "steam.yaml")
    assert message.startswith("pmn-bench: steam.yaml: no such file, and no shipped stream")
    assert message.endswith("; did you mean 'stream.yaml'?\n")


@pytest.mark.parametrize("name", ["[bold]", "[/bold]", "a [/] b", "\\[x", ":smile: [red]x"])
def test_names_are_printed_as_they_are(tiny_cache: Path, name: str) -> None:
    Path("odd.yaml").write_text(STREAM.replace("name: tiny", f"name: {json.dumps(name)}"))
    result = run("show", "odd.yaml", "--cache", tiny_cache)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{name}: 5 tasks")


def test_mistakes_go_to_stderr_without_a_traceback() -> None:
    Path("bad.yaml").write_text(STREAM.replace("seeds: [0]", "seeds: [0, x]\nsede: 1"))
    result = run_fresh("show", "bad.yaml")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.splitlines() == [
        "pmn-bench: bad.yaml:5:12: seeds[1]: found 'x' (text), expected a whole number",
        "bad.yaml:6:1: sede: unknown key 'sede', expected one of name, world, tasks, fraction, "
        "budget, threads, strategies, seeds; did you mean 'seeds'?",
    ]


def test_defects_of_ours_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pmn_cl.config.stream.find_stream", broken)
    result = CliRunner().invoke(main, ["show", "stream.yaml"])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(("state", "code"), [("good", 0), ("note", 0), ("wrong", 1)])
def test_exit_code_of_doctor(monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    finding = Diagnosis("a thing", state, "as found", "do this")  # type: ignore[arg-type]
    monkeypatch.setattr(doctor, "examine", lambda folder: [finding])
    result = run("doctor")
    assert result.exit_code == code
    assert "as found" in result.stdout and "a thing: do this" in result.stdout


def test_doctor_on_this_machine() -> None:
    result = run_fresh("doctor")
    assert result.returncode in (0, 1), result.stderr
    assert "Traceback" not in result.stderr
    about = [re.split(r"  +", line)[1] for line in result.stdout.splitlines() if "  " in line]
    for thing in ("Python", "torch works", "Avalanche works", "cores", "cache", "MLflow store"):
        assert thing in about
    assert result.returncode == int("WRONG" in result.stdout)


@pytest.fixture(scope="module")
def kept_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with M_obj and an M_rel that calls it."""
    import torch

    from pmn_cl.modules.library import cards as library
    from pmn_cl.modules.relation import RelationModule
    from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape
    from pmn_cl.modules.task_module import ModulePlan
    from pmn_cl.modules.terminal import ObjectModule

    names = {"objects": ["a", "b"], "relations": ["left"], "directions": ["object", "subject"]}
    sizes = Sizes(hidden=4, attention=4, caption=4, word=4, terminal=3)
    plan = ModulePlan(WorldShape(5, names), sizes, Gates(), Departures())
    torch.manual_seed(0)
    obj = ObjectModule(plan, {})
    rel = RelationModule(plan, {"obj": obj})
    folder = tmp_path_factory.mktemp("library")
    for level, module in enumerate((obj, rel)):
        module.freeze()
        card = library.card_of(module, level=level, data="d" * 64, metric="accuracy", score=0.5)
        library.save(module, card, folder)
    return folder


def test_modules_are_listed_with_what_they_call(kept_modules: Path, tmp_path: Path) -> None:
    result = run("modules", "list", "--library", str(kept_modules))
    assert result.exit_code == 0
    title, obj, rel = result.stdout.splitlines()
    assert title.split() == ["module", "level", "calls", "validation", "regions", "learned", "from"]
    assert obj.split()[1:] == ["0", "-", "accuracy", "0.500", "5", "d" * 12]
    assert rel.split()[2] == obj.split()[0]  # the module called, by name and digest
    empty = run("modules", "list", "--library", str(tmp_path / "none"))
    assert empty.exit_code == 0 and empty.stdout.startswith("no modules in ")


def test_a_module_is_exported_with_what_it_calls_and_imported(
    kept_modules: Path, tmp_path: Path
) -> None:
    library = ("--library", str(kept_modules))
    out = tmp_path / "out"
    assert run("modules", "export", "rel", str(out), *library).exit_code == 0
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in kept_modules.iterdir())
    alone = run("modules", "export", "rel", str(tmp_path / "alone"), "--alone", *library)
    assert alone.exit_code == 0 and len(list((tmp_path / "alone").iterdir())) == 1
    result = run("modules", "import", str(out), "--library", str(tmp_path / "new"))
    assert result.exit_code == 0 and result.stdout.count("wrote ") == 2
    listed = [run("modules", "list", "--library", str(p)).stdout for p in (out, tmp_path / "new")]
    assert listed[0] == listed[1]


def test_modules_that_cannot_be_had_are_named(kept_modules: Path, tmp_path: Path) -> None:
    library = ("--library", str(kept_modules))
    result = run("modules", "export", "cat", str(tmp_path), *library)
    assert result.exit_code == 2 and "no module begins with 'cat'; there are obj-" in result.stderr
    [path] = kept_modules.glob("rel-*")
    spoilt = tmp_path / path.name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    spoilt.write_bytes(content)
    good = next(kept_modules.glob("obj-*"))
    new = tmp_path / "new"
    result = run("modules", "import", str(good), str(spoilt), "--library", str(new))
    assert result.exit_code == 2 and "do not match the card's digest" in result.stderr
    assert not new.exists()  # nothing is taken where one file is bad


def test_the_table_of_fairness_loses_no_name_in_brackets() -> None:
    result = run("list", "--fairness")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert set(registry.STRATEGIES) <= set(lines)
    assert "[b, r] of cnt's relational questions" in lines["pmn"]
    assert "strength" in lines["ewc"] and "builds on" in lines["agem"]
    assert "builds on" not in lines["constant"]
