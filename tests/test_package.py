"""The wheel is whole: what a user installs works far away from a clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tiny_streams import TINY

import pmn_cl

ROOT = Path(__file__).parent.parent
PACKAGES = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def called(*command: str | Path, place: Path) -> str:
    """Call a program in a folder, with nothing of this process's path."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = [str(word) for word in command]
    done = subprocess.run(given, cwd=place, env=others, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel; all that it needs comes from the one that tests run in."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    called(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", place, source, place=place)
    shutil.rmtree(source)
    venv.create(place / "env")
    python = place / "env" / "bin" / "python"
    site = called(python, "-c", "import site; print(site.getsitepackages()[0])", place=place)
    # A path in a .pth file is no place where further .pth files are read: not our editable install.
    (Path(site.strip()) / "needed.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    [wheel] = place.glob("pmn_cl-*.whl")
    called(*pip, "--python", python, "install", "--no-deps", wheel, place=place)
    return place


def test_nothing_of_the_clone_is_used(installed: Path) -> None:
    python = installed / "env" / "bin" / "python"
    for name in PACKAGES:
        said = called(python, "-c", f"import {name}; print(*{name}.__path__)", place=installed)
        [there] = said.split()
        assert Path(there).is_relative_to(installed / "env")
        assert (Path(there) / "py.typed").exists()


def test_commands_work_from_a_wheel(installed: Path, cache: Path) -> None:
    program = installed / "env" / "bin" / "pmn-bench"
    assert "batch size" in called(program, "list", "--fairness", place=installed)
    shutil.copy(TINY, installed / "tiny.yaml")
    assert "cnt" in called(program, "show", "tiny.yaml", "--cache", cache, place=installed)
    learned = ["run", "tiny.yaml", "--seed", "0", "--out", "out", "--cache", cache]
    said = called(program, *learned, "--tracking", "off", place=installed)
    assert "[3/3]" in said and "pmn-bench report out" in said
    assert "lack data" in called(program, "claims", "out", place=installed)
    called(program, "report", "out", place=installed)
    assert "<html" in (installed / "out" / "report.html").read_text("utf-8")


def test_every_stream_is_in_the_wheel(installed: Path) -> None:
    [there] = installed.glob("env/lib/*/site-packages/benchmarks/streams")
    shipped = ROOT / "benchmarks" / "streams"
    assert {p.name for p in there.iterdir()} == {p.name for p in shipped.iterdir()}


def test_the_citation_is_of_this_version() -> None:
    cited = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert cited["version"] == pmn_cl.__version__
