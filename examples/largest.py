"""A seventh task of one's own in one file: which is the largest digit of the scene?

The task says what is asked and how an answer is scored; the module answers it by asking M_obj
about every region. ``largest.yaml`` beside this file names both; nothing else knows of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pmn_cl.modules.compositional import CompositionalModule
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.metrics import accuracy


def largest(label: Any, asked: Any) -> Any:
    """Return the highest class among the regions that have one; background is class 0."""
    return (label * asked).max(1)


class LargestTask(Task):
    name, summary, level = "largest", "name the largest digit of the scene", 1
    table = "obj"  # asks about what M_obj's samples show already
    calls = ("obj",)
    target = ("label", "asked")
    outputs = "objects"
    metric = "accuracy"

    def score(self, predictions: Any, columns: Any, names: Any) -> dict[str, float]:
        return {"accuracy": accuracy(predictions, largest(columns["label"], columns["asked"]))}

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        truth = largest(targets["label"], targets["asked"]).values
        return nn.functional.cross_entropy(outputs, truth)

    def decode(self, outputs: Tensor) -> Any:
        return outputs.argmax(1).cpu().numpy()

    def constant(self, columns: Any, names: Any) -> Any:
        return np.bincount(largest(columns["label"], columns["asked"])).argmax()


class LargestModule(CompositionalModule):
    """One step: ask M_obj about all regions, score every class by its best region."""

    task, vocabulary = "largest", ("objects",)

    def __init__(self, plan: Any, callees: Any) -> None:
        super().__init__(plan, callees)
        self.call_list = ("obj",)
        classes = plan.shape.count("objects")
        self.read = nn.Linear(plan.sizes.terminal, classes)  # R
        self.weigh = nn.Linear(classes, classes)  # Ψ

    def own_query(self, env: Environment) -> None:
        return None

    def steps(self, env: Environment) -> int:
        return 1

    def initial(self, query: None, env: Environment) -> None:
        return None

    def transmit(self, k: str, s: None, V: Any, g: Any, env: Environment) -> Tensor:
        return env.regions

    def receive(self, k: str, s: None, answer: Tensor, env: Environment) -> Tensor:
        return self.read(answer).masked_fill(~env.mask[:, :, None], -10)

    def update(self, s: None, V: Any, g: Any, env: Environment) -> Tensor:
        return V["obj"].amax(1)  # (B, classes): is there a region that shows it?

    def predict(self, states: list[Any], query: None, env: Environment) -> Tensor:
        return self.weigh(torch.sigmoid(states[1]))
