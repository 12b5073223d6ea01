"""Random scenes and frozen modules of either size, for the speed benchmarks of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pmn_cl import registry
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.sizes import DEPARTURES, SIZES, Departures, Gates, WorldShape
from pmn_cl.modules.task_module import ModulePlan
from pmn_cl.tasks.answers import AnswerTask

# How many of each there are: in the paper's data (section 4, appendix B), in the digit world.
COUNTS = {
    "paper": {
        **{"objects": 1600, "attributes": 400, "relations": 20, "directions": 2, "counts": 13},
        **{"caption words": 9000, "question words": 12000, "answers": 3129},
    },
    "small": {
        **{"objects": 11, "attributes": 11, "relations": 7, "directions": 2, "counts": 13},
        **{"caption words": 52, "question words": 91, "answers": 44},
    },
}
REGIONS = {"paper": (36, 2048), "small": (24, 128)}  # N and d
WORDS = {"paper": 14, "small": 14}  # of a question
BATCH = 128  # questions


class RandomScenes:
    """Scenes of noise that can be remembered like real ones."""

    first, world = 0, "noise"

    def __init__(self, size: str, count: int = 512) -> None:
        boxes, d = REGIONS[size]
        corner = torch.rand(count, boxes, 2) * 0.8
        self._columns = {
            "regions": torch.randn(count, boxes, d),
            "boxes": torch.cat([corner, corner + 0.05 + torch.rand(count, boxes, 2) * 0.15], dim=2),
            "mask": torch.ones(count, boxes, dtype=torch.bool),
        }

    def __len__(self) -> int:
        return len(self._columns["mask"])

    def take(self, scenes: Tensor) -> dict[str, Tensor]:
        return {name: column.index_select(0, scenes) for name, column in self._columns.items()}


class RandomQuestions:
    """Questions of noise about the scenes, so many for each."""

    def __init__(self, size: str, scenes: RandomScenes, per_scene: int = 1) -> None:
        words, answers = COUNTS[size]["question words"], COUNTS[size]["answers"]
        self.scenes, self.per_scene = scenes, per_scene
        self._question = torch.randint(1, words, (len(self), WORDS[size]))
        self._answer = torch.randint(answers, (len(self), 1))

    def __len__(self) -> int:
        return self.per_scene * len(self.scenes)

    def holds(self, x: Mapping[str, Tensor]) -> bool:
        return True

    def __getitem__(self, rows: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        scenes = rows // self.per_scene
        x = {**self.scenes.take(scenes), "scene": scenes, "sample": rows}
        y = {"answers": self._answer[rows], "scores": torch.ones(len(rows), 1)}
        return {**x, "question": self._question[rows]}, y


def plan(size: str, departures: Departures | None = None) -> ModulePlan:
    names = {what: [str(i) for i in range(count)] for what, count in COUNTS[size].items()}
    shape = WorldShape(REGIONS[size][1], names)
    return ModulePlan(shape, SIZES[size], Gates(), departures or DEPARTURES[size])


def network(
    plan: ModulePlan, calls: Mapping[str, Sequence[str]], memory: Memory | None
) -> ModuleNetwork:
    """Build the modules in order, all but the last one frozen."""
    torch.manual_seed(0)
    built = ModuleNetwork(memory)
    for name, callees in calls.items():
        kind = registry.load(registry.MODULES[name])
        built.add(name, kind(plan, {k: built[k] for k in callees}))
        if name != list(calls)[-1]:
            built[name].freeze()
    return built


BELOW = {"obj": (), "att": (), "rel": ("obj", "att"), "cap": ("obj", "att")}
VQA5 = {**BELOW, "cnt": ("obj", "att", "rel"), "vqa": ("rel", "obj", "att", "cnt", "cap")}
VQA0: dict[str, Sequence[str]] = {"vqa": ()}


class Training:
    """Steps of M_vqa over the random questions, in a fixed order."""

    def __init__(self, net: ModuleNetwork, questions: RandomQuestions, batch: int = BATCH) -> None:
        self.net, self.questions, self.batch = net, questions, batch
        self.optimizer = torch.optim.Adam(net["vqa"].parameters(), lr=1e-3, fused=True)
        self._order = torch.Generator().manual_seed(0)
        if net.memory is not None:
            net.memory.attach_samples("vqa", questions)  # type: ignore[arg-type]
        net.train()

    def step(self) -> float:
        count, each = len(self.questions.scenes), self.questions.per_scene
        scenes = torch.randperm(count, generator=self._order)[: self.batch // each]
        x, y = self.questions[(scenes[:, None] * each + torch.arange(each)).flatten()]
        loss = AnswerTask().loss(self.net(x, "vqa"), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
