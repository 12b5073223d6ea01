"""Hard sharing with PMN's base modules for heads: what of PMN's lead is its architecture?

M_rel0, M_cap0, M_cnt0 and M_vqa0 work here as they do in PMN (M_vqa's two steps, the same fusion),
but on the regions as one trunk sees them, and M_cnt0's question encoder and Ω are M_vqa0's, too.
Trunk and encoder go on learning with every task. No module calls another: what PMN has beyond this
is that its modules are frozen and asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor, nn

from baselines.common.network import HeadsNetwork, HeadsStrategy
from baselines.common.trunk import NetworkPlan, Regions
from baselines.options import ModulesOptions
from pmn_cl import registry
from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.attention import AttentionMap, maps_seen
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Gates
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.tasks.base import Task


class ModulesNetwork(HeadsNetwork):
    """Two layers over regions that every task changes, and a module of PMN's for each."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__(plan)
        self.regions = Regions(plan)
        self.learned = nn.ModuleDict()

    def grow(self, task: Task) -> None:
        """Add a module that calls nobody; M_cnt and M_vqa share what reads questions."""
        if task.name not in registry.MODULES:
            known = ", ".join(registry.MODULES)
            raise UserError(f"PMN has no module for the task {task.name!r}, only for {known}")
        kind = registry.find(task.name, registry.MODULES, "module", TaskModule)
        plan = self.plan
        shape = replace(plan.shape, region=plan.width)
        module = kind(ModulePlan(shape, plan.sizes, Gates(), plan.departures), {})
        for other in map(self.__getitem__, self.learned):
            if isinstance(module, AnswerModule) and isinstance(other, CountModule):
                module.own_asking = other.asking
        self.learned[task.name] = module

    def __getitem__(self, task: str) -> TaskModule:
        """Return the module of a task."""
        module = self.learned[task]
        assert isinstance(module, TaskModule)
        return module

    def answer(self, env: Environment, task: Task, teacher: Mapping[str, Tensor] | None) -> Tensor:
        """Let the task's module answer about the regions as the trunk sees them."""
        module, fields = self[task.name], dict(env.fields)
        if teacher is not None:
            fields |= {name: teacher[name] for name in module.teacher_forced}
        regions = env.of_samples(self.regions(env))
        seen = replace(env, regions=regions, fields=fields, results={}, results_of_parts={})
        return module.outputs(module(module.own_query(seen), seen), seen)

    @contextmanager
    def attention_seen(self, task: str) -> Iterator[list[Tensor]]:
        """Give where a task's module looks (B, N) meanwhile, step by step."""
        looks = getattr(self[task], "looks", None)
        if not isinstance(looks, AttentionMap):
            yield []
            return
        with maps_seen(looks) as maps:
            yield maps


class HardSharingModules(HeadsStrategy):
    """One task after another: trunk and question encoder go on learning, and old modules see it."""

    Options = ModulesOptions
    kind = ModulesNetwork
