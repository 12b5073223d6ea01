"""Floating-point operations of learning and of answering, counted in real steps.

A step of each kind (the task of its batch) is counted as torch carries it out, and stands for all
of its kind, a batch of fewer samples for as much less. What frozen modules work out once for a
scene or a sample and then remember is counted for itself, by the rows that are worked out; what a
method does before and after all steps of a task is counted whole. Nothing is done twice, and no
digit changes.

Operations are those of matrix products, convolutions and attention, as torch's own counter has
them: two for each product that is added up. What else was carried out is listed by name with the
number of elements that it made, since a count of 0 would be wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience

if TYPE_CHECKING:
    from strategies.loop import TaskTemplate

_ANSWERED = 64  # samples
# Copies and views make no number that was not there.
_MOVES = (
    *("copy", "clone", "empty", "zeros", "ones", "fill", "detach", "slice", "index", "gather"),
    *("view", "reshape", "cat", "stack", "scatter"),
)


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that are carried out inside it, unless it is paused."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.others: Counter[str] = Counter()  # elements made by operations that are not counted
        self.paused = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if self.paused:
            return out
        if packet in flop_registry:
            self.operations += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        elif not func.is_view and not any(part in packet.__name__ for part in _MOVES):
            made = [out] if isinstance(out, Tensor) else out
            made = made if isinstance(made, (tuple, list)) else []
            floats = (t for t in made if isinstance(t, Tensor) and t.is_floating_point())
            elements = sum(t.numel() for t in floats)
            if elements:
                self.others[packet.__name__] += elements
        return out


class OperationLog:
    """What learning a task takes: step by step, what is remembered, and what is done around."""

    def __init__(self) -> None:
        self.learned = 0.0  # operations of the phase so far
        self.others: dict[str, float] = defaultdict(float)  # elements, as `OperationCounter` has
        self.per_row: dict[str, float] = {}  # by what is remembered: operations for each row
        self.rows: dict[str, int] = {}  # how many rows it has in all
        self._per_sample: dict[str, tuple[float, dict[str, float]]] = {}  # by kind of step
        self._counters: list[OperationCounter] = []  # that are under way, one inside another
        self._step: tuple[str, int, ExitStack] | None = None
        self._learning = False  # what is worked out now is for learning

    def begin_phase(self) -> None:
        """Count anew."""
        self.learned, self.others, self._per_sample = 0.0, defaultdict(float), {}

    @contextmanager
    def _counting(self) -> Iterator[OperationCounter]:
        with OperationCounter() as counter:
            self._counters.append(counter)
            try:
                yield counter
            finally:
                self._counters.pop()

    def begin_step(self, kind: str, samples: int) -> None:
        """Count a step, or take it as another of its kind."""
        self._learning = True
        until = ExitStack()
        if kind not in self._per_sample:
            until.enter_context(self._counting())
        self._step = kind, samples, until

    def end_step(self) -> None:
        """Add what the step took."""
        if self._step is None:
            return
        (kind, samples, until), self._step = self._step, None
        counter = self._counters[-1] if self._counters else None
        until.close()
        if counter is not None:
            others = {name: count / samples for name, count in counter.others.items()}
            self._per_sample[kind] = counter.operations / samples, others
        operations, others = self._per_sample[kind]
        self.learned += operations * samples
        for name, count in others.items():
            self.others[name] += count * samples
        self._learning = False

    @contextmanager
    def around(self) -> Iterator[None]:
        """Count all that is done inside: before the first step of a task, or after the last."""
        self._learning = True
        with self._counting() as counter:
            yield
        self._learning = False
        self.learned += counter.operations
        for name, count in counter.others.items():
            self.others[name] += count

    @contextmanager
    def remembering(self, what: str, rows: int, count: int) -> Iterator[None]:
        """Count what working out some of so many rows takes, for itself: they are remembered."""
        for counter in self._counters:
            counter.paused += 1
        try:
            if what in self.per_row:
                yield
            else:
                with self._counting() as own:
                    yield
                self.per_row[what], self.rows[what] = own.operations / rows, count
        finally:
            for counter in self._counters:
                counter.paused -= 1
        if self._learning:
            self.learned += self.per_row[what] * rows

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Count no more than what is done inside, however that ends."""
        try:
            yield
        finally:
            if self._step is not None:
                self._step[2].close()
                self._step, self._learning = None, False

    def state(self) -> dict[str, Any]:
        """Return plain values to go on from."""
        return {
            **{"learned": self.learned, "others": dict(self.others)},
            **{"per_row": self.per_row, "rows": self.rows, "per_sample": self._per_sample},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.learned, self.others = state["learned"], defaultdict(float, state["others"])
        self.per_row, self.rows = dict(state["per_row"]), dict(state["rows"])
        self._per_sample = {kind: (n, others) for kind, (n, others) in state["per_sample"].items()}


def operations_to_learn(strategy: TaskTemplate, experiences: Sequence[Experience]) -> float:
    """Return about how many operations learning these experiences takes, without learning them.

    A step of each task is counted, and what is remembered of all its scenes.
    """
    if not strategy.predictable:
        raise UserError(
            f"what {type(strategy).__name__} takes beside its losses is known only after learning; "
            "match it by parameters"
        )
    log, total = strategy.operations, 0.0
    for experience in experiences:
        strategy.experiences[experience.task_label] = experience
        strategy.experience = strategy.batch_experience = experience
        strategy.prepare(experience)
        strategy.attach_scenes(experience)
        batches = strategy.batches_of(experience)
        steps = strategy.settings[experience.task.name].steps(len(batches), strategy.budget)
        x, y, _ = next(iter(batches.from_step(0)))
        strategy.model.train()
        known = {*log.per_row}
        log.begin_phase()
        log.begin_step(experience.task.name, len(x))
        with log.closing():
            _, loss = strategy.batch_loss(x, y, experience)
            loss.backward()  # type: ignore[no-untyped-call]
            new = {*log.per_row} - known
            begun = log.learned  # for some rows
            log.end_step()
        strategy.model.zero_grad(set_to_none=True)
        epochs = steps / len(batches)
        total += (log.learned - begun) / len(x) * len(experience.batches) * epochs
        total += sum(log.per_row[what] * log.rows[what] for what in new) * min(1.0, epochs)
        strategy.finish(experience)
    log.begin_phase()
    return total


def operations_to_answer(strategy: TaskTemplate, experience: Experience) -> float:
    """Return what answering a sample takes while nothing is known of its scene.

    On the first samples of a task, those of a scene together, as they come.
    """
    x, _ = experience.batches[np.arange(min(_ANSWERED, len(experience.batches)))]
    network: Any = strategy.model
    was_training, memory = network.training, getattr(network, "memory", None)
    network.eval()
    try:
        if memory is not None:
            network.memory = None
        with OperationCounter() as counter, torch.no_grad():
            network(x.to(strategy.device), experience.task.name)
    finally:
        network.train(was_training)
        if memory is not None:
            network.memory = memory
    operations: int = counter.operations
    return operations / len(x)


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Return how much room tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
