"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stream import Stream
from benchmarks.worlds.digit_scenes.world import DigitOptions, DigitScenes
from pmn_cl.config.stream import parse_stream
from pmn_cl.data.store import Store

# Shells start what runs in the background with Ctrl-C ignored, and commands inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMALL_SCENES = {"train": 300, "val": 50, "test": 250, "novel": 200}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for prepared worlds, one for all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "worlds"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def digits(cache: Path) -> Store:
    """A small digit world, 800 scenes, built once."""
    options = DigitOptions.model_validate({"scenes": SMALL_SCENES})
    return DigitScenes(options).prepare(cache)


@pytest.fixture(scope="session")
def open_stream(cache: Path) -> Callable[..., dict[str, dict[str, Any]]]:
    """Open a stream of these tasks on the small world: experiences by split and task.

    Tasks learn from so many percent of their training samples.
    """

    def opened(tasks: list[Any], fraction: float = 100.0) -> dict[str, dict[str, Any]]:
        given = {
            "name": "small",
            "world": {"name": "digits", "scenes": SMALL_SCENES},
            "tasks": tasks,
            "fraction": fraction,
            "strategies": ["constant"],
            "seeds": [0],
        }
        benchmark = Stream.open(parse_stream(given), 0, cache=cache).as_avalanche()
        return {
            split: {experience.task.name: experience for experience in experiences}
            for split, experiences in benchmark.streams.items()
        }

    return opened
