"""The network that owns all modules: adds, freezes and asks them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter

from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.attention import AttentionMap, maps_seen
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import TaskModule


class ModuleNetwork(nn.Module):
    """Modules by name; a new one is trained alone, on top of those that are frozen."""

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__()
        self.learned = nn.ModuleDict()
        self.memory = memory

    def __contains__(self, name: str) -> bool:
        return name in self.learned

    def __getitem__(self, name: str) -> TaskModule:
        if name not in self.learned:
            known = ", ".join(self.learned) or "none"
            raise UserError(f"task {name!r} was not learned; learned: {known}")
        module = self.learned[name]
        assert isinstance(module, TaskModule)
        return module

    def add(self, name: str, module: TaskModule) -> None:
        """Take a module in."""
        self.learned[name] = module

    def replace(self, name: str, module: TaskModule) -> None:
        """Put a module of the same interface in another's place, for all its callers; it is frozen.

        Nobody is trained again; callers answer through the new module from now on.
        """
        old = self[name]
        for what in ("task", "answer_width", "plan.shape.region"):
            ours, theirs = (attrgetter(what)(m) for m in (old, module))
            if ours != theirs:
                raise UserError(f"{name!r} cannot be replaced: its {what} is {ours}, not {theirs}")
        for what in old.vocabulary:
            if old.plan.shape.names.get(what) != module.plan.shape.names.get(what):
                raise UserError(f"{name!r} cannot be replaced: the new one knows other {what}")
        module.freeze()
        self.learned[name] = module
        for other in map(self.__getitem__, self.learned):
            other.callees = {k: module if m is old else m for k, m in other.callees.items()}

    def forward(
        self,
        x: Mapping[str, Tensor],
        task: str,
        *,
        teacher: Mapping[str, Tensor] | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Return the outputs of a task's module for a batch of the task's samples.

        A teacher gives the targets with which a module is teacher-forced while it learns.
        """
        module, env = self[task], self.environment(x, task, teacher=teacher, trace=trace)
        return module.outputs(module(module.own_query(env), env), env)

    def attention_seen(self, task: str) -> AbstractContextManager[list[Tensor]]:
        """Give where a task's module looks (B, N) meanwhile, step by step; M_cnt at what it counts.

        Nothing of modules that do not say so.
        """
        looks = getattr(self[task], "looks", None)
        return maps_seen(looks) if isinstance(looks, AttentionMap) else nullcontext([])

    def environment(
        self,
        x: Mapping[str, Tensor],
        task: str,
        *,
        teacher: Mapping[str, Tensor] | None = None,
        trace: Trace | None = None,
    ) -> Environment:
        """Return what a task's module gets to see of a batch."""
        names = self[task].teacher_forced
        forced = {name: teacher[name] for name in names} if teacher is not None else {}
        memory = self.memory if trace is None else None  # a trace is to show every call
        return Environment.of({**dict(x.items()), **forced}, memory, trace, task)
