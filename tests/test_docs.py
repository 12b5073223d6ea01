"""The documentation as a site: it builds without a warning, and asks the network for nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pmn_cl.cli.main import main
from pmn_cl.results.measures.catalogue import measure

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with warnings as errors: a link to nowhere is one."""
    place = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(place)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text("utf-8"))


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / name).exists()
        assert f'href="{name}"' in start or name.name == "index.html", name


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = (
        r'<(?:script|img|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="(http[^"]*)"'
    )
    for page in site.rglob("*.html"):
        assert re.findall(loaded, page.read_text("utf-8")) == [], page


def test_all_commands_and_their_options_are_in_the_reference(site: Path) -> None:
    page = text_of(site / "reference" / "commands.html")
    for name, command in main.commands.items():
        assert (f"pmn-bench {name}" in page) == (not command.hidden), name
    assert "--checkpoint-every" in page and "pmn-bench modules export" in page


def test_the_reference_of_the_code_has_what_docstrings_say(site: Path) -> None:
    page = text_of(site / "reference" / "api.html")
    assert measure.__doc__ is not None and measure.__doc__.split(",")[0] in page
    for name in ("pmn_cl.api", "CompositionalModule", "Strategy", "World"):
        assert name in page
