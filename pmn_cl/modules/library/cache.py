"""Modules that other runs have learned already, found by what they were learned from.

A recipe is all that decides a module's weights: data, samples, seed, settings, what it calls. So a
module that is taken from here is, to the bit, the one that would have been learned. Several
processes may share a folder: one learns, the others wait for it; if it dies, another goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pmn_cl.files import held
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.task_module import TaskModule

_FOR_EVER = float("inf")  # the process that learns it lets go when it ends, however it ends


class ModuleCache:
    """A folder with a module for each recipe."""

    def __init__(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        self._folder, self._waiting = folder, waiting
        self._held = ExitStack()
        self._recipe: str | None = None  # that this process is about to learn
        self.taken: list[str] = []  # tasks whose modules were there

    def find(self, recipe: Mapping[str, Any]) -> Path | None:
        """Return the file of a module; where there is none, the caller is the one to learn it."""
        key = _key(recipe)
        (self._folder / key).mkdir(parents=True, exist_ok=True)
        found = self._file(key)
        if found is None:
            self.give_up()
            self._held.enter_context(held(self._folder / key, "", _FOR_EVER, self._waiting))
            found = self._file(key)  # another process may have learned it meanwhile
            if found is None:
                self._recipe = key
            else:
                self.give_up()
        return found

    def keep(self, module: TaskModule, card: library.Card) -> None:
        """Put the module that was to be learned in its place."""
        if self._recipe is not None:
            library.save(module, card, self._folder / self._recipe)
        self.give_up()

    def give_up(self) -> None:
        """Let another learn it."""
        self._recipe = None
        self._held.close()

    def _file(self, key: str) -> Path | None:
        return next((self._folder / key).glob(f"*{library.SUFFIX}"), None)


def _key(recipe: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{recipe['task']}-{digest[:16]}"
