"""The one seam between the paper and speed: what of a module's work need not be done again.

A module says by a decorator what a method's result depends on; its equations stay as they are.

- ``per_scene``: on the scene alone; worked out once per scene where the module is frozen.
- ``per_query``: ``forward``, whose answer to some queries depends on scene or sample alone.
- ``per_scene_step``: ``step``, of modules whose steps depend on the scene alone.
- ``per_batch``: on the batch alone, such as what both steps of M_vqa need.
- ``per_step``: on the scratch pad V.

Results of frozen modules outlive the batch where the environment has a memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memory import Compute, MemoryTable

Found = TypeVar("Found")
P = ParamSpec("P")
Part = TypeVar("Part", bound=nn.Module)


class ScratchPad(dict[str, Tensor]):
    """V: what each callee answered, as the receiver has it; and, aside, what was made of that."""

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[str, Any] = {}


class SceneQuery(str):
    """A query that is the same for all samples, so that the answer depends on the scene alone.

    The answer has a row for each scene of the batch, as ``Environment.scenes`` has them; that of a
    module that learns has one for each sample, as its batch norm would see too few scenes.
    """


class SampleQuery(str):
    """A query whose answer depends on the scene and on what the sample's own words ask."""


def per_scene(
    method: Callable[Concatenate[Part, Environment, P], Tensor],
) -> Callable[Concatenate[Part, Environment, P], Tensor]:
    """Memoise a method (self, env), or a part's (self, env, owner) for the module that uses it."""
    what = method.__qualname__

    @wraps(method)
    def memoised(self: Part, env: Environment, /, *owner: P.args, **none: P.kwargs) -> Tensor:
        of = _owner(self, owner)
        return recall(env, of, what, lambda seen: method(self, seen, *owner, **none))

    return memoised


def per_batch(
    method: Callable[Concatenate[Part, Environment, P], Found],
) -> Callable[Concatenate[Part, Environment, P], Found]:
    """Memoise a method (self, env, …) whose further arguments are the same in all of a batch."""
    what = method.__qualname__

    @wraps(method)
    def memoised(self: Part, env: Environment, /, *more: P.args, **none: P.kwargs) -> Found:
        of = _owner(self, more)
        return once(env, of, what, lambda: method(self, env, *more, **none))

    return memoised


def per_step(
    method: Callable[Concatenate[Part, ScratchPad, P], Found],
) -> Callable[Concatenate[Part, ScratchPad, P], Found]:
    """Memoise a method (self, V, …) until V is wiped out."""
    what = method.__qualname__

    @wraps(method)
    def memoised(self: Part, V: ScratchPad, /, *more: P.args, **none: P.kwargs) -> Found:
        if what not in V.results:
            V.results[what] = method(self, V, *more, **none)
        found: Found = V.results[what]
        return found

    return memoised


def per_query(
    forward: Callable[[Part, Any, Environment], Tensor],
) -> Callable[[Part, Any, Environment], Tensor]:
    """Memoise answers to queries that say nothing beyond the scene or the sample."""

    @wraps(forward)
    def memoised(self: Part, query: Any, env: Environment) -> Tensor:
        if query is env.regions:  # about all regions of the scene
            said = recall(env, self, "regions", lambda seen: forward(self, seen.regions, seen))
            return env.of_samples(said)
        if isinstance(query, SceneQuery) and self.training:
            return once(env, self, query, lambda: forward(self, query, env))
        if isinstance(query, (SceneQuery, SampleQuery)):
            by = "sample" if isinstance(query, SampleQuery) else "scene"
            return recall(env, self, query, lambda seen: forward(self, query, seen), by)
        return forward(self, query, env)

    return memoised


def per_scene_step(
    step: Callable[[Part, Any, int, Environment], Any],
) -> Callable[[Part, Any, int, Environment], Any]:
    """Memoise the steps of modules with ``scene_steps``, which see neither query nor state."""

    @wraps(step)
    def memoised(self: Part, s: Any, t: int, env: Environment) -> Any:
        if not self.scene_steps:
            return step(self, s, t, env)
        return recall(env, self, f"step {t}", lambda seen: step(self, None, t, seen))

    return memoised


def once(env: Environment, owner: nn.Module, what: str, compute: Callable[[], Found]) -> Found:
    """Return a result, worked out once for a batch."""
    key = (id(owner), what)
    if key not in env.results:
        env.results[key] = compute()
    found: Found = env.results[key]
    return found


def recall(
    env: Environment, owner: nn.Module, what: str, compute: Compute, by: str = "scene"
) -> Tensor:
    """Return a result about the scenes (S, …) or the samples (B, …) of a batch.

    That of a frozen module stays true, and is kept.
    """
    env = env.scenes if by == "scene" else env

    def recalled() -> Tensor:
        identity = getattr(owner, "identity", None)  # only a frozen module has one
        if env.memory is None or identity is None or by not in env.fields:
            return _of_rows(env, owner, what, compute)
        kept = env.memory.by_scene if by == "scene" else env.memory.by_sample
        return kept(f"{identity}/{what}", env, compute)

    return once(env, owner, what, recalled)


def _of_rows(env: Environment, owner: nn.Module, what: str, compute: Compute) -> Tensor:
    """Work a result out; of a part, for the rows of which the whole does not know it yet."""
    if env.part_of is None:
        return compute(env)
    (whole, among), key = env.part_of, (id(owner), what)
    if key in whole.results:
        found: Tensor = whole.results[key]
        return found[among]
    table = whole.results_of_parts.get(key)
    new = torch.unique(among if table is None else among[~table.known[among]])
    if table is None or len(new):
        found = compute(whole.rows(new))
        table = table or MemoryTable.like(found, len(whole))
        table.put(new, found)
        whole.results_of_parts[key] = table
    return table.values[among]


def _owner(self: nn.Module, more: tuple[Any, ...]) -> nn.Module:
    """Return whose result it is: that of the module which a part works for, where it is given."""
    return more[-1] if more and isinstance(more[-1], nn.Module) else self
