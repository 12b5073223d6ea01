"""Who asked whom what: a record of the calls that modules make. Costs nothing when it is off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Call:
    """One query of a caller to a callee, at one of the caller's steps, for a whole batch."""

    caller: str
    callee: str
    step: int  # of the caller, from 1; 0 for what it asks before the first
    depth: int  # 0 for calls of the module that was asked by the user
    number: int  # in the order of asking, from 1
    gate: Tensor | None  # (B,), the callee's importance
    query: Any
    output: Any


@dataclass
class Trace:
    """The calls in the order in which they were finished."""

    calls: list[Call] = field(default_factory=list)
    _depth: int = 0
    _asked: int = 0

    @contextmanager
    def inside(self) -> Iterator[tuple[int, int]]:
        """Mark what is called meanwhile as one level deeper; gives depth and number of the call."""
        self._asked += 1
        number = self._asked
        self._depth += 1
        try:
            yield self._depth - 1, number
        finally:
            self._depth -= 1

    def add(self, *call: Any) -> None:
        """Record a call, in the order of its fields."""
        self.calls.append(Call(*call))

    def of(self, caller: str, callee: str) -> list[Call]:
        """Return the calls from one module to another, by step."""
        return [call for call in self.calls if (call.caller, call.callee) == (caller, callee)]

    def sample(self, row: int) -> list[dict[str, Any]]:
        """Return one sample's calls as plain data, for JSON."""
        names = [part.name for part in fields(Call)]
        return [{name: plain(getattr(call, name), row) for name in names} for call in self.calls]


def plain(value: Any, row: int) -> Any:
    """Return one sample of a query or an answer as numbers, lists and dicts."""
    if isinstance(value, Tensor):
        return value[row].detach().tolist()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: plain(part, row) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(part, row) for part in value]
    return value
