"""What a network does with questions, as arrays, and what it does without a part of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmn_cl.explaining.tracer import TASK, attended
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.importance import Importances
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Call, Trace
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import LossTerms


@dataclass(frozen=True)
class Intervention:
    """How some questions were answered, with a row for each."""

    probabilities: NDArray[np.float32]  # (n, answers)
    gates: dict[str, NDArray[np.float32]]  # by callee, (n, steps)
    attended: NDArray[np.float32]  # (n, steps, N)
    asked_box: NDArray[np.float32] | None  # (n, steps, N): b of [b, r], where M_rel is called
    asked_relation: NDArray[np.float32] | None  # (n, steps, directions · relations): r

    @classmethod
    def joined(cls, parts: list[Intervention]) -> Intervention:
        """Return what was seen batch by batch as one."""

        def join(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else np.concatenate(values)

        gates = {k: np.concatenate([part.gates[k] for part in parts]) for k in parts[0].gates}
        rest = ("probabilities", "attended", "asked_box", "asked_relation")
        return cls(gates=gates, **{name: join(name) for name in rest})


@torch.no_grad()
def observe(network: ModuleNetwork, x: Mapping[str, Tensor], terms: LossTerms) -> Intervention:
    """Answer a batch of questions, and keep what M_vqa itself did; others may remember.

    ``terms`` are those that M_vqa learned by.
    """
    module = _module(network)
    trace = Trace()
    env = Environment.of(dict(x.items()), network.memory, trace, TASK)
    outputs = module.outputs(module(module.own_query(env), env), env)
    own = [call for call in trace.calls if call.depth == 0 and call.step > 0]
    steps = range(1, 1 + max(call.step for call in own))
    by_step = [{call.callee: call for call in own if call.step == step} for step in steps]

    def gate_of(calls: Mapping[str, Call], callee: str) -> Tensor:
        gate = calls[callee].gate if callee in calls else None
        return env.regions.new_zeros(len(env)) if gate is None else gate  # not called

    def stacked(values: list[Tensor]) -> NDArray[np.float32]:
        return torch.stack(values, 1).float().cpu().numpy()

    asked = [calls["rel"].query for calls in by_step if "rel" in calls]
    related = len(asked) == len(by_step)
    return Intervention(
        probabilities=AnswerTask().probabilities(outputs, terms).cpu().numpy(),
        gates={k: stacked([gate_of(calls, k) for calls in by_step]) for k in module.call_list},
        attended=stacked([attended(calls, env) for calls in by_step]),
        asked_box=stacked([query.box for query in asked]) if related else None,
        asked_relation=stacked([query.relation for query in asked]) if related else None,
    )


@torch.no_grad()
def probabilities(
    network: ModuleNetwork, x: Mapping[str, Tensor], terms: LossTerms
) -> NDArray[np.float32]:
    """Return the probability of every answer (n, answers)."""
    network.eval()
    outputs = network(x, TASK)
    found: NDArray[np.float32] = AnswerTask().probabilities(outputs, terms).cpu().numpy()
    return found


def masked(x: Mapping[str, Tensor], hidden: NDArray[np.bool_]) -> dict[str, Tensor]:
    """Return a batch without some of its regions, in which nothing is remembered of the whole."""
    kept = {name: value for name, value in x.items() if name not in ("scene", "sample")}
    return {**kept, "mask": kept["mask"] & ~torch.from_numpy(hidden)}


@contextmanager
def without(network: ModuleNetwork, callee: str) -> Iterator[None]:
    """Shut M_vqa's gate of a callee meanwhile; its share goes to the others of its group."""
    layer = _module(network).G
    group = next(group for group in layer.groups if callee in group)
    shares = layer.gates.kind != "sigmoid"  # whose gates do not depend on each other
    hook = layer.register_forward_hook(
        lambda module, given, gates: {**gates, **shut(gates, group, callee, shares)}
    )
    try:
        yield
    finally:
        hook.remove()


def shut(gates: Importances, group: list[str], callee: str, shares: bool = True) -> Importances:
    """Return the gates of a group with one shut, and the others widened in proportion."""
    others = torch.stack([gates[k] for k in group if k != callee]).sum(0)
    # Where hard gates have shut the others, there is no other to share with.
    wider = torch.where(others > 0, (others + gates[callee]) / others, 1.0)
    return {
        k: torch.zeros_like(gates[k]) if k == callee else gates[k] * wider if shares else gates[k]
        for k in group
    }


def _module(network: ModuleNetwork) -> AnswerModule:
    module = network[TASK]
    assert isinstance(module, AnswerModule)
    network.eval()
    return module
