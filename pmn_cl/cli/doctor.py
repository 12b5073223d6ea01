"""Looks for what would keep pmn-bench from working on this machine, and says what to do.

Each check returns findings; none of them raises, whatever state the machine is in.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pmn_cl.data.world import cache_folder

if TYPE_CHECKING:
    from rich.console import Console

DISTRIBUTION = "pmn-cl"
PACKAGES = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")
_NEEDED_DISK = 2e9  # bytes: the default world, and room for results
_NEEDED_MEMORY = 4e9


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at: how it is, and what to do where it is not right."""

    about: str
    state: Literal["good", "note", "wrong"]
    found: str
    advice: str = ""


def examine(folder: Path) -> list[Diagnosis]:
    """Look at everything, from the point of view of this working folder."""
    checks: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
        _python,
        _versions,
        _torch,
        _avalanche,
        _machine,
        lambda: _folders(folder),
        lambda: _tracking(folder),
        lambda: _shadows(folder),
    )
    return [finding for check in checks for finding in check()]


def print_findings(findings: list[Diagnosis], console: Console) -> None:
    """Print the findings as a table, then what to do."""
    from rich.table import Table
    from rich.text import Text

    marks = {
        "good": Text("good", "green"),
        "note": Text("note", "yellow"),
        "wrong": Text("WRONG", "bold red"),
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        table.add_row(marks[finding.state], Text(finding.about), Text(finding.found))
    console.print(table)
    for finding in findings:
        if finding.advice:
            advice = Text.assemble("\n", (finding.about, "bold"), f": {finding.advice}")
            console.print(advice, soft_wrap=True)
    wrong = [finding.about for finding in findings if finding.state == "wrong"]
    verdict = (
        f"not ready: {len(wrong)} wrong ({', '.join(dict.fromkeys(wrong))})"
        if wrong
        else "ready: pmn-bench run quick.yaml"
    )
    console.print(f"\n{verdict}", soft_wrap=True)


def _python() -> Iterator[Diagnosis]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis("Python", "good", f"{version} ({sys.executable})")  # an older one cannot start


def _versions() -> Iterator[Diagnosis]:
    """Compare what is installed with what this distribution asks for."""
    from packaging.requirements import Requirement

    try:
        asked = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        advice = "install it: `make test` in the repository, or `pip install -e .`"
        yield Diagnosis(DISTRIBUTION, "wrong", "not installed", advice)
        return
    yield Diagnosis(DISTRIBUTION, "good", importlib.metadata.version(DISTRIBUTION))
    for line in asked:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        install = f"pip install -c constraints.txt '{requirement.name}{requirement.specifier}'"
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield Diagnosis(requirement.name, "wrong", "not installed", install)
            continue
        if requirement.specifier.contains(version, prereleases=True):
            yield Diagnosis(requirement.name, "good", version)
        else:
            found = f"{version}, expected {requirement.specifier}"
            yield Diagnosis(requirement.name, "wrong", found, install)


def _torch() -> Iterator[Diagnosis]:
    try:
        import torch
    except Exception as error:  # a broken binary raises anything
        yield Diagnosis("torch", "wrong", f"cannot be imported: {error}", "reinstall torch")
        return
    threads = torch.get_num_threads()
    kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    yield Diagnosis("torch works", "good", f"{kind}, {threads} threads")
    if torch.cuda.is_available():
        yield Diagnosis("GPU", "good", torch.cuda.get_device_name(0))
    else:
        yield Diagnosis("GPU", "note", "none; everything runs on the CPU")


def _avalanche() -> Iterator[Diagnosis]:
    from pmn_cl.strategy.avalanche import import_avalanche, operators_are_declared

    try:
        import_avalanche()
    except Exception as error:
        advice = "reinstall torch, torchvision and avalanche-lib in matching versions"
        yield Diagnosis("Avalanche", "wrong", f"cannot be imported: {error}", advice)
        return
    if operators_are_declared():
        found = "its compiled operators do not load beside this torch; declared, not needed"
        yield Diagnosis("torchvision", "note", found)
    else:
        yield Diagnosis("torchvision", "good", "its compiled operators load")
    yield Diagnosis("Avalanche works", "good", "imported")


def _machine() -> Iterator[Diagnosis]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Diagnosis("cores", "good", str(cores))
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        yield Diagnosis("memory", "note", "unknown on this system")
        return
    found = f"{memory / 1e9:.0f} GB"
    if memory >= _NEEDED_MEMORY:
        yield Diagnosis("memory", "good", found)
    else:
        yield Diagnosis("memory", "note", found, "use fewer scenes and one worker")


def _folders(folder: Path) -> Iterator[Diagnosis]:
    """Look for space and write access where worlds and results are kept."""
    for about, where, advice in (
        ("cache", cache_folder(), "set PMN_BENCH_CACHE to a folder that can be written"),
        ("working folder", folder, "change to a folder that can be written"),
    ):
        try:
            where.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=where):
                free = shutil.disk_usage(where).free
        except OSError as error:
            yield Diagnosis(about, "wrong", f"{where}: {error.strerror or error}", advice)
            continue
        found = f"{where}: can be written, {free / 1e9:.0f} GB free"
        enough = free >= _NEEDED_DISK
        yield Diagnosis(about, "good" if enough else "note", found, "" if enough else "free some")


def _tracking(folder: Path) -> Iterator[Diagnosis]:
    """Look at where MLflow would keep runs, without starting MLflow."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    parts = urlsplit(uri)
    if not uri:
        yield Diagnosis("MLflow store", "good", "a SQLite file beside the results (default)")
    elif parts.scheme in ("http", "https"):
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "", port), timeout=3).close()
            yield Diagnosis("MLflow store", "good", f"{uri} answers")
        except OSError as error:
            advice = "start the server, or unset MLFLOW_TRACKING_URI to use a local file"
            yield Diagnosis("MLflow store", "wrong", f"{uri}: {error}", advice)
    elif parts.scheme in ("", "file"):
        advice = "MLflow 3 refuses folders as stores: set it to sqlite:///mlflow.db, or unset it"
        yield Diagnosis("MLflow store", "wrong", f"{uri} is a folder of files", advice)
    elif parts.scheme == "sqlite":
        home = (folder / parts.path.removeprefix("/")).parent
        ready = home.is_dir() and os.access(home, os.W_OK)
        found = f"{uri}" if ready else f"{uri}: {home} cannot be written"
        advice = "" if ready else "create the folder, or unset MLFLOW_TRACKING_URI"
        yield Diagnosis("MLflow store", "good" if ready else "wrong", found, advice)
    else:
        yield Diagnosis("MLflow store", "note", f"{uri}: not checked")


def _shadows(folder: Path) -> Iterator[Diagnosis]:
    """Find packages and folders that Python would take for ours, or could."""
    home = Path(__file__).resolve().parents[2]
    installed = importlib.metadata.packages_distributions()  # reads what pip wrote of everything
    clashes = False
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(p).resolve() for p in (spec and spec.submodule_search_locations) or ()]
        if home / name not in places:
            clashes = True
            found = f"{name} is taken from {places[0] if places else 'nowhere'}, not {home}"
            advice = "rename or uninstall that one, or start from another folder"
            yield Diagnosis("package names", "wrong", found, advice)
        owners = set(installed.get(name, ())) - {DISTRIBUTION}
        for owner in sorted(owners):
            clashes = True
            found = f"the distribution {owner!r} also installs a package named {name}"
            yield Diagnosis("package names", "wrong", found, f"pip uninstall {owner}")
        for entry in {folder.resolve(), *(Path(p).resolve() for p in sys.path if p)} - {home}:
            if (entry / name).is_dir() or (entry / f"{name}.py").is_file():
                clashes = True
                found = f"{entry} has something named {name}, like our package"
                advice = "do not run `python -m …` from there, or rename it"
                yield Diagnosis("package names", "note", found, advice)
    if not clashes:
        yield Diagnosis("package names", "good", f"nothing shadows {', '.join(PACKAGES)}")
