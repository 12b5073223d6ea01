"""Modules that other runs have learned already, found by what they were learned from.

A recipe is all that decides a module's weights: data, samples, seed, settings, what it calls. So a
module that is taken from here is, to the bit, the one that would have been learned. What learning
it took is kept beside it: it costs the same in every run that has it. Several processes may share
a folder: one learns, the others wait for it; if it dies, another goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from pmn_cl.files import held, write_whole
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.task_module import TaskModule

_FOR_EVER = float("inf")  # the process that learns it lets go when it ends, however it ends
_COST = "cost.json"


class KeptModule(NamedTuple):
    """The file of a module, and what learning it took."""

    path: Path
    cost: dict[str, Any]


class ModuleCache:
    """A folder with a module for each recipe."""

    def __init__(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        self._folder, self._waiting = folder, waiting
        self._held = ExitStack()
        self._place: Path | None = None  # of the module that this process is about to learn
        self.learning: str | None = None  # its task

    def find(self, recipe: Mapping[str, Any]) -> KeptModule | None:
        """Return a module; where there is none, the caller is the one to learn it."""
        place = self._folder / _key(recipe)
        place.mkdir(parents=True, exist_ok=True)
        found = _kept(place)
        if found is None:
            self.give_up()
            self._held.enter_context(held(place, "", _FOR_EVER, self._waiting))
            found = _kept(place)  # another process may have learned it meanwhile
            if found is None:
                self._place, self.learning = place, recipe["task"]
            else:
                self.give_up()
        return found

    def keep(self, module: TaskModule, card: library.Card, cost: Mapping[str, Any]) -> None:
        """Put the module that was to be learned in its place."""
        if self._place is not None:
            write_whole(self._place / _COST, json.dumps(cost))
            library.save(module, card, self._place)
        self.give_up()

    def give_up(self) -> None:
        """Let another learn it."""
        self._place = self.learning = None
        self._held.close()


def _kept(place: Path) -> KeptModule | None:
    """Return the module of a place; one of which nobody knows what it took does not count."""
    path = next(place.glob(f"*{library.SUFFIX}"), None)
    if path is None or not (place / _COST).exists():
        return None
    return KeptModule(path, json.loads((place / _COST).read_text("utf-8")))


def _key(recipe: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{recipe['task']}-{digest[:16]}"
