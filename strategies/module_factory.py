"""How PMN builds the module of a task: its class, its sizes, and what it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pmn_cl import registry
from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.layers import start_scaled
from pmn_cl.modules.library.word_vectors import start_words
from pmn_cl.modules.sizes import SIZES, Departures, Gates, WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.strategy.base import Experience
from strategies.options import PmnOptions


@dataclass(frozen=True)
class ModuleFactory:
    """Builds modules as the options say."""

    options: PmnOptions
    departures: Departures

    def build(self, experience: Experience, callees: Mapping[str, TaskModule]) -> TaskModule:
        """Return a task's module as it is before it learns."""
        plan = self.plan(experience)
        module = self.module_class(experience)(plan, callees)
        if plan.departures.scaled_start:
            start_scaled(module.modules())
        start_words(module, experience.samples.store)
        counting = callees.get("cnt")
        if isinstance(module, AnswerModule) and isinstance(counting, CountModule):
            ours, theirs = (m.plan.sizes.hidden for m in (module, counting))
            if ours != theirs and not plan.departures.own_question:
                raise UserError(
                    f"widths: M_vqa's state has the width {ours}, M_cnt's {theirs}, but M_vqa asks "
                    "M_cnt with its state: give both the same `hidden`, or set the departure "
                    "`own_question`"
                )
        return module

    def module_class(self, experience: Experience) -> type[TaskModule]:
        """Return the class of a task's module: the paper's, or the one that the options name."""
        name = experience.task.name
        reference = self.options.modules.get(name, name)
        if name not in self.options.modules and name not in registry.MODULES:
            raise UserError(
                f"no module is known for the task {name!r}: name one among PMN's options, as "
                f'modules: {{{name}: "file:Class"}}'
            )
        found: type[TaskModule] = registry.find(reference, registry.MODULES, "module", TaskModule)
        return found

    def plan(self, experience: Experience) -> ModulePlan:
        """Return how large a task's module is, what it is over, and how it departs."""
        name, store = experience.task.name, experience.samples.store
        width = store.table(experience.samples.split, "scenes")["regions"].shape[2]
        sizes = SIZES[self.options.size]
        if name in self.options.widths:
            sizes = self.options.widths[name].of(sizes)
        usual = self.options.gates_of and name not in self.options.gates_of
        gates = Gates() if usual else self.options.gates
        # What does not concern a module does not make it another: it is learned once, and shared.
        # A subclass says so for itself, as it may depart in more than what it is made from.
        concerns = vars(self.module_class(experience)).get("departs")
        departures = self.departures if concerns is None else self.departures.only(concerns)
        return ModulePlan(WorldShape(width, store.names), sizes, gates, departures)
