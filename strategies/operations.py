"""Floating-point operations of learning and of answering, counted in real steps.

One step of each kind is counted as torch carries it out, and stands for all of its kind, a batch of
fewer samples for as much less. Kinds are
the task of a batch, and whether it is the first time that its scenes are seen: what frozen modules
say of a scene is worked out then, and remembered. Nothing is done twice, and no digit changes.

Operations are those of matrix products, convolutions and attention, as torch's own counter has
them: two for each product that is added up. What else was carried out is listed by name with the
number of elements that it made, since a count of 0 would be wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from pmn_cl.strategy.base import Experience

if TYPE_CHECKING:
    from strategies.loop import TaskTemplate

Kind: TypeAlias = str

# Copies and views make no number that was not there.
_MOVES = (
    *("copy", "clone", "empty", "zeros", "ones", "fill", "detach", "slice", "index", "gather"),
    *("view", "reshape", "cat", "stack", "scatter"),
)


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that are carried out inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.others: Counter[str] = Counter()  # elements made by operations that are not counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in flop_registry:
            self.operations += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        elif not func.is_view and not any(part in packet.__name__ for part in _MOVES):
            made = (
                [out] if isinstance(out, Tensor) else out if isinstance(out, (tuple, list)) else []
            )
            elements = sum(
                t.numel() for t in made if isinstance(t, Tensor) and t.is_floating_point()
            )
            if elements:
                self.others[packet.__name__] += elements
        return out


class OperationLog:
    """What learning takes, kind by kind of step, and what answering takes."""

    def __init__(self) -> None:
        self.learned = 0.0  # operations of the phase so far
        self.others: dict[str, float] = defaultdict(float)  # elements, as `OperationCounter` has
        self.answer: dict[str, float] = {}  # by task: of one sample
        self._per_sample: dict[Kind, tuple[float, dict[str, float]]] = {}
        self._under_way: tuple[Kind, int, OperationCounter, ExitStack] | None = None

    def begin_phase(self) -> None:
        """Count anew."""
        self.learned, self.others, self._per_sample = 0.0, defaultdict(float), {}

    def begin_step(self, kind: Kind, samples: int) -> None:
        """Count a step, or take it as another of its kind."""
        if kind not in self._per_sample:
            counter, until = OperationCounter(), ExitStack()
            until.enter_context(counter)
            self._under_way = kind, samples, counter, until
            return
        self._add(kind, samples)

    def end_step(self) -> None:
        """Note what the step took, if it is the first of its kind."""
        if self._under_way is not None:
            kind, samples, counter, until = self._under_way
            self._under_way = None
            until.close()
            others = {name: count / samples for name, count in counter.others.items()}
            self._per_sample[kind] = counter.operations / samples, others
            self._add(kind, samples)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Count no more than what is done inside, however that ends."""
        try:
            yield
        finally:
            if self._under_way is not None:
                self._under_way[3].close()
                self._under_way = None

    def _add(self, kind: Kind, samples: int) -> None:
        operations, others = self._per_sample[kind]
        self.learned += operations * samples
        for name, count in others.items():
            self.others[name] += count * samples

    @contextmanager
    def answering(self, task: str, samples: int) -> Iterator[None]:
        """Count what answering these samples takes, where that is not known."""
        if task in self.answer or self._under_way is not None:
            yield
            return
        with OperationCounter() as counter:
            yield
        self.answer[task] = counter.operations / samples

    def state(self) -> dict[str, Any]:
        """Return plain values to go on from."""
        return {
            **{"learned": self.learned, "others": dict(self.others), "answer": self.answer},
            "per_sample": self._per_sample,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.learned, self.others = state["learned"], defaultdict(float, state["others"])
        self.answer = dict(state["answer"])
        self._per_sample = {kind: (n, others) for kind, (n, others) in state["per_sample"].items()}


def operations_to_learn(strategy: TaskTemplate, experiences: Sequence[Experience]) -> float:
    """Return about how many operations learning these experiences takes, without learning them.

    Two steps of each task are counted: the scenes of a first epoch are new, those of others known.
    What a method does beside its losses (projecting gradients, weighing weights) is not among them.
    """
    total = 0.0
    for experience in experiences:
        strategy.experiences[experience.task_label] = experience
        strategy.batch_experience = experience
        strategy.prepare(experience)
        strategy.attach_scenes(experience)
        batches = strategy.batches_of(experience)
        steps = strategy.settings[experience.task.name].steps(len(batches), strategy.budget)
        x, y, _ = next(iter(batches.from_step(0)))
        strategy.model.train()
        counted = []
        for _ in range(2):
            with OperationCounter() as counter:
                _, loss = strategy.batch_loss(x, y, experience)
                loss.backward()  # type: ignore[no-untyped-call]
            counted.append(counter.operations / len(x))
        strategy.model.zero_grad(set_to_none=True)
        first = min(1.0, steps / len(batches))  # epochs
        again = steps / len(batches) - first
        total += len(experience.batches) * (first * counted[0] + again * counted[1])
        strategy.finish(experience)
    return total


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Return how much room tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
