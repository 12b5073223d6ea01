"""What a module M_n is: it answers queries for one task. Not here: how it is trained."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape


@dataclass(frozen=True)
class ModulePlan:
    """What a module is built from, beside the modules that it calls."""

    shape: WorldShape
    sizes: Sizes
    gates: Gates
    departures: Departures


class TaskModule(nn.Module, ABC):
    """M_n: answers queries about an environment.

    Callees are borrowed: they belong to the network, and are neither trained, counted nor saved
    with their callers.
    """

    task: ClassVar[str]  # the task it is made for
    answer_width: int = 0  # of the vector that it answers with, where M_vqa is to call it
    vocabulary: ClassVar[tuple[str, ...]] = ()  # the lists of a world's names that it may be over
    departs: ClassVar[tuple[str, ...] | None] = None  # that concern just this class; None: any may
    teacher_forced: ClassVar[tuple[str, ...]] = ()  # targets that it is given while it learns

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__()
        self.plan = plan
        self.callees = dict(callees)  # a dict, so that torch does not take them for parts
        self._frozen: str | None = None  # a frozen module's digest, and how it works
        self.shares: str | None = None  # the callee whose parts it uses as its own

    @abstractmethod
    def own_query(self, env: Environment) -> Any:
        """Return the query that a sample of the module's own task asks."""

    @abstractmethod
    def forward(self, query: Any, env: Environment) -> Tensor:
        """Return the answer o_n that callers get."""

    def outputs(self, answer: Tensor, env: Environment) -> Tensor:
        """Return what the task's loss and score take, made from the answer."""
        return answer

    def share(self, callee: str) -> None:
        """Use parts of a callee as its own, where a module has such parts."""
        raise UserError(f"M_{self.task} has no parts to share with {callee!r}")

    def freeze(self) -> None:
        """Never change again: no gradient to the weights, no running statistics, no dropout."""
        self.requires_grad_(False)
        self.eval()
        for parameter in self.parameters():
            parameter.grad = None
        self._frozen = _description(self)

    @property
    def identity(self) -> str | None:
        """Return a digest of the module and of all that it calls; none while one of them learns."""
        if self._frozen is None:
            return None
        below = [(name, callee.identity) for name, callee in sorted(self.callees.items())]
        if any(identity is None for _, identity in below):
            return None
        return _hash(self._frozen, below)

    def unfreeze(self) -> None:
        """Learn again."""
        self._frozen = None
        self.requires_grad_(True)
        self.train()

    def train(self, mode: bool = True) -> TaskModule:
        """Go into training mode, unless frozen."""
        super().train(mode and self._frozen is None)
        return self


def digest_of(module: nn.Module) -> str:
    """Return a digest of all parameters and buffers."""
    return digest_of_tensors(module.state_dict())


def digest_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of tensors by name, type, shape and bytes."""
    found = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        found.update(flat.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def identity_of(module: TaskModule) -> str:
    """Work a module's identity out anew, whether it is frozen or not."""
    below = [(name, identity_of(callee)) for name, callee in sorted(module.callees.items())]
    return _hash(_description(module), below)


def _description(module: TaskModule) -> str:
    """Return a module's digest and how it works: equal gates answer otherwise than learned ones."""
    plan, kind = module.plan, type(module).__qualname__
    return f"{digest_of(module)} {kind} {plan.gates} {plan.departures} {module.shares}"


def _hash(description: str, below: list[tuple[str, str | None]] | list[tuple[str, str]]) -> str:
    return hashlib.sha256(f"{description} {below}".encode()).hexdigest()
