"""Runs of a tiny stream with all six tasks, carried through in seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.stream import Stream
from pmn_cl.config.spec import StreamSpec
from pmn_cl.config.stream import parse_stream
from pmn_cl.explaining.explainer import Explainer
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.results.result import write_result
from pmn_cl.runs.execute import carry_out
from pmn_cl.runs.plan import plan_runs
from strategies.options import PmnOptions
from strategies.pmn import Progressive

CALLS = [
    *("obj", "att", {"task": "rel", "calls": ["obj", "att"]}),
    {"task": "cap", "calls": ["obj", "att"]},
    {"task": "cnt", "calls": ["obj", "att", "rel"]},
    {"task": "vqa", "calls": ["rel", "obj", "att", "cnt", "cap"]},
]


def tiny(strategies: list[Any]) -> StreamSpec:
    scenes = {"train": 60, "val": 20, "test": 60, "novel": 20}
    return parse_stream(
        {
            **{"name": "tiny", "world": {"name": "digits", "scenes": scenes}, "tasks": CALLS},
            **{"budget": 2, "strategies": strategies, "seeds": [0]},
            "evaluate_every": {"probe": 8},  # as the default stream has it
        }
    )


@pytest.fixture(scope="session")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of pmn and one of the baseline."""
    out = tmp_path_factory.mktemp("explained")
    planned = plan_runs(tiny(["pmn", "independent"]))
    at_end = {"splits": ["test"], "evaluate_at_end": True}
    for run in (run.model_copy(update=at_end) for run in planned):
        folder = out / run.key
        folder.mkdir()
        write_result(carry_out(run, folder, cache=cache), folder)
    return out


@pytest.fixture(scope="session")
def lively(cache: Path) -> tuple[ModuleNetwork, dict[str, Tensor]]:
    """A network that never learned, but in which everything matters; and some questions."""
    experiences = Stream.open(tiny(["pmn"]), 0, cache=cache).as_avalanche().streams
    pmn = Progressive(options=PmnOptions(memory=False))
    pmn.build(experiences["train"])
    generator = torch.Generator().manual_seed(5)
    for parameter in pmn.network.parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=generator)
    x, _ = experiences["test"][-1].batches[torch.arange(0, 600, 50)]
    return pmn.network, dict(x.items())


@pytest.fixture(scope="session")
def opened(runs: Path, cache: Path) -> Callable[[str], Explainer]:
    """Open a run once, by the beginning of its name."""
    known: dict[str, Explainer] = {}

    def find(name: str) -> Explainer:
        if name not in known:
            known[name] = Explainer(runs, name, cache=cache)
        return known[name]

    return find
