"""What `pmn-bench doctor` finds on machines that are not as they should be."""

from __future__ import annotations

import importlib
import io
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from pmn_cl.cli import doctor
from pmn_cl.cli.doctor import Diagnosis


@pytest.fixture
def path_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that can be put on the path, and that is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "site"
    folder.mkdir()
    yield folder
    importlib.invalidate_caches()


def install(folder: Path, name: str, version: str, files: str = "", needs: str = "") -> None:
    """Make a folder on the path look as if pip had installed this distribution there."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    required = "".join(f"Requires-Dist: {line}\n" for line in needs.splitlines())
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}"
    (info / "METADATA").write_text(metadata)
    (info / "RECORD").write_text("".join(f"{line},,\n" for line in files.splitlines()))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def shadows(folder: Path) -> list[Diagnosis]:
    return list(doctor._shadows(folder))


def tracking(folder: Path) -> Diagnosis:
    [finding] = doctor._tracking(folder)
    return finding


def test_nothing_shadows_our_packages_here(tmp_path: Path) -> None:
    [finding] = shadows(tmp_path)
    assert finding.state == "good" and "benchmarks" in finding.found


@pytest.mark.parametrize("name", ["benchmarks", "reports"])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_something_named_like_a_package_of_ours(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / f"{name}.py").touch()
    [finding] = shadows(tmp_path)
    assert finding.state == "note"
    assert finding.found == f"{tmp_path} has something named {name}, like our package"
    assert "rename" in finding.advice


def test_other_package_that_is_taken_for_ours(
    tmp_path: Path, path_entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path_entry / "reports").mkdir()
    (path_entry / "reports/__init__.py").touch()
    for name in [n for n in sys.modules if n.split(".")[0] == "reports"]:
        monkeypatch.delitem(sys.modules, name)
    sys.path.insert(0, str(path_entry))
    importlib.invalidate_caches()
    wrong = [f for f in shadows(tmp_path) if f.state == "wrong"]
    assert [f.found.split(", not ")[0] for f in wrong] == [
        f"reports is taken from {path_entry / 'reports'}"
    ]
    assert "rename or uninstall" in wrong[0].advice


def test_other_distribution_with_a_package_of_our_name(tmp_path: Path, path_entry: Path) -> None:
    install(path_entry, "rival", "1.0", files="benchmarks/__init__.py\nrival.py")
    wrong = [f for f in shadows(tmp_path) if f.state == "wrong"]
    assert [f.found for f in wrong] == [
        "the distribution 'rival' also installs a package named benchmarks"
    ]
    assert wrong[0].advice == "pip uninstall rival"


def test_requirements_are_compared_with_what_is_installed(path_entry: Path) -> None:
    needs = (
        "old-thing>=2\nnew-thing>=2\nno-such-thing-at-all>=1\n"
        'never; python_version < "3"\nextra-thing; extra == "test"'
    )
    install(path_entry, "pmn-cl", "9.9", needs=needs)
    install(path_entry, "old-thing", "1.5")
    install(path_entry, "new-thing", "2.0rc1")
    found = {f.about: f for f in doctor._versions()}
    assert list(found) == ["pmn-cl", "old-thing", "new-thing", "no-such-thing-at-all"]
    assert found["pmn-cl"].found == "9.9" and found["pmn-cl"].state == "good"
    assert found["old-thing"].state == "wrong"
    assert found["old-thing"].found == "1.5, expected >=2"
    assert found["old-thing"].advice == "pip install -c constraints.txt 'old-thing>=2'"
    assert found["new-thing"].state == "wrong"  # a release candidate of 2 comes before 2
    assert found["no-such-thing-at-all"].found == "not installed"
    assert "pip install" in found["no-such-thing-at-all"].advice


def test_not_installed_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISTRIBUTION", "pmn-cl-that-nobody-has")
    [finding] = doctor._versions()
    assert finding.state == "wrong" and finding.found == "not installed"
    assert "pip install -e ." in finding.advice


def test_default_tracking_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking(tmp_path).state == "good"


@pytest.mark.parametrize("uri", ["mlruns", "./mlruns", "/data/mlruns", "file:///data/mlruns"])
def test_folder_as_tracking_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    finding = tracking(tmp_path)
    assert finding.state == "wrong" and finding.found == f"{uri} is a folder of files"
    assert "sqlite:///" in finding.advice


def test_tracking_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert tracking(tmp_path) == Diagnosis("MLflow store", "good", f"{uri} answers")
    finding = tracking(tmp_path)  # now nobody listens there
    assert finding.state == "wrong" and "refused" in finding.found
    assert "start the server" in finding.advice


@pytest.mark.parametrize(
    ("uri", "state"),
    [
        ("sqlite:///mlflow.db", "good"),
        ("sqlite:///here/mlflow.db", "good"),
        ("sqlite:///not_here/mlflow.db", "wrong"),
        ("sqlite:///{folder}/here/mlflow.db", "good"),
        ("sqlite:///{folder}/not_here/mlflow.db", "wrong"),
        ("postgresql://host/runs", "note"),
    ],
)
def test_database_as_tracking_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, state: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(folder=tmp_path))
    finding = tracking(tmp_path)
    assert finding.state == state
    assert bool(finding.advice) == (state == "wrong")


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path / "new/cache"))
    cache, folder = doctor._folders(tmp_path)
    assert cache.about == "cache" and folder.about == "working folder"
    assert cache.state != "wrong" and folder.state != "wrong"
    assert "can be written" in cache.found and list((tmp_path / "new/cache").iterdir()) == []


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path / "file/cache"))
    cache, folder = doctor._folders(tmp_path)
    assert cache.state == "wrong" and cache.found == f"{tmp_path / 'file/cache'}: Not a directory"
    assert "PMN_BENCH_CACHE" in cache.advice
    assert folder.state != "wrong"


def test_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMN_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "_NEEDED_DISK", float("inf"))
    assert [(f.state, f.advice) for f in doctor._folders(tmp_path)] == [("note", "free some")] * 2


def test_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_NEEDED_MEMORY", float("inf"))
    cores, memory = doctor._machine()
    assert int(cores.found) >= 1
    assert memory.state == "note" and "fewer scenes" in memory.advice


def test_torch_and_avalanche_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    [torch] = doctor._torch()
    assert torch.state == "wrong" and "cannot be imported" in torch.found

    def broken() -> None:
        raise RuntimeError("operators of another build")

    monkeypatch.setattr("pmn_cl.strategy.avalanche.import_avalanche", broken)
    [avalanche] = doctor._avalanche()
    assert avalanche.state == "wrong" and "operators of another build" in avalanche.found
    assert "matching versions" in avalanche.advice


def test_findings_are_printed_with_their_advice() -> None:
    console = Console(width=200, file=io.StringIO())
    findings = [
        Diagnosis("one", "good", "as it should be"),
        Diagnosis("two", "note", "so so"),
        Diagnosis("three", "wrong", "broken", "mend it"),
    ]
    doctor.print_findings(findings, console)
    assert isinstance(console.file, io.StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines() if line.strip()]
    assert lines == [
        ["good", "one", "as", "it", "should", "be"],
        ["note", "two", "so", "so"],
        ["WRONG", "three", "broken"],
        ["three:", "mend", "it"],
        ["not", "ready:", "1", "wrong", "(three)"],
    ]


def test_it_ends_with_a_verdict() -> None:
    def last_line(*findings: Diagnosis) -> str:
        said = io.StringIO()
        doctor.print_findings(list(findings), Console(file=said, width=100))
        return said.getvalue().splitlines()[-1]

    good, note = Diagnosis("a", "good", "1"), Diagnosis("b", "note", "2", "do more")
    assert last_line(good, note) == "ready: pmn-bench run quick.yaml"
    bad = Diagnosis("c", "wrong", "3")
    assert last_line(good, bad, bad) == "not ready: 2 wrong (c)"
