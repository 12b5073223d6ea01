"""Digests of the code: any change of what may decide a weight shows, and nothing else does."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from pmn_cl import provenance
from pmn_cl.modules.terminal import ObjectModule

PACKAGES = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a file in each package."""
    for package in PACKAGES:
        (tmp_path / package / "room").mkdir(parents=True)
        (tmp_path / package / "room" / "part.py").write_text("x = 1\n")
    return tmp_path


def digest(code: Path, tmp: str = "copy") -> str:
    """Digest a copy, as another process would: one process digests a folder once."""
    copied = code.parent / f"{code.name}-{tmp}"
    shutil.copytree(code, copied)
    found = provenance.own_code_digest(copied)
    shutil.rmtree(copied)
    return found


@pytest.mark.parametrize("package", PACKAGES[:4])
def test_two_different_changes_have_two_digests(code: Path, package: str) -> None:
    found = {digest(code, "first")}
    for number, text in enumerate(("x = 2\n", "x = 3\n")):
        (code / package / "room" / "part.py").write_text(text)
        found.add(digest(code, f"change{number}"))
    assert len(found) == 3


def test_a_file_that_moves_is_a_change(code: Path) -> None:
    before = digest(code, "before")
    (code / "strategies" / "room" / "part.py").rename(code / "strategies" / "part.py")
    assert digest(code, "after") != before


def test_what_decides_no_weight_does_not_count(code: Path) -> None:
    before = digest(code, "before")
    (code / "reports" / "room" / "part.py").write_text("x = 2\n")
    for folder in ("benchmarks/speed", "benchmarks/reference", "tests"):
        (code / folder).mkdir()
        (code / folder / "part.py").write_text("x = 2\n")
    (code / "pmn_cl" / "__pycache__").mkdir()
    (code / "pmn_cl" / "__pycache__" / "part.pyc").write_bytes(b"x")
    assert digest(code, "after") == before


def test_the_code_of_a_users_own_class_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "my_module_of_objects.py"
    head = "from pmn_cl.modules.terminal import ObjectModule\n"
    found = {provenance.code_digest(), provenance.code_digest(dict)}
    assert len(found) == 1
    for change in ("pass", "wide = True"):
        path.write_text(f"{head}class Mine(ObjectModule):\n    {change}\n")
        importlib.invalidate_caches()
        mine = importlib.import_module("my_module_of_objects").Mine
        assert issubclass(mine, ObjectModule)
        found.add(provenance.code_digest(mine))
    monkeypatch.delitem(sys.modules, "my_module_of_objects")
    assert len(found) == 3
