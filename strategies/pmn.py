"""Progressive Module Networks as a strategy: build M_n, train it through frozen children, freeze.

The modules themselves are in ``pmn_cl.modules``; the loop is the template's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from pmn_cl import registry
from pmn_cl.data.samples import digest_of_samples
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.modules.answer import STEPS, AnswerModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.importance import gates_seen
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.library.cache import ModuleCache
from pmn_cl.modules.library.word_vectors import start_words
from pmn_cl.modules.relation import RelationQuery, relation_code
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.sizes import DEPARTURES, SIZES, Departures, Gates, WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.provenance import code_revision, versions
from pmn_cl.strategy.base import Experience, State, TrainingProgress
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import Task
from strategies.controls import shuffled
from strategies.loop import TaskTemplate
from strategies.options import PmnOptions


class Progressive(TaskTemplate):
    """One module per task; what was learned before is asked, and never changed."""

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
        self.module_cache: ModuleCache | None = None
        self.cards: dict[str, library.Card] = {}
        files = [path for given in self.options.start_from for path in _module_files(given)]
        cards = {path: library.read_card(path) for path in files}
        controls = {*self.options.untrained, *self.options.shuffled}
        self._given = {path: card for path, card in cards.items() if card.task not in controls}
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

    def expect(self, experiences: Sequence[Experience]) -> None:
        """Refuse options that name a task which nobody knows."""
        known = list(
            dict.fromkeys([*registry.TASKS, *(experience.task.name for experience in experiences)])
        )
        named = ("supervise", "finetune", "modules", "widths", "untrained", "shuffled", "gates_of")
        for option in named:
            for name in getattr(self.options, option):
                if name not in known:
                    raise UserError(
                        f"{option}: unknown task {name!r}, expected one of {', '.join(known)}"
                        f"{did_you_mean(name, known)}"
                    )

    def prepare(self, experience: Experience) -> None:
        """Build the module of a task on top of those it calls."""
        self._tasks[experience.task.name] = experience.task
        callees = {name: self.network[name] for name in self.calls(experience)}
        known = self._known_module(experience, callees) or self._learned_elsewhere(
            experience, callees
        )
        if known is not None:
            self.network.add(experience.task.name, known)
            self._learning = nn.ModuleList()
            return
        tuned = self._unfrozen(experience, callees)
        module = self.make_module(experience, {**callees, **tuned})
        self.network.add(experience.task.name, module)
        self._learning = nn.ModuleList([module, *tuned.values()])
        if experience.task.name in self.options.untrained:
            module.freeze()  # before it has learned anything, so that nothing is left to learn
        elif isinstance(module, AnswerModule) and self.options.asking != "own":
            self._take_asking(module)

    def make_module(self, experience: Experience, callees: Mapping[str, TaskModule]) -> TaskModule:
        """Return a task's module as it is before it learns."""
        module = self._module_class(experience)(self._plan(experience), callees)
        start_words(module, experience.samples.store)
        counting = callees.get("cnt")
        if isinstance(module, AnswerModule) and isinstance(counting, CountModule):
            ours, theirs = (m.plan.sizes.hidden for m in (module, counting))
            if ours != theirs and not self.departures.own_question:
                raise UserError(
                    f"widths: M_vqa's state has the width {ours}, M_cnt's {theirs}, but M_vqa asks "
                    "M_cnt with its state: give both the same `hidden`, or set the departure "
                    "`own_question`"
                )
        return module

    def calls(self, experience: Experience) -> tuple[str, ...]:
        """Return the tasks whose modules the task's module may call."""
        return experience.calls

    def learning(self, experience: Experience) -> nn.Module:
        """Return the new module, and what it may change."""
        return self._learning

    def finish(self, experience: Experience) -> None:
        """Freeze what was learned; what was fine-tuned first, as the others call it."""
        for module in reversed(self._learning):
            assert isinstance(module, TaskModule)
            module.freeze()
        self._write_cards(experience)
        if self.module_cache is not None and self._learning:
            name = experience.task.name
            self.module_cache.keep(self.network[name], self.cards[name])

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

    def look_at(self, experience: Experience) -> None:
        """Let what frozen modules find out about these scenes be remembered."""
        if self.memory is not None:
            self.memory.attach_samples(experience.task.name, experience.batches)

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read batches, with the targets of other samples where the control asks for it."""
        super().make_train_dataloader(**kwargs)
        if self.current_experience().task.name in self.options.shuffled:
            course = self.dataloader.course
            self.dataloader.course = replace(
                course, experience=shuffled(course.experience, self.seed)
            )

    def validate(self) -> dict[str, float]:
        """Score what is being learned; not what learns from shuffled targets, see the options."""
        return (
            {}
            if self.current_experience().task.name in self.options.shuffled
            else super().validate()
        )

    def score(self, experience: Experience) -> dict[str, float]:
        """Return the metrics; M_vqa's also say whom it listens to, over all and by question."""
        name, task, samples = experience.task.name, experience.task, experience.samples
        if not isinstance(task, AnswerTask) or name not in self.network:
            return super().score(experience)
        module = self.network[name]
        if not isinstance(module, AnswerModule):  # a user's own
            return super().score(experience)
        with gates_seen(module.G) as seen:
            found = super().score(experience)
        for callee in module.call_list if module.callees else ():
            # The questions are answered in order, a batch in so many steps.
            steps = [torch.cat([gates[callee] for gates in seen[t::STEPS]]) for t in range(STEPS)]
            gate = torch.stack(steps).mean(0).cpu().numpy()
            by_question = task.by_question(gate, samples.columns, samples.store.names)
            found[f"gate {callee}"] = float(gate.mean())
            found |= {f"gate {callee}, {kind}": mean for kind, mean in by_question.items()}
        return found

    def batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Add to the task's loss what departures and the supervision of queries ask for."""
        task = experience.task.name
        module, env = self.network[task], self.network.environment(x, task, teacher=y)
        query = module.own_query(env)
        outputs = module.outputs(module(query, env), env)
        loss = experience.task.loss(outputs, y)
        if task in self.options.supervise and "rel" in module.callees:
            if not isinstance(module, (CountModule, AnswerModule)):
                raise UserError(
                    f"supervise: M_{task} puts no query to M_rel that can be supervised"
                )
            asked = module.first_relation_query(query, env, self.departures.supervise_encoder)
            relations = module.plan.shape.count("relations")
            loss = loss + self.options.supervision * query_loss(asked, y, relations)
        if task == "cnt" and self.departures.count_distance:
            loss = loss + self.departures.count_distance * count_distance(outputs, y["count"])
        return outputs, loss

    def save(self, folder: str | Path) -> list[Path]:
        """Keep every module that was learned, each in a file of its own."""
        return [library.save(self.network[n], c, Path(folder)) for n, c in self.cards.items()]

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Take up the modules of these experiences."""
        self._given = {path: library.read_card(path) for path in _module_files(str(folder))}
        for experience in experiences:
            self.build([experience])
            if self._learning:
                raise UserError(f"{folder}: no module of {experience.task.name!r} was kept there")
            self.validation_scores[experience.task.name] = (
                self.cards[experience.task.name].score or 0.0
            )

    def _known_module(
        self, experience: Experience, callees: Mapping[str, TaskModule]
    ) -> TaskModule | None:
        """Return the module to start from, where one was given for this task."""
        alike = {
            path: card
            for path, card in self._given.items()
            if card.task == experience.task.name and set(card.calls) == set(callees)
            if card.tuned_for is None
        }
        there = {callee.identity for callee in callees.values()}
        there |= {card.identity for card in self._given.values() if card.tuned_for}
        fitting = {p: card for p, card in alike.items() if there.issuperset(card.calls.values())}
        found = list((fitting or alike).items())
        if len(found) > 1:
            known = ", ".join(card.name for _, card in found)
            raise UserError(f"start_from: several modules fit {experience.task.name!r}: {known}")
        if not found:
            return None
        path, card = found[0]
        plan = self._plan(experience)
        library.check_world(card, plan.shape, str(path))
        if experience.task.name in self.options.widths and card.sizes != asdict(plan.sizes):
            raise UserError(f"{path}: M_{card.task} has other sizes than `widths` asks for")
        self.cards[card.task] = card
        return library.load(path, {**callees, **self._tuned_callees(card, callees)})

    def _learned_elsewhere(
        self, experience: Experience, callees: Mapping[str, TaskModule]
    ) -> TaskModule | None:
        """Return the module that another run has learned in just the way that this one would."""
        name, cache = experience.task.name, self.module_cache
        if cache is None or (name == "vqa" and self.options.finetune):
            return None  # what changes other modules is not a module alone
        path = cache.find(self._recipe(experience, callees))
        if path is None:
            return None
        cache.taken.append(name)
        self.cards[name] = library.read_card(path)
        self.validation_scores[name] = self.cards[name].score or 0.0
        return library.load(path, callees)

    def _recipe(self, experience: Experience, callees: Mapping[str, TaskModule]) -> dict[str, Any]:
        """Return all that decides what a task's module comes to."""
        name, options, plan = experience.task.name, self.options, self._plan(experience)
        kind = self._module_class(experience)
        return {
            **{"task": name, "seed": self.seed, "budget": self.budget, "device": self.device.type},
            **{
                "data": experience.samples.store.digest,
                "samples": digest_of_samples(experience.samples),
            },
            "module": f"{kind.__module__}:{kind.__qualname__}",
            "sizes": asdict(plan.sizes),
            "gates": plan.gates.model_dump() if callees else None,
            "departures": plan.departures.model_dump(),
            "settings": self.settings[name].model_dump(),
            "callees": [[callee, module.identity] for callee, module in callees.items()],
            "supervision": options.supervision if name in options.supervise else None,
            **{"untrained": name in options.untrained, "shuffled": name in options.shuffled},
            "asking": options.asking if name == "vqa" else None,
            **{"threads": torch.get_num_threads(), "versions": versions()},
            "code": code_revision(),
        }

    def reuse(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        """Take modules that other runs have learned in the same way, and leave ours to them."""
        self.module_cache = ModuleCache(folder, waiting)

    def state(self) -> State:
        """Return what the template does, and which modules were learned by other runs."""
        tensors, facts = super().state()
        taken = [] if self.module_cache is None else self.module_cache.taken
        return State(tensors, {**facts, "taken": list(taken)})

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Go back to a state; modules that were learned by then count as they did."""
        super().restore(state, done)
        if self.module_cache is not None:
            self.module_cache.taken = list(state.facts["taken"])

    def details(self) -> dict[str, float]:
        """Say how many modules were learned by other runs."""
        return {} if self.module_cache is None else {"modules_reused": len(self.module_cache.taken)}

    def _tuned_callees(
        self, card: library.Card, callees: Mapping[str, TaskModule]
    ) -> dict[str, TaskModule]:
        """Return the callees that were tuned for a module and kept beside the old ones."""
        tuned = {}
        for path, other in self._given.items():
            if other.tuned_for == card.task and other.identity in card.calls.values():
                below = self.network[other.task].callees if other.task in self.network else {}
                tuned[other.task] = library.load(path, {**callees, **below})
                name = f"{other.task} of {card.task}"
                self.network.add(name, tuned[other.task])
                self.cards[name] = other
        return tuned

    def _plan(self, experience: Experience) -> ModulePlan:
        store = experience.samples.store
        width = store.table(experience.samples.split, "scenes")["regions"].shape[2]
        shape = WorldShape(width, store.names)
        sizes = SIZES[self.options.size]
        if experience.task.name in self.options.widths:
            sizes = self.options.widths[experience.task.name].of(sizes)
        usual = self.options.gates_of and experience.task.name not in self.options.gates_of
        return ModulePlan(shape, sizes, Gates() if usual else self.options.gates, self.departures)

    def _module_class(self, experience: Experience) -> type[TaskModule]:
        name = experience.task.name
        reference = self.options.modules.get(name, name)
        if name not in self.options.modules and name not in registry.MODULES:
            raise UserError(
                f"no module is known for the task {name!r}: name one among PMN's options, as "
                f'modules: {{{name}: "file:Class"}}'
            )
        found: type[TaskModule] = registry.find(reference, registry.MODULES, "module", TaskModule)
        return found

    def _unfrozen(
        self, experience: Experience, callees: Mapping[str, TaskModule]
    ) -> dict[str, TaskModule]:
        """Return the callees that this task may change, ready to learn."""
        tuned = {}
        for name in self.options.finetune if experience.task.name == "vqa" else ():
            if name not in callees:
                called = ", ".join(callees) or "none"
                raise UserError(f"finetune: {name!r} is not called by 'vqa', only {called}")
            module = callees[name]
            others = [k for k in self.network.learned if name in self.network[k].callees]
            if others and not self.options.keep_old:
                raise UserError(
                    f"finetune: {name!r} is called by {', '.join(others)}, which would change with "
                    "it; `keep_old: true` tunes a copy"
                )
            if self.options.keep_old:
                module = copy.deepcopy(module)  # which borrows the same callees
                module.callees = callees[name].callees
                self.network.add(f"{name} of {experience.task.name}", module)
            module.unfreeze()
            tuned[name] = module
        return tuned

    def _take_asking(self, module: AnswerModule) -> None:
        """Start from M_cnt's question encoder, Ω and Q→rel, or go on with the same ones."""
        counting = module.callees.get("cnt")
        if not isinstance(counting, CountModule):
            return  # nothing to take: M_vqa learns its own
        if not module.asking.fits(counting.asking):
            raise UserError(
                f"M_vqa calls {', '.join(module.callees)} but M_cnt {', '.join(counting.callees)}: "
                "they cannot have the same Ω and Q→rel; use `asking: own`, or call lists that "
                "agree on rel, obj and att"
            )
        ours, theirs = (
            {name: value.shape for name, value in asking.state_dict().items()}
            for asking in (module.asking, counting.asking)
        )
        if ours != theirs:
            raise UserError(
                "widths: M_vqa and M_cnt differ in size, so that M_vqa cannot ask with M_cnt's "
                "parts; use `asking: own`, or the same widths for both"
            )
        if self.options.asking == "copies":
            module.asking.load_state_dict(counting.asking.state_dict())
        elif counting in self._learning:
            module.share("cnt")
        else:
            raise UserError("`asking: shared` trains M_cnt's parts: it needs `finetune: [cnt]`")


def _module_files(given: str) -> list[Path]:
    """Return a module's file, or those in a folder."""
    path = Path(given).expanduser()
    if path.is_dir():
        return list(library.read_library(path))
    if not path.exists():
        raise UserError(f"start_from: {given}: no such file or folder")
    return [path]


def query_loss(asked: RelationQuery, y: Mapping[str, Tensor], relations: int) -> Tensor:
    """Cross-entropy on [b, r] of the samples that need a relation; any box of the anchor is right.

    Samples that need none have relation -1, and cost nothing. The world has so many relations,
    each in as many directions as it names.
    """
    needs = y["ask_relation"] >= 0
    if not bool(needs.any()):
        return asked.box.sum() * 0
    box = (asked.box * y["ask_boxes"]).sum(1)[needs]
    code = relation_code(y["ask_relation"], y["ask_direction"], relations)[needs]
    relation = asked.relation[needs].gather(1, code[:, None])
    floor = torch.finfo(box.dtype).tiny
    return -box.clamp(min=floor).log().mean() - relation.clamp(min=floor).log().mean()


def count_distance(logits: Tensor, count: Tensor) -> Tensor:
    """Smooth L1 between the expected count and the true one."""
    numbers = torch.arange(logits.shape[1], device=logits.device, dtype=logits.dtype)
    return smooth_l1_loss(logits.softmax(1) @ numbers, count.to(logits))
