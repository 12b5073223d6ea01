"""Importing Avalanche beside any torch; fresh processes, since an import happens only once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pmn_cl

HOME = Path(pmn_cl.__file__).parent.parent


def run(code: str, *before: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that looks for modules in these folders first."""
    path = os.pathsep.join(map(str, [*before, HOME]))
    return subprocess.run(
        [sys.executable, "-c", dedent(code)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_avalanche_can_be_imported_here() -> None:
    code = """
        import sys, warnings
        from pmn_cl.strategy.avalanche import import_avalanche, import_torchvision
        from pmn_cl.strategy.avalanche import operators_are_declared
        filters = list(warnings.filters)
        avalanche = import_avalanche()
        from avalanche.benchmarks import CLScenario
        assert avalanche is sys.modules["avalanche"]
        assert import_torchvision() is sys.modules["torchvision"]  # a second time is no harm
        import torch
        assert "nms" in dir(sys.modules["torchvision"].ops)
        torch.ops.torchvision.nms  # there, compiled or declared
        print(CLScenario.__name__, operators_are_declared())
        """
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[0] == "CLScenario"


def test_nothing_is_touched_where_torchvision_imports(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("works = True\n")
    code = """
        import sys
        from pmn_cl.strategy.avalanche import import_torchvision, operators_are_declared
        assert import_torchvision().works
        assert not operators_are_declared()
        assert "torch" not in sys.modules
        """
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr


def test_missing_operators_are_declared_and_the_import_repeated(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "part.py").write_text("")
    (package / "__init__.py").write_text(
        dedent(
            """
            import torch
            import torchvision.part
            try:
                torch.ops.torchvision.nms
            except AttributeError:
                raise RuntimeError("operator torchvision::nms does not exist") from None
            part_is_new = torchvision.part
            """
        )
    )
    code = """
        import sys
        from pmn_cl.strategy.avalanche import import_torchvision, operators_are_declared
        module = import_torchvision()
        assert operators_are_declared()
        assert module is sys.modules["torchvision"]
        assert module.part_is_new is sys.modules["torchvision.part"]
        """
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr


def test_another_error_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('the disk is on fire')\n")
    code = """
        import sys
        from pmn_cl.strategy.avalanche import import_torchvision, operators_are_declared
        try:
            import_torchvision()
        except RuntimeError as error:
            print(error)
        assert not operators_are_declared()
        assert "torch" not in sys.modules
        """
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "the disk is on fire"
