"""Where a run keeps its state, to go on from when it was cut off, and when. Whole, or not there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pmn_cl.errors import UserError
from pmn_cl.runs.cost import Clock
from pmn_cl.strategy.base import State, Strategy

CHECKPOINT = "checkpoint.safetensors"


class Checkpoint(NamedTuple):
    """A state, how many phases were done before it, and what the phase it is in had cost."""

    state: State
    done: int
    spent: dict[str, float]


class Checkpoints:
    """One file that holds the last state of a run."""

    def __init__(self, folder: Path, every: float = 60.0) -> None:
        self.path = folder / CHECKPOINT
        self._run = folder.absolute().name  # the key, which says all that a state depends on
        self._every = every
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the last state is so old that a new one is worth its time."""
        return time.monotonic() >= self._last + self._every

    def write(self, kept: Checkpoint) -> None:
        """Replace the state; one that cannot be written whole leaves the old one in place."""
        from safetensors.torch import save_file

        facts = {
            "run": self._run,
            "facts": kept.state.facts,
            "done": kept.done,
            "spent": kept.spent,
        }
        partial = self.path.with_suffix(".partial")
        try:
            save_file(kept.state.tensors, partial, metadata={"run": json.dumps(facts)})
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        except Exception as error:  # safetensors has errors of its own for a full disk
            with suppress(OSError):
                partial.unlink()
            raise UserError(
                f"{self.path}: the run's state cannot be kept: {error}; check the disk's space "
                "and the folder's permissions, then run again"
            ) from error
        self._last = time.monotonic()

    def read(self) -> Checkpoint | None:
        """Return the last state, if there is one; what is not whole or another's is refused."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                facts: dict[str, Any] = json.loads(file.metadata()["run"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            kept = Checkpoint(State(tensors, facts["facts"]), facts["done"], facts["spent"])
            run = facts["run"]
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise UserError(
                f"{self.path}: is no whole state of a run ({error}); run again to start it over"
            ) from None
        if run != self._run:
            raise UserError(
                f"{self.path}: is the state of {run}, expected that of {self._run}; "
                "run again to start it over"
            )
        return kept

    def clear(self) -> None:
        """Forget the state: the run is over."""
        self.path.unlink(missing_ok=True)


class Interrupted(Exception):  # noqa: N818  # nothing went wrong
    """A run was asked to stop, and has kept its state."""


class Keeper:
    """Keeps a run's state from time to time, and when it is asked to stop."""

    def __init__(self, checkpoints: Checkpoints, stop: Callable[[], bool]) -> None:
        self._checkpoints, self._stop = checkpoints, stop
        self.done = 0  # phases
        self.steps = 0  # of training in the phase that is under way
        self.clock = Clock()

    def begin_phase(self) -> None:
        """Count steps and costs anew."""
        self.steps, self.clock = 0, Clock()

    def go_on_from(self, kept: Checkpoint) -> None:
        """Count on from where a run was cut off."""
        self.done, self.clock = kept.done, Clock(kept.spent)
        self.steps = int(kept.spent.get("steps", 0))

    def after_step(self, strategy: Strategy) -> None:
        """Keep the state if it is time; leave if it is time to."""
        stop = self._stop()
        if stop or self._checkpoints.due:
            self.keep(strategy)
        if stop:
            raise Interrupted

    def between(self) -> None:
        """Leave if it is time to, where there is nothing new to keep."""
        if self._stop():
            raise Interrupted

    def keep(self, strategy: Strategy) -> None:
        """Keep the state now."""
        state = strategy.state()
        if state is not None:
            spent = {**self.clock.spent(), "steps": self.steps}
            self._checkpoints.write(Checkpoint(state, self.done, spent))
