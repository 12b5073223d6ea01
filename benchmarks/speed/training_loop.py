"""The template's loop against a bare PyTorch loop: same module, data and batch of 32.

On M_att, the smallest task, where the loop itself weighs most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from timing import compare, report
from torch import nn

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import parse_stream
from pmn_cl.data.loader import BatchLoader

_EPOCHS = 5  # so that setting a task up, which is done once, weighs little
_SETTINGS = {"learning_rate": 1e-3, "batch_size": 32, "epochs": _EPOCHS, "clip": 5.0}


def bare_loop(strategy: Any, experience: Any) -> None:
    """What one would write by hand for this module."""
    module = strategy.network["att"]
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    for epoch in range(_EPOCHS):
        for x, y in BatchLoader(experience.batches, 32, seed=1, epoch=epoch):
            answer = module.classifier(module.project(x["regions"]).tanh())
            loss = experience.task.loss(answer, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 5.0)
            optimizer.step()


def main(cache: Path) -> bool:
    torch.set_num_threads(1)
    world = {"name": "digits", "scenes": {"train": 3200, "val": 10, "test": 10, "novel": 10}}
    spec = {"name": "speed", "world": world, "tasks": ["att"], "strategies": ["pmn"], "seeds": [0]}
    benchmark = Stream.open(parse_stream(spec), 0, cache=cache).as_avalanche()
    [experience] = benchmark.streams["train"]
    pmn = registry.load(registry.STRATEGIES["pmn"])
    options = pmn.Options.model_validate({"training": {"att": _SETTINGS}})
    strategy, by_hand = pmn(options=options), pmn(options=options)
    by_hand.train(experience, eval_streams=[])  # to have a module
    by_hand.network["att"].unfreeze()
    timed = compare(
        lambda: strategy.train(experience, eval_streams=[]),
        lambda: bare_loop(by_hand, experience),
        turns=7,
    )
    steps = _EPOCHS * len(experience.batches) / 32
    return report(
        "template / bare loop, batch 32",
        timed.ratio,
        "at most 1.10",
        timed.ratio <= 1.10,
        f"{1e3 * timed.ours / steps:.2f} and {1e3 * timed.plain / steps:.2f} ms an iteration",
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        sys.exit(not main(Path(folder)))
