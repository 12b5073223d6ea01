"""The rooms of the house: which may import which, how full they are, and what is never imported."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pmn_cl

ROOT = Path(pmn_cl.__file__).parent.parent
OURS = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")
FILES = sorted(
    path for package in OURS for path in (ROOT / package).rglob("*.py") if "speed" not in path.parts
)

# Each room with those that it imports, lazily or not. A room imports rooms above it in this table
# and no others, so that there is no way round in a circle. What is left of `pmn_cl` is its base:
# errors, files, registry, progress, provenance, console.
BASE = "pmn_cl"
ROOMS: dict[str, set[str]] = {
    BASE: set(),
    "pmn_cl.tasks": set(),
    "pmn_cl.data": {BASE, "pmn_cl.tasks"},
    "pmn_cl.strategy": {BASE, "pmn_cl.tasks", "pmn_cl.data"},
    "pmn_cl.config": {BASE, "pmn_cl.tasks", "pmn_cl.data", "pmn_cl.strategy"},
    "pmn_cl.modules": {BASE, "pmn_cl.data"},
    "benchmarks": {BASE, "pmn_cl.tasks", "pmn_cl.data", "pmn_cl.strategy", "pmn_cl.config"},
    "benchmarks.worlds": {BASE, "pmn_cl.tasks", "pmn_cl.data"},
    "strategies": {BASE, "pmn_cl.tasks", "pmn_cl.data", "pmn_cl.strategy", "pmn_cl.modules"},
    "baselines": {
        *(BASE, "pmn_cl.tasks", "pmn_cl.data", "pmn_cl.strategy", "pmn_cl.modules"),
        "strategies",
    },
    "pmn_cl.results": {BASE, "pmn_cl.config"},
    "pmn_cl.runs": {
        *(BASE, "pmn_cl.tasks", "pmn_cl.data", "pmn_cl.strategy", "pmn_cl.config"),
        *("benchmarks", "pmn_cl.results"),
    },
    "pmn_cl.claims": {BASE, "pmn_cl.results"},
    "pmn_cl.explaining.records": {BASE, "pmn_cl.results"},
    "reports": {BASE, "pmn_cl.results", "pmn_cl.claims", "pmn_cl.explaining.records"},
    "pmn_cl.explaining": {
        *(BASE, "pmn_cl.tasks", "pmn_cl.modules", "pmn_cl.results"),
        *("pmn_cl.runs", "pmn_cl.explaining.records"),
    },
    "pmn_cl.human_eval": {
        *(BASE, "pmn_cl.results", "pmn_cl.claims", "pmn_cl.explaining.records", "reports"),
    },
    "pmn_cl.mlflow_mirror": {
        *(BASE, "pmn_cl.config", "pmn_cl.results", "pmn_cl.runs", "pmn_cl.explaining.records"),
        "pmn_cl.human_eval",
    },
    "pmn_cl.studies": {
        *(BASE, "pmn_cl.data", "pmn_cl.strategy", "pmn_cl.config", "pmn_cl.modules"),
        *("benchmarks", "pmn_cl.results", "pmn_cl.runs", "pmn_cl.mlflow_mirror"),
    },
    "pmn_cl.api": {"pmn_cl.config", "pmn_cl.results", "pmn_cl.studies"},
}
ROOMS["pmn_cl.cli"] = {*ROOMS} - {"strategies", "baselines", "pmn_cl.api", "pmn_cl.tasks"}
MOST_IN_PMN_CL, MOST_IN_A_ROOM = 8, 17  # files


def room_of(module: str) -> str:
    """The room that a module is in: the longest name that it begins with."""
    if module == "pmn_cl.__init__":
        return "pmn_cl.api"  # the front door for notebooks
    return max((r for r in ROOMS if f"{module}.".startswith(f"{r}.")), key=len)


def imports(source: str) -> Iterator[str]:
    """Every module named by an import statement, wherever it stands in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden(module: str, source: str) -> list[str]:
    room = room_of(module)
    ours = [name for name in imports(source) if name.split(".")[0] in OURS]
    return [name for name in ours if room_of(name) not in {room, *ROOMS[room]}]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_rooms_import_only_what_the_table_says() -> None:
    found = {module_of(path): forbidden(module_of(path), path.read_text("utf-8")) for path in FILES}
    assert {module: names for module, names in found.items() if names} == {}


def test_the_table_has_no_circle_and_nothing_that_no_room_needs() -> None:
    order = list(ROOMS)
    for place, (room, others) in enumerate(ROOMS.items()):
        assert others <= {*order[:place]}, room
    needed: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in FILES:
        ours = (n for n in imports(path.read_text("utf-8")) if n.split(".")[0] in OURS)
        needed[room_of(module_of(path))] |= {room_of(name) for name in ours}
    for room in ROOMS:
        assert ROOMS[room] <= needed[room], room


def test_the_check_itself_finds_what_is_forbidden() -> None:
    assert forbidden("pmn_cl.results.x", "import pmn_cl.runs.plan") == ["pmn_cl.runs.plan"]
    lazily = "def f():\n    from strategies import pmn"
    assert forbidden("pmn_cl.strategy.base", lazily) == ["strategies.pmn"]
    assert forbidden("baselines.pnn", "from strategies.loop import X") == []
    assert forbidden("strategies.pmn", "from baselines.pnn import X") == ["baselines.pnn.X"]
    assert forbidden("reports.page", "from pmn_cl.data.loader import X") == ["pmn_cl.data.loader.X"]
    assert forbidden("reports.page", "from pmn_cl.results.scores import X") == []
    assert forbidden("pmn_cl.errors", "from pmn_cl import api") == ["pmn_cl.api"]
    assert forbidden("pmn_cl.runs.x", "import pmn_cl.cli.main") == ["pmn_cl.cli.main"]


def test_rooms_are_not_crowded() -> None:
    files: dict[Path, int] = {}
    for path in FILES:
        if path.name != "__init__.py":
            files[path.parent] = files.get(path.parent, 0) + 1
    assert len(list((ROOT / "pmn_cl").glob("*.py"))) <= MOST_IN_PMN_CL
    assert {folder: n for folder, n in files.items() if n > MOST_IN_A_ROOM} == {}


def test_our_own_code_is_imported_as_code() -> None:
    """References as text are for what users name in YAML: the registry has those of ours."""
    constant = re.compile(r'\.(?:load|find)\(\s*f?"')
    assert [p for p in FILES if constant.search(p.read_text("utf-8"))] == []


def test_the_papers_modules_know_no_data_and_keep_to_algorithm_1() -> None:
    for path in (ROOT / "pmn_cl" / "modules").glob("*.py"):
        source = path.read_text("utf-8")
        assert not [n for n in imports(source) if n.startswith("pmn_cl.data")], path
        if path.name != "compositional.py":
            for kind in ast.parse(source).body:
                bases = {ast.unparse(b) for b in getattr(kind, "bases", ())}
                methods = {getattr(part, "name", "") for part in getattr(kind, "body", ())}
                assert "CompositionalModule" not in bases or not {"forward", "step"} & methods


@pytest.mark.parametrize(
    "module",
    [
        *("reports.page", "reports.explanation", "reports.human_eval", "benchmarks.overview"),
        *("pmn_cl.results.result", "pmn_cl.tasks.metrics", "pmn_cl.config.stream"),
    ],
)
def test_reading_and_reporting_need_no_torch(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"torch", "avalanche", "mlflow", "pandas"} & set(run.stdout.split())
