"""The environment ℰ that every module can see, and what is kept of it from batch to batch.

Not here: what modules make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.trace import Trace

Found = TypeVar("Found")

_NARROW = 256  # up to here, plain products and sums beat batched matrix products on CPUs
_BLOCK = 256  # scenes or samples that are looked at together when their findings are to be kept


@dataclass(frozen=True, eq=False)
class Environment:
    """Regions X with their boxes, the question where there is one, and a place for findings."""

    regions: Tensor  # (B, N, d)
    boxes: Tensor  # (B, N, 4)
    mask: Tensor  # (B, N), False for padding
    fields: Mapping[str, Tensor] = field(default_factory=dict)  # a batch's other columns
    memory: Memory | None = None
    trace: Trace | None = None
    task: str = ""  # whose samples these are
    _found: dict[tuple[int, str], Any] = field(default_factory=dict)
    _found_of: dict[tuple[int, str], _Table] = field(default_factory=dict)  # of some samples
    _part_of: tuple[Environment, Tensor] | None = None  # and which of its samples these are

    @classmethod
    def of(
        cls,
        batch: Mapping[str, Tensor],
        memory: Memory | None = None,
        trace: Trace | None = None,
        task: str = "",
    ) -> Environment:
        """Return the environment of a batch; refuse one in which there is nothing to see."""
        fields = dict(batch.items())
        missing = [name for name in ("regions", "boxes", "mask") if name not in fields]
        if missing:
            raise UserError(
                f"the batch has no {', '.join(missing)}; it has {', '.join(sorted(fields))}"
            )
        regions, boxes, mask = (fields.pop(name) for name in ("regions", "boxes", "mask"))
        if regions.shape[1] == 0 or not bool(mask.any(1).all()):
            raise UserError("a scene has no regions: modules need at least one to look at")
        if regions.dtype == torch.float16:  # as large stores keep them
            regions = regions.float()
        return cls(regions, boxes, mask, fields, memory, trace, task)

    def __getitem__(self, name: str) -> Tensor:
        """Return another column of the batch, such as the question."""
        if name not in self.fields:
            there = ", ".join(["regions", "boxes", "mask", *sorted(self.fields)])
            raise UserError(f"the batch has no field {name!r}; it has {there}")
        return self.fields[name]

    def __len__(self) -> int:
        return len(self.regions)

    def rows(self, chosen: Tensor) -> Environment:
        """Return the environments of some samples, without trace.

        What is found out about them the whole keeps, for whoever asks about them again.
        """
        whole, among = self._part_of or (self, None)
        return replace(
            self,
            regions=self.regions[chosen],
            boxes=self.boxes[chosen],
            mask=self.mask[chosen],
            fields={name: value[chosen] for name, value in self.fields.items()},
            trace=None,
            _found={},
            _found_of={},
            _part_of=(whole, chosen if among is None else among[chosen]),
        )

    def mean_region(self) -> Tensor:
        """Return the mean of the regions that are there (B, d)."""
        return self.attended(self.mask / self.mask.sum(1, keepdim=True))

    def attended(self, attention: Tensor) -> Tensor:
        """Return the sum of the regions (B, d), weighted by an attention map (B, N)."""
        return weighted_sum(attention, self.regions)

    def softmax(self, logits: Tensor) -> Tensor:
        """Turn logits (B, N) into an attention map; padding gets none."""
        return logits.masked_fill(~self.mask, -torch.inf).softmax(1)

    def once(self, owner: nn.Module, what: str, find: Callable[[], Found]) -> Found:
        """Return what ``find`` finds out, asking once for this batch."""
        key = (id(owner), what)
        if key not in self._found:
            self._found[key] = find()
        found: Found = self._found[key]
        return found

    def recall(self, owner: nn.Module, what: str, find: Callable[[Environment], Tensor]) -> Tensor:
        """Return what ``find`` finds out about the scenes, whatever the question.

        What a frozen module finds out about a scene stays true, and is kept in the memory.
        """

        def recalled() -> Tensor:
            identity = getattr(owner, "identity", None)  # only a frozen module has one
            if self.memory is None or identity is None or "scene" not in self.fields:
                return self._find(owner, what, find)
            return self.memory.recall(f"{identity}/{what}", self, find)

        return self.once(owner, what, recalled)

    def recall_sample(
        self, owner: nn.Module, what: str, find: Callable[[Environment], Tensor]
    ) -> Tensor:
        """Return what ``find`` finds out about the scenes and what the samples ask of them."""

        def recalled() -> Tensor:
            identity = getattr(owner, "identity", None)
            if self.memory is None or identity is None or "sample" not in self.fields:
                return self._find(owner, what, find)
            return self.memory.recall_sample(f"{identity}/{what}", self, find)

        return self.once(owner, what, recalled)

    def _find(self, owner: nn.Module, what: str, find: Callable[[Environment], Tensor]) -> Tensor:
        """Find out about the samples; of a part, about those that nobody asked about yet."""
        if self._part_of is None:
            return find(self)
        whole, among = self._part_of
        if (id(owner), what) in whole._found:
            found: Tensor = whole._found[id(owner), what]
            return found[among]
        table = whole._found_of.get((id(owner), what))
        new = torch.unique(among if table is None else among[~table.known[among]])
        if table is None or len(new):
            found = find(whole.rows(new))
            table = table or _Table.like(found, len(whole))
            table.put(new, found)
            whole._found_of[id(owner), what] = table
        return table.values[among]


def weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return Σᵢ wᵢ vᵢ (B, d) of weights (B, N) and vectors (B, N, d)."""
    if vectors.shape[2] <= _NARROW:
        return (weights[:, :, None] * vectors).sum(1)
    return torch.bmm(weights[:, None], vectors).squeeze(1)


def products(key: Tensor, vectors: Tensor) -> Tensor:
    """Return k · vᵢ (B, N) of keys (B, d) and vectors (B, N, d)."""
    if vectors.shape[2] <= _NARROW:
        return (key[:, None] * vectors).sum(2)
    found: Tensor = _Products.apply(key, vectors)  # type: ignore[no-untyped-call]
    return found


class _Products(torch.autograd.Function):
    """k · vᵢ with a gradient of its own.

    On CPUs a row times a matrix is many times faster than a matrix times a column, in batches;
    torch's gradients of either come to the slow one, or to vectors that lie across memory.
    """

    @staticmethod
    def forward(ctx: Any, key: Tensor, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(key, vectors)
        return torch.bmm(key[:, None], vectors.transpose(1, 2)).squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        key, vectors = ctx.saved_tensors
        for_key, for_vectors = ctx.needs_input_grad
        return (
            weighted_sum(grad, vectors) if for_key else None,
            grad[:, :, None] * key[:, None] if for_vectors else None,
        )


class Memory:
    """What frozen modules found out, worked out once per scene, or once per question.

    Scenes and samples are always looked at in the same blocks, so that a finding has the same
    bits whoever asks first. Beyond ``limit`` bytes nothing more is kept, and is worked out anew.
    """

    def __init__(self, limit: int = 4_000_000_000) -> None:
        self._limit = limit
        self._scenes: dict[int, Scenes] = {}  # by their first scene
        self._samples: dict[tuple[str, int], Batches] = {}  # by task and first scene
        self._tables: dict[str, _Table | None] = {}  # None: no room

    def attach(self, scenes: Scenes) -> None:
        """Let the scenes of a split be remembered; another world's are forgotten."""
        if any(scenes.world != known.world for known in self._scenes.values()):
            self._scenes, self._samples, self._tables = {}, {}, {}
        self._scenes[scenes.first] = scenes

    def attach_samples(self, task: str, batches: Batches) -> None:
        """Let what is asked about the scenes be remembered, too."""
        self.attach(batches.scenes)
        place = (task, batches.scenes.first)
        if self._samples.get(place) is not batches:
            self._samples[place] = batches
            old = f"/{task}/{batches.scenes.first}"  # other samples, by the same numbers
            self._tables = {k: t for k, t in self._tables.items() if not k.endswith(old)}

    def recall(self, key: str, env: Environment, find: Callable[[Environment], Tensor]) -> Tensor:
        """Return findings about the scenes of a batch."""
        scenes = self._scenes_of(env)
        if scenes is None:
            return find(env)

        def look(rows: Tensor) -> Tensor:
            return find(Environment.of(_on(env, scenes.take(rows))))

        place, number = f"{key}/{scenes.first}", env["scene"] - scenes.first
        found = self._look_up(place, number, len(scenes), look)
        return find(env) if found is None else found

    def recall_sample(
        self, key: str, env: Environment, find: Callable[[Environment], Tensor]
    ) -> Tensor:
        """Return findings about the samples of a batch: what was asked, and of which scene."""
        scenes = self._scenes_of(env)
        batches = self._samples.get((env.task, scenes.first)) if scenes is not None else None
        if scenes is None or batches is None or not batches.holds(env.fields):
            return find(env)

        def look(rows: Tensor) -> Tensor:
            return find(Environment.of(_on(env, batches[rows][0]), self))

        place = f"{key}/{env.task}/{scenes.first}"
        found = self._look_up(place, env["sample"], len(batches), look)
        return find(env) if found is None else found

    def _look_up(
        self, place: str, number: Tensor, count: int, look: Callable[[Tensor], Tensor]
    ) -> Tensor | None:
        """Return what is known by these numbers, after looking at what is not; or no room."""
        if place not in self._tables:
            with torch.no_grad():
                example = look(torch.arange(1))
            size = example.numel() * example.element_size() * count
            room = self._size() + size <= self._limit
            self._tables[place] = _Table.like(example, count) if room else None
        table = self._tables[place]
        if table is None:
            return None
        for block in torch.unique(number[~table.known[number]] // _BLOCK).tolist():
            first, end = block * _BLOCK, min((block + 1) * _BLOCK, count)
            with torch.no_grad():
                table.put(slice(first, end), look(torch.arange(first, end)))
        return table.values.index_select(0, number)

    def _scenes_of(self, env: Environment) -> Scenes | None:
        """Return the split that holds all scenes of a batch."""
        low, high = int(env["scene"].min()), int(env["scene"].max())
        for first, scenes in self._scenes.items():
            if first <= low and high < first + len(scenes):
                return scenes
        return None

    def _size(self) -> int:
        kept = [table.values for table in self._tables.values() if table is not None]
        return sum(values.numel() * values.element_size() for values in kept)


@dataclass
class _Table:
    """One finding about every scene of a split, as far as it is known."""

    values: Tensor  # (scenes, …)
    known: Tensor  # (scenes,)

    @classmethod
    def like(cls, example: Tensor, scenes: int) -> _Table:
        values = example.new_empty((scenes, *example.shape[1:]))
        return cls(values, torch.zeros(scenes, dtype=torch.bool, device=example.device))

    def put(self, rows: Tensor | slice, found: Tensor) -> None:
        self.values[rows] = found
        self.known[rows] = True


def _on(env: Environment, taken: Any) -> dict[str, Tensor]:
    """Return tensors on the device of an environment."""
    return {name: value.to(env.regions.device) for name, value in taken.items()}


def select(query: Any, chosen: Tensor) -> Any:
    """Return the rows of a query: a tensor, a named tuple of tensors, or nothing."""
    if isinstance(query, Tensor):
        return query[chosen]
    if isinstance(query, tuple):
        return type(query)(*(select(part, chosen) for part in query))
    return query
