"""Modules that need not be learned: given in files, or learned by other runs in the same way."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pmn_cl.data.samples import digest_of_rows, digest_of_samples
from pmn_cl.errors import UserError
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.library.cache import ModuleCache
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.task_module import TaskModule
from pmn_cl.strategy.base import Experience, LearningCost
from pmn_cl.strategy.training import TrainingSettings
from strategies.module_factory import ModuleFactory


class KnownModule(NamedTuple):
    """A module with its card, and the callees that were tuned for it, by their tasks."""

    module: TaskModule
    card: library.Card
    tuned: dict[str, tuple[TaskModule, library.Card]]


class GivenModules:
    """Modules in files that a user names, by their cards."""

    def __init__(self, given: Sequence[str], without: Container[str] = ()) -> None:
        files = [path for name in given for path in _module_files(name)]
        cards = {path: library.read_card(path) for path in files}
        self._cards = {path: card for path, card in cards.items() if card.task not in without}

    def find(
        self,
        experience: Experience,
        callees: Mapping[str, TaskModule],
        factory: ModuleFactory,
        network: ModuleNetwork,
    ) -> KnownModule | None:
        """Return the module of a task that calls just these, where one was given."""
        name = experience.task.name
        found = self._fitting(name, callees)
        if len(found) > 1:
            known = ", ".join(card.name for card in found.values())
            raise UserError(f"start_from: several modules fit {name!r}: {known}")
        for path, card in found.items():
            plan = factory.plan(experience)
            library.check_world(card, plan.shape, str(path))
            if name in factory.options.widths and card.sizes != asdict(plan.sizes):
                raise UserError(f"{path}: M_{card.task} has other sizes than `widths` asks for")
            tuned = self._tuned_callees(card, callees, network)
            ours = {task: module for task, (module, _) in tuned.items()}
            return KnownModule(library.load(path, {**callees, **ours}), card, tuned)
        return None

    def _fitting(self, task: str, callees: Mapping[str, TaskModule]) -> dict[Path, library.Card]:
        """Return the modules of a task with these callees: with the same ones, or else alike."""
        alike = {
            path: card
            for path, card in self._cards.items()
            if card.task == task and set(card.calls) == set(callees)
            if card.tuned_for is None
        }
        there = {callee.identity for callee in callees.values()}
        there |= {card.identity for card in self._cards.values() if card.tuned_for}
        same = {p: card for p, card in alike.items() if there.issuperset(card.calls.values())}
        return same or alike

    def _tuned_callees(
        self, card: library.Card, callees: Mapping[str, TaskModule], network: ModuleNetwork
    ) -> dict[str, tuple[TaskModule, library.Card]]:
        """Return the callees that were tuned for a module and kept beside the old ones."""
        tuned = {}
        for path, other in self._cards.items():
            if other.tuned_for == card.task and other.identity in card.calls.values():
                below = network[other.task].callees if other.task in network else {}
                tuned[other.task] = library.load(path, {**callees, **below}), other
        return tuned


class SharedModules:
    """Modules that other runs have learned in the same way."""

    def __init__(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        self._cache = ModuleCache(folder, waiting)
        self.last: LearningCost | None = None  # of the last task, if it was taken
        self.taken: dict[str, float] = {}  # by task: CPU-seconds that it took another run

    def find(
        self, recipe: Mapping[str, Any], callees: Mapping[str, TaskModule]
    ) -> KnownModule | None:
        """Take a module; where there is none, it is to be learned, and left."""
        found = self._cache.find(recipe)
        if found is None:
            return None
        self.last = LearningCost(**found.cost)
        self.taken[recipe["task"]] = self.last.cpu_seconds
        return KnownModule(library.load(found.path, callees), library.read_card(found.path), {})

    def leave(
        self, network: ModuleNetwork, cards: Mapping[str, library.Card], cost: LearningCost
    ) -> None:
        """Leave the module that was to be learned to other runs."""
        name = self._cache.learning
        if name is not None:
            self._cache.keep(network[name], cards[name], asdict(cost))


def recipe(
    experience: Experience,
    callees: Mapping[str, TaskModule],
    factory: ModuleFactory,
    settings: TrainingSettings,
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all that decides what a task's module comes to; ``run``: what its data do not say."""
    name, options, plan = experience.task.name, factory.options, factory.plan(experience)
    kind, samples = factory.module_class(experience), experience.samples
    return {
        **run,
        "task": name,
        **{"data": samples.store.digest, "samples": digest_of_samples(samples)},
        "module": f"{kind.__module__}:{kind.__qualname__}",
        "sizes": asdict(plan.sizes),
        "gates": plan.gates.model_dump() if callees else None,
        "departures": plan.departures.model_dump(),
        "settings": settings.model_dump(),
        "curriculum": [[until, digest_of_rows(rows)] for until, rows in experience.curriculum],
        "callees": [[callee, module.identity] for callee, module in callees.items()],
        "supervision": options.supervision if name in options.supervise else None,
        **{"untrained": name in options.untrained, "shuffled": name in options.shuffled},
        "asking": options.asking if name == "vqa" else None,
        "memory": options.memory if callees else None,  # what is kept is rounded otherwise
    }


def _module_files(given: str) -> list[Path]:
    """Return a module's file, or those in a folder."""
    path = Path(given).expanduser()
    if path.is_dir():
        return list(library.read_library(path))
    if not path.exists():
        raise UserError(f"start_from: {given}: no such file or folder")
    return [path]
