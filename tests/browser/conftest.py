"""A real browser for every file here, and a folder for pictures of what it shows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

SANDBOXED = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
PATIENCE = 30_000  # milliseconds for a page to show something: as long as any click may take


@pytest.fixture(scope="module")  # not longer: Playwright's event loop would be in others' way
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "no Chromium: apt-get install chromium"
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=SANDBOXED + alone)
        expect.set_options(timeout=PATIENCE)
        yield found
        found.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: into the folder that PMN_BENCH_PICTURES names, to be looked at."""
    kept = os.environ.get("PMN_BENCH_PICTURES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("pictures")
    folder.mkdir(exist_ok=True)
    return folder
