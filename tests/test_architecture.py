"""The direction of imports, and what may not be imported where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pmn_cl

ROOT = Path(pmn_cl.__file__).parent.parent
OURS = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")
# What reads and judges results, or explanations that were written down; none of it needs torch.
ABOUT_RESULTS = (
    *("results", "scores", "statistics", "comparing", "meaning", "fairness", "tuning"),
    *("ablation", "sweeping", "claims", "judging", "claiming"),
    *(f"explaining.{name}" for name in ("record", "sentence", "faithfulness", "measures")),
    *("__version__", "errors", "files", "journal", "registry"),
)
# What each package may import of the others; everything reaches the rest by "package.module:Name".
ALLOWED = {
    "pmn_cl": set(),
    "benchmarks": {"pmn_cl"},
    "strategies": {"pmn_cl"},
    "baselines": {"pmn_cl", "strategies.loop", "strategies.loaders"},
    "reports": {f"pmn_cl.{name}" for name in ABOUT_RESULTS},
}
FILES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))
COMMAND_LINE = ROOT / "pmn_cl" / "commands"  # everything stands below it


def imports(source: str) -> Iterator[str]:
    """Every module named by an import statement, wherever it stands in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden(package: str, source: str) -> list[str]:
    found = []
    for name in imports(source):
        other = name.split(".")[0]
        allowed = any(name == a or name.startswith(f"{a}.") for a in ALLOWED[package])
        if other in OURS and other != package and not allowed:
            found.append(name)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert forbidden(package, path.read_text("utf-8")) == []


def test_the_check_itself_finds_what_is_forbidden() -> None:
    assert forbidden("pmn_cl", "import benchmarks.stream") == ["benchmarks.stream"]
    assert forbidden("pmn_cl", "def f():\n    from strategies import pmn") == ["strategies.pmn"]
    assert forbidden("baselines", "from strategies.loop import X") == []
    assert forbidden("baselines", "from strategies.pmn import X") == ["strategies.pmn.X"]
    assert forbidden("reports", "from pmn_cl.data.loader import X") == ["pmn_cl.data.loader.X"]
    assert forbidden("reports", "from pmn_cl.results.scores import X") == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_command_line_imports_commands(path: Path) -> None:
    if path.parent != COMMAND_LINE and path != COMMAND_LINE.with_name("cli.py"):
        assert not [n for n in imports(path.read_text("utf-8")) if "pmn_cl.cli" in n]


@pytest.mark.parametrize(
    "module",
    [
        *("reports.page", "reports.explanation", "reports.human_eval"),
        *(
            "pmn_cl.results.scores",
            "pmn_cl.tasks.metrics",
            "pmn_cl.config.stream",
            "benchmarks.overview",
        ),
    ],
)
def test_reading_and_reporting_need_no_torch(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"torch", "avalanche", "mlflow", "pandas"} & set(run.stdout.split())


def test_no_package_of_ours_imports_each_other_in_a_circle() -> None:
    depends = {
        package: {
            name.split(".")[0]
            for path in (ROOT / package).rglob("*.py")
            for name in imports(path.read_text("utf-8"))
            if name.split(".")[0] in OURS and name.split(".")[0] != package
        }
        for package in OURS
    }
    remaining = dict(depends)
    while remaining:
        leaves = [p for p, others in remaining.items() if not others & remaining.keys()]
        assert leaves, f"a circle among {sorted(remaining)}"
        for leaf in leaves:
            del remaining[leaf]
