"""Algorithm 1: how a module works on a query by asking other modules. It stands here alone.

The modules for single tasks only say what I, G, Q, R, U, Ψ, Δ and Ω are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from pmn_cl.modules.importance import Importances
from pmn_cl.modules.runtime.environment import Environment, select
from pmn_cl.modules.runtime.memoisation import (
    SceneQuery,
    ScratchPad,
    per_query,
    per_scene_step,
)
from pmn_cl.modules.task_module import TaskModule

ATTEND, RESIDUAL = "Ω", "Δ"  # a module's own terminal parts, called like any other module


class CompositionalModule(TaskModule):
    """M_n with its call list L_n, an ordered list of lower modules, Ω and Δ."""

    call_list: tuple[str, ...]
    scene_steps: ClassVar[bool] = False  # whether its steps see the scene alone: no query, no state

    @per_query
    def forward(self, query: Any, env: Environment) -> Tensor:
        """Return o_n for the query q_n (Algorithm 1)."""
        s = self.initial(query, env)  # s¹ = I(q)
        states = [s]
        for t in range(1, self.steps(env) + 1):
            s = self.step(s, t, env)
            states.append(s)
            if self.finished(s):
                break
        return self.predict(states, query, env)  # o = Ψ(s¹, …, q, ℰ)

    @per_scene_step
    def step(self, s: Any, t: int, env: Environment) -> Any:
        """Ask every callee in order, and return the state that follows."""
        V = ScratchPad()  # wipe out the scratch pad
        g = self.importance(s)
        for k in self.call_list:
            if self._unwanted(k, g):
                continue
            q_k = self.transmit(k, s, V, g, env)
            o_k = self.call(k, q_k, g, t, env)
            V[k] = self.receive(k, s, o_k, env)
        return self.update(s, V, g, env)

    @abstractmethod
    def steps(self, env: Environment) -> int:
        """Return T."""

    @abstractmethod
    def initial(self, query: Any, env: Environment) -> Any:
        """I: the first state."""

    def importance(self, s: Any) -> Importances:
        """G: how much each callee matters now; nothing where a module has no such choice."""
        return {}

    @abstractmethod
    def transmit(self, k: str, s: Any, V: ScratchPad, g: Importances, env: Environment) -> Any:
        """Q_{n→k}: the query for a callee."""

    @abstractmethod
    def receive(self, k: str, s: Any, answer: Tensor, env: Environment) -> Tensor:
        """R_{k→n}: a callee's answer in the module's own language."""

    @abstractmethod
    def update(self, s: Any, V: ScratchPad, g: Importances, env: Environment) -> Any:
        """U: the next state."""

    @abstractmethod
    def predict(self, states: list[Any], query: Any, env: Environment) -> Tensor:
        """Ψ: the answer, from all states."""

    def attend(self, query: Any, env: Environment) -> Tensor:
        """Ω: the module's own soft attention."""
        raise NotImplementedError(f"M_{self.task} has no Ω")

    def residual(self, query: Any, env: Environment) -> Tensor:
        """Δ: what the module works out by itself."""
        raise NotImplementedError(f"M_{self.task} has no Δ")

    def finished(self, s: Any) -> bool:
        """Whether further steps would change nothing."""
        return False

    def _unwanted(self, k: str, g: Importances) -> bool:
        """Whether no sample asks a callee: its gate is shut for all of them."""
        return k in g and k in self.callees and not self.training and not bool(g[k].any())

    def call(self, k: str, query: Any, g: Importances, t: int, env: Environment) -> Tensor:
        """o_k: ask a callee at step t (0: before the first), one level deeper in the trace."""
        if env.trace is None:
            return self._answer(k, query, g, env)
        with env.trace.inside() as (depth, number):
            answer = self._answer(k, query, g, env)
        env.trace.add(self.task, k, t, depth, number, g.get(k), query, answer)
        return answer

    def _answer(self, k: str, query: Any, g: Importances, env: Environment) -> Tensor:
        if k == ATTEND:
            return self.attend(query, env)
        if k == RESIDUAL:
            return self.residual(query, env)
        callee: Callable[[Any, Environment], Tensor] = self.callees[k]
        if self.training or k not in g or bool(g[k].all()):
            return callee(query, env)
        asking = g[k].nonzero().squeeze(1)  # behind hard gates, only samples whose gate is open
        if isinstance(query, SceneQuery):
            scenes = asking if env.groups is None else torch.unique(env.groups.scene_of[asking])
            return _spread(callee(query, env.scenes.rows(scenes)), scenes, len(env.scenes))
        return _spread(callee(select(query, asking), env.rows(asking)), asking, len(env))


def _spread(answer: Tensor, rows: Tensor, count: int) -> Tensor:
    """Put the answers of some rows in their places among all; the others get zeros."""
    return answer.new_zeros((count, *answer.shape[1:])).index_copy(0, rows, answer)


def part_name(k: str) -> str:
    """Return a callee's name as torch allows it for a part of a module."""
    return "residual" if k == RESIDUAL else k
