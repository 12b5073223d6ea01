"""Training on batches in which the questions of a scene come together, against random ones.

Questions a second of M_vqa5, M_cnt2 and hard sharing at ``small``; what is called below them is
frozen as it was initialised, which costs as much as if it had learned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from timing import compare, report

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import parse_stream

_SCENES, _EPOCHS = 500, 4
_TASKS = ("obj", "att", "rel", "cap", "cnt", "vqa")
_WHAT = (("pmn", "vqa"), ("pmn", "cnt"), ("hard_sharing", "vqa"))


def learner(name: str, task: str, experiences: Any, by_scene: bool) -> Callable[[], None]:
    """Return what learns a task for some epochs, on the others as they start."""
    kind = registry.load(registry.STRATEGIES[name])
    settings = {t: {"by_scene": by_scene, "epochs": _EPOCHS} for t in _TASKS}
    controls = {"untrained": [t for t in _TASKS if t != task]} if name == "pmn" else {}
    options = kind.Options.model_validate({"training": settings, **controls})

    def learn() -> None:
        strategy = kind(options=options)
        for experience in experiences:
            if experience.task.name == task:
                strategy.train(experience, eval_streams=[])
                return
            strategy.build([experience])

    return learn


def main(cache: Path) -> bool:
    torch.set_num_threads(1)
    scenes = {"train": _SCENES, "val": 10, "test": 10, "novel": 10}
    spec = {"name": "speed", "world": {"name": "digits", "scenes": scenes}, "tasks": list(_TASKS)}
    parsed = parse_stream({**spec, "strategies": ["pmn"], "seeds": [0]})
    experiences = Stream.open(parsed, 0, cache=cache).as_avalanche().streams["train"]
    reached = []
    for name, task in _WHAT:
        together, apart = (learner(name, task, experiences, way) for way in (True, False))
        timed = compare(apart, together, turns=3)
        [learned] = [e for e in experiences if e.task.name == task]
        asked = _EPOCHS * len(learned.batches)
        reached.append(
            report(
                f"{name}, {task}: questions a second, scene by scene / at random",
                timed.ratio,
                "at least 2.5",
                timed.ratio >= 2.5,
                f"{asked / timed.plain:,.0f} and {asked / timed.ours:,.0f}",
            )
        )
    return all(reached)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        sys.exit(not main(Path(folder)))
