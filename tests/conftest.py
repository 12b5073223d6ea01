"""Fixtures that several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.digit_scenes.world import DigitOptions, DigitScenes
from pmn_cl.store import Store

SMALL_SCENES = {"train": 300, "val": 50, "test": 250, "novel": 200}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for prepared worlds that lives as long as the test run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def digits(cache: Path) -> Store:
    """A small digit world, 800 scenes, built once."""
    options = DigitOptions.model_validate({"scenes": SMALL_SCENES})
    return DigitScenes(options).prepare(cache)
