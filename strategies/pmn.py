"""Progressive Module Networks as a strategy: build M_n, train it through frozen children, freeze.

The modules themselves are in ``pmn_cl.modules``; the loop is the template's. How a module is built
is in ``module_factory``, which need not be learned in ``module_sources``, what M_vqa may change of
others in ``fine_tuning``, and what is added to a task's loss in ``losses``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.importance import gates_seen
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.sizes import DEPARTURES, Departures
from pmn_cl.modules.task_module import TaskModule
from pmn_cl.provenance import code_digest, versions
from pmn_cl.strategy.base import Experience, LearningCost, State, TrainingProgress
from pmn_cl.tasks.base import Task
from strategies.controls import shuffled
from strategies.fine_tuning import take_asking, unfreeze_callees
from strategies.loop import TaskTemplate
from strategies.losses import counted_maps, query_loss
from strategies.module_factory import ModuleFactory
from strategies.module_sources import GivenModules, KnownModule, SharedModules, recipe
from strategies.observation import GATE, by_step
from strategies.options import PmnOptions, refuse_unknown_tasks


class Progressive(TaskTemplate):
    """One module per task; earlier modules are called, and never changed."""

    Options = PmnOptions

    def __init__(
        self,
        *,
        options: PmnOptions | None = None,
        seed: int = 0,
        device: str = "cpu",
        budget: float = 100.0,
        plugins: Sequence[Any] = (),
        on_progress: Callable[[TrainingProgress], None] | None = None,
    ) -> None:
        self.options = options or PmnOptions()
        usual = DEPARTURES[self.options.size].model_dump()
        changed = {**usual, **self.options.departures.model_dump(exclude_unset=True)}
        self.departures = Departures.model_validate(changed)
        self.memory = Memory() if self.options.memory else None
        self.network = ModuleNetwork(self.memory)
        self.shared: SharedModules | None = None
        self._samples_before = 0  # seen before the task that is being learned
        self.cards: dict[str, library.Card] = {}
        controls = {*self.options.untrained, *self.options.shuffled}
        self._given = GivenModules(self.options.start_from, without=controls)
        self._tasks: dict[str, Task] = {}  # learned so far
        super().__init__(
            network=self.network,
            settings=self.options.settings(),
            seed=seed,
            device=device,
            budget=budget,
            plugins=plugins,
            on_progress=on_progress,
        )

        if self.memory is not None:
            self.memory.watch = self.operations.remembering

    def expect(self, experiences: Sequence[Experience]) -> None:
        """Refuse options that name an unknown task."""
        named = ("supervise", "finetune", "modules", "widths", "untrained", "shuffled", "gates_of")
        refuse_unknown_tasks(self.options, named, experiences)

    def prepare(self, experience: Experience) -> None:
        """Build the module of a task on top of those it calls."""
        self._tasks[experience.task.name] = experience.task
        self._samples_before = self.samples_seen
        callees = {name: self.network[name] for name in self.calls(experience)}
        known = self._known_module(experience, callees)
        if known is not None:
            self._add_known(experience.task.name, known)
            return
        tuned = unfreeze_callees(experience.task.name, callees, self.network, self.options)
        module = self.make_module(experience, {**callees, **tuned})
        self.network.add(experience.task.name, module)
        self._learning = nn.ModuleList([module, *tuned.values()])
        if experience.task.name in self.options.untrained:
            module.freeze()  # before it has learned anything, so that nothing is left to learn
        elif isinstance(module, AnswerModule) and self.options.asking != "own":
            take_asking(module, self.options.asking, self._learning)

    @property
    def factory(self) -> ModuleFactory:
        """Return what builds modules, with the options as they are now."""
        return ModuleFactory(self.options, self.departures)

    def make_module(self, experience: Experience, callees: Mapping[str, TaskModule]) -> TaskModule:
        """Return a task's module as it is before it learns."""
        return self.factory.build(experience, callees)

    def _known_module(
        self, experience: Experience, callees: Mapping[str, TaskModule]
    ) -> KnownModule | None:
        """Return the module of a task that was given, or that another run has learned."""
        given = self._given.find(experience, callees, self.factory, self.network)
        if self.shared is None:
            return given
        self.shared.last = None
        name = experience.task.name
        if given is not None or (name == "vqa" and self.options.finetune):
            return given  # what changes other modules is not a module alone
        known = self.shared.find(self._recipe(experience, callees), callees)
        if known is not None and known.card.score is not None:
            self.validation_scores[name] = known.card.score
        return known

    def _add_known(self, name: str, known: KnownModule) -> None:
        """Add a module that need not be learned, with the callees that were tuned for it."""
        self.cards[name] = known.card
        for task, (module, card) in known.tuned.items():
            self.network.add(f"{task} of {name}", module)
            self.cards[f"{task} of {name}"] = card
        self.network.add(name, known.module)
        self._learning = nn.ModuleList()

    def _recipe(self, experience: Experience, callees: Mapping[str, TaskModule]) -> dict[str, Any]:
        """Return all that decides what a task's module comes to."""
        kinds = type(self), self.factory.module_class(experience), type(experience.task)
        run = {"seed": self.seed, "budget": self.budget, "device": self.device.type}
        run |= {"threads": torch.get_num_threads(), "versions": versions()}
        run |= {"code": code_digest(*kinds)}
        if kinds[0].__module__.split(".")[0] != __name__.split(".")[0]:
            # A strategy of a user's own may learn otherwise, by options that are not ours to know.
            run |= {"strategy": f"{kinds[0].__module__}:{kinds[0].__qualname__}"}
            run |= {"options": self.options.model_dump(mode="json")}
        return recipe(experience, callees, self.factory, self.settings[experience.task.name], run)

    def calls(self, experience: Experience) -> tuple[str, ...]:
        """Return the tasks whose modules the task's module may call."""
        return experience.calls

    def learning(self, experience: Experience) -> nn.Module:
        """Return the new module, and what it may change."""
        return self._learning

    def carried(self, experience: Experience) -> Iterable[nn.Parameter]:
        """Return what M_vqa has copied from M_cnt."""
        module = self.network[experience.task.name]
        if isinstance(module, AnswerModule) and module.copied:
            return module.asking.parameters()
        return ()

    def finish(self, experience: Experience) -> None:
        """Freeze what was learned; what was fine-tuned first, as the others call it."""
        for module in reversed(self._learning):
            assert isinstance(module, TaskModule)
            module.freeze()
        self._write_cards(experience)
        taken = self.taken()
        if taken is not None:  # counts as if it had been learned here
            self.samples_seen += taken.samples_seen
            self.trainable = taken.trainable

    def _write_cards(self, experience: Experience) -> None:
        """Write the cards of the modules that learned."""
        for name in self.network.learned:
            module = self.network[name]
            if any(module is learned for learned in self._learning):
                new = module is self._learning[0]
                task = experience.task if new else self._tasks[module.task]
                self.cards[name] = library.card_of(
                    module,
                    level=task.level,
                    data=experience.samples.store.digest,
                    metric=task.metric,
                    score=self.validation_scores.get(task.name) if new else None,
                    tuned_for=None if name == module.task else experience.task.name,
                )

    def attach_scenes(self, experience: Experience) -> None:
        """Let what frozen modules compute for these scenes be kept."""
        if self.memory is not None:
            self.memory.attach_samples(experience.task.name, experience.batches)

    def training_samples(self, experience: Experience) -> Experience:
        """Return the task's samples, with the targets of others where the control asks for it."""
        if experience.task.name in self.options.shuffled:
            return shuffled(experience, self.seed)
        return experience

    def validate(self) -> dict[str, float]:
        """Score what is being learned; not what learns from shuffled targets, see the options."""
        return (
            {}
            if self.current_experience().task.name in self.options.shuffled
            else super().validate()
        )

    def score(self, experience: Experience) -> dict[str, float]:
        """Return the metrics; M_cnt's and M_vqa's also mean gates, over all and by question."""
        name, task, samples = experience.task.name, experience.task, experience.samples
        if name not in self.network:
            return super().score(experience)
        module = self.network[name]
        if not isinstance(module, (AnswerModule, CountModule)):  # as a user's own may be
            return super().score(experience)
        with gates_seen(module.G) as seen:
            found = super().score(experience)
        called = module.call_list if {*module.call_list} & {*module.callees} else ()
        for callee in called:
            steps = by_step([gates[callee] for gates in seen], len(samples))
            gate = np.mean(steps, axis=0)
            by_question = task.by_question(gate, samples.columns, samples.store.names)
            found[f"{GATE}{callee}"] = float(gate.mean())
            found |= {f"{GATE}{callee}, {kind}": mean for kind, mean in by_question.items()}
        return found

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Add to the task's loss the supervision of its query to M_rel, where that is asked for."""
        task = experience.task.name
        module, env = self.network[task], self.network.environment(x, task, teacher=y)
        query = module.own_query(env)
        with counted_maps(module) as maps:
            outputs = module.outputs(module(query, env), env)
        loss = self.loss_of(experience.task, outputs, y, maps)
        if task in self.options.supervise and "rel" in module.callees:
            if not isinstance(module, (CountModule, AnswerModule)):
                raise UserError(
                    f"supervise: M_{task} puts no query to M_rel that can be supervised"
                )
            asked = module.first_relation_query(query, env, self.departures.supervise_encoder)
            relations = module.plan.shape.count("relations")
            loss = loss + self.options.supervision * query_loss(asked, y, relations)
        return outputs, loss

    def save(self, folder: str | Path) -> list[Path]:
        """Keep every module that was learned, each in a file of its own."""
        return [library.save(self.network[n], c, Path(folder)) for n, c in self.cards.items()]

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Take up the modules of these experiences."""
        self._given = GivenModules([str(folder)])
        for experience in experiences:
            self.build([experience])
            if self._learning:
                raise UserError(f"{folder}: no module of {experience.task.name!r} was kept there")
            self.validation_scores[experience.task.name] = (
                self.cards[experience.task.name].score or 0.0
            )

    def reuse(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        """Take modules that other runs have learned in the same way, and leave ours to them."""
        self.shared = SharedModules(folder, waiting)

    def taken(self) -> LearningCost | None:
        """Return what the last module took another run, if it was taken from there."""
        return None if self.shared is None else self.shared.last

    def leave(self, cost: LearningCost) -> None:
        """Leave the last module to other runs."""
        if self.shared is not None:
            self.shared.leave(self.network, self.cards, cost)

    def build(
        self, experiences: Iterable[Experience], weights: Mapping[str, Tensor] | None = None
    ) -> None:
        """Make the network as it was: what others have learned is only for what is still to learn.

        Nor are weights left to them that other code may have learned.
        """
        shared, self.shared = self.shared, None
        try:
            super().build(experiences, weights)
        finally:
            self.shared = shared

    def state(self) -> State:
        """Return what the template does, and which modules were learned by other runs."""
        tensors, facts = super().state()
        before = self.samples_seen if facts["task"] is None else self._samples_before
        taken = {} if self.shared is None else dict(self.shared.taken)
        return State(tensors, {**facts, "samples_before": before, "taken": taken})

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Go back to a state; modules that were learned by then count as they did."""
        super().restore(state, done)
        # Another run may have learned meanwhile what was begun here: then that counts instead.
        self.samples_seen = state.facts["samples_before"]
        if self.shared is not None:
            self.shared.taken = dict(state.facts["taken"])

    def details(self) -> dict[str, float]:
        """Say how many modules were learned by other runs, and what of the cost is theirs."""
        if self.shared is None:
            return {}
        taken = self.shared.taken
        return {"modules_reused": len(taken), "cpu_seconds_reused": sum(taken.values())}
