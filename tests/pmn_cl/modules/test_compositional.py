"""Algorithm 1: the order of calls and the values, against the paper's pseudo-code in loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pmn_cl.modules import compositional
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import CaptionModule
from pmn_cl.modules.compositional import ATTEND, RESIDUAL, CompositionalModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.importance import Importances
from pmn_cl.modules.relation import RelationModule
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import ScratchPad
from pmn_cl.modules.runtime.trace import Trace
from pmn_cl.modules.task_module import ModulePlan, TaskModule

Event = tuple[Any, ...]  # what was done, by whom, for whom, and what stood on the pad
# A network of three levels: who calls whom in which order, and how many passes T they make.
LISTS: dict[str, tuple[str, ...]] = {
    "high": (ATTEND, "middle", "low", RESIDUAL, "other"),
    "middle": ("low", ATTEND, "other"),
    "low": (),
    "other": (),
}
PASSES = {"high": 2, "middle": 3}
PLACES = {name: float(i + 1) for i, name in enumerate([ATTEND, RESIDUAL, *LISTS])}


# What the toys compute. Any functions do, as long as every input matters.
def of_query(n: str, q: Any) -> Any:
    return q * PLACES[n] + 1


def of_state(n: str, s: Any) -> dict[str, Any]:
    return {k: 0.1 * PLACES[k] + 0.01 * s for k in LISTS[n]}


def to_ask(n: str, k: str, s: Any, V: Mapping[str, Any], g: Mapping[str, Any]) -> Any:
    return s + 0.5 * g[k] + sum((i + 1) * v for i, v in enumerate(V.values()))


def own_part(n: str, k: str, q: Any) -> Any:
    return 0.3 * q - PLACES[k]


def received(n: str, k: str, s: Any, o: Any) -> Any:
    return 0.2 * o + 0.1 * s + PLACES[k]


def next_state(n: str, s: Any, V: Mapping[str, Any], g: Mapping[str, Any]) -> Any:
    return 0.1 * s + sum(g[k] * V[k] for k in V)


def answer(n: str, states: list[Any], q: Any) -> Any:
    return sum((i + 1) * s for i, s in enumerate(states)) / 10 - q


class Low(TaskModule):
    """A terminal module that writes down when it is asked, and about how many samples."""

    def __init__(self, plan: ModulePlan, name: str, events: list[Event]) -> None:
        super().__init__(plan, {})
        self.task, self.events = name, events
        self.asked: list[int] = []

    def own_query(self, env: Environment) -> Tensor:
        return torch.zeros(len(env))

    def forward(self, query: Tensor, env: Environment) -> Tensor:
        assert len(query) == len(env)
        self.events.append(("call", self.task))
        self.asked.append(len(query))
        return query * PLACES[self.task]


class Toy(CompositionalModule):
    """A compositional module that writes down every step."""

    def __init__(
        self, plan: ModulePlan, name: str, callees: Mapping[str, TaskModule], events: list[Event]
    ) -> None:
        super().__init__(plan, callees)
        self.task, self.call_list, self.events = name, LISTS[name], events

    def own_query(self, env: Environment) -> Tensor:
        return torch.zeros(len(env))

    def steps(self, env: Environment) -> int:
        return PASSES[self.task]

    def initial(self, query: Tensor, env: Environment) -> Tensor:
        self.events.append(("I", self.task))
        return of_query(self.task, query)

    def importance(self, s: Tensor) -> Importances:
        self.events.append(("G", self.task))
        return of_state(self.task, s)

    def transmit(
        self, k: str, s: Tensor, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor:
        self.events.append(("Q", self.task, k, *V))
        return to_ask(self.task, k, s, V, g)

    def attend(self, query: Tensor, env: Environment) -> Tensor:
        self.events.append(("call", f"{ATTEND} of {self.task}"))
        return own_part(self.task, ATTEND, query)

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        self.events.append(("call", f"{RESIDUAL} of {self.task}"))
        return own_part(self.task, RESIDUAL, query)

    def receive(self, k: str, s: Tensor, answer: Tensor, env: Environment) -> Tensor:
        self.events.append(("R", self.task, k))
        return received(self.task, k, s, answer)

    def update(self, s: Tensor, V: ScratchPad, g: Importances, env: Environment) -> Tensor:
        self.events.append(("U", self.task, *V))
        return next_state(self.task, s, V, g)

    def predict(self, states: list[Tensor], query: Tensor, env: Environment) -> Tensor:
        self.events.append(("Ψ", self.task, len(states)))
        return answer(self.task, states, query)


def algorithm_1(n: str, q_n: float, events: list[Event]) -> float:
    """The paper's pseudo-code, line by line, for one sample."""
    if not LISTS[n]:  # a terminal module: o = M_ℓ(q)
        events.append(("call", n))
        return q_n * PLACES[n]
    s: dict[int, float] = {}
    events.append(("I", n))
    s[1] = of_query(n, q_n)
    for t in range(1, PASSES[n] + 1):
        V: dict[str, float] = {}
        events.append(("G", n))
        g = of_state(n, s[t])
        for k in LISTS[n]:
            events.append(("Q", n, k, *V))
            q_k = to_ask(n, k, s[t], V, g)
            if k in (ATTEND, RESIDUAL):
                events.append(("call", f"{k} of {n}"))
                o_k = own_part(n, k, q_k)
            else:
                o_k = algorithm_1(k, q_k, events)
            events.append(("R", n, k))
            v_k = received(n, k, s[t], o_k)
            V[k] = v_k
        events.append(("U", n, *V))
        s[t + 1] = next_state(n, s[t], V, g)
    # Ψ gets s¹ … sᵀ⁺¹: the paper's M_cnt uses s² after T = 1 step.
    events.append(("Ψ", n, len(s)))
    return answer(n, list(s.values()), q_n)


def toys(plan: ModulePlan) -> tuple[dict[str, Any], list[Event]]:
    """The toy network in eval mode, and where it writes what it does."""
    events: list[Event] = []
    low, other = Low(plan, "low", events), Low(plan, "other", events)
    middle = Toy(plan, "middle", {"low": low, "other": other}, events)
    high = Toy(plan, "high", {"middle": middle, "low": low, "other": other}, events)
    made = {"low": low, "other": other, "middle": middle, "high": high}
    for module in made.values():
        module.eval()
    return made, events


def scene(batch: Callable[..., dict[str, Tensor]], trace: Trace | None = None) -> Environment:
    return Environment.of(batch(), trace=trace)


def test_calls_are_made_in_the_order_of_algorithm_1(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    made, events = toys(plan())
    made["high"](torch.tensor([0.5, -1.0, 2.0]), scene(batch))
    expected: list[Event] = []
    algorithm_1("high", 0.5, expected)
    assert events == expected
    # By hand, so that the oracle is not taken on trust: 2 passes of 5 calls, in each of which
    # M_middle makes 3 passes of 3.
    assert sum(event[0] == "Q" for event in events) == 2 * (5 + 3 * 3)


def test_answers_are_those_of_algorithm_1(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    made, _ = toys(plan())
    queries = [0.5, -1.0, 2.0]
    found = made["high"](torch.tensor(queries, dtype=torch.float64), scene(batch))
    assert found.tolist() == pytest.approx([algorithm_1("high", q, []) for q in queries])


def test_the_scratch_pad_is_wiped_at_every_step(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    made, events = toys(plan())
    made["middle"](torch.zeros(3), scene(batch))
    asked = [event for event in events if event[:3] == ("Q", "middle", "low")]
    assert asked == [("Q", "middle", "low")] * 3  # first in the list: nothing on the pad
    last = [event for event in events if event[:3] == ("Q", "middle", "other")]
    assert last == [("Q", "middle", "other", "low", ATTEND)] * 3


def test_calls_go_depth_first(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    """All that M_middle does stands between the query to it and the receipt of its answer."""
    made, events = toys(plan())
    made["high"](torch.zeros(3), scene(batch))
    asked = events.index(("Q", "high", "middle", ATTEND))
    received = events.index(("R", "high", "middle"))
    within = events[asked + 1 : received]
    assert within[0] == ("I", "middle")
    assert within[-1] == ("Ψ", "middle", 4)
    assert not any(event[1] == "high" for event in within)


def test_a_module_that_has_finished_takes_no_further_step(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    class Brief(Toy):
        def finished(self, s: Tensor) -> bool:
            return sum(event[0] == "U" for event in self.events) == 2

    events: list[Event] = []
    callees = {name: Low(plan(), name, events) for name in ("low", "other")}
    Brief(plan(), "middle", callees, events)(torch.zeros(3), scene(batch))
    assert sum(event[0] == "U" for event in events) == 2
    assert events[-1] == ("Ψ", "middle", 3)


@pytest.mark.parametrize("part", [ATTEND, RESIDUAL])
def test_a_part_that_a_module_lacks_is_named(part: str, plan: Callable[..., ModulePlan]) -> None:
    class Without(Toy):
        attend = CompositionalModule.attend
        residual = CompositionalModule.residual

    module = Without(plan(), "middle", {}, [])
    ask = module.attend if part == ATTEND else module.residual
    with pytest.raises(NotImplementedError, match=f"M_middle has no {part}"):
        ask(None, None)


class Gated(Toy):
    """A toy whose gates are given, as hard gates would be; it hears only through them."""

    gates: dict[str, Tensor]

    def importance(self, s: Tensor) -> Importances:
        return self.gates

    def transmit(
        self, k: str, s: Tensor, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor:
        return super().transmit(k, s, {name: g[name] * v for name, v in V.items()}, g, env)


def gated(plan: ModulePlan, low: list[float], other: list[float]) -> Gated:
    """M_middle with these gates for its two callees; Ω's are closed throughout."""
    events: list[Event] = []
    callees = {name: Low(plan, name, events) for name in ("low", "other")}
    module = Gated(plan, "middle", callees, events)
    module.gates = {
        "low": torch.tensor(low),
        "other": torch.tensor(other),
        ATTEND: torch.zeros(len(low)),
    }
    module.eval()
    return module


def test_a_callee_that_no_sample_wants_is_not_run(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    module = gated(plan(), low=[1, 1, 1], other=[0, 0, 0])
    module(torch.zeros(3), scene(batch))
    assert module.callees["low"].asked == [3, 3, 3]  # T = 3
    assert module.callees["other"].asked == []


def test_only_samples_whose_gate_is_open_are_sent_to_a_callee(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    module = gated(plan(), low=[0.5, 0, 1], other=[0, 1, 0])
    module(torch.zeros(3), scene(batch))
    assert module.callees["low"].asked == [2, 2, 2]
    assert module.callees["other"].asked == [1, 1, 1]


def test_behind_closed_gates_the_answer_is_that_of_asking_everybody(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    module = gated(plan(), low=[0.5, 0, 1], other=[0, 1, 0])
    query = torch.tensor([0.5, -1.0, 2.0])
    sparse = module(query, scene(batch))
    # While a module learns, all are asked, for gradient's sake; toys do nothing else differently.
    module.training = True
    dense = module(query, scene(batch))
    assert module.callees["low"].asked[-3:] == [3, 3, 3]
    assert torch.allclose(sparse, dense, atol=1e-5)


def test_samples_that_are_sent_on_keep_their_own_scenes_and_queries(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    class Look(Low):
        def forward(self, query: Tensor, env: Environment) -> Tensor:
            return query + env.regions.sum((1, 2)) + env["question"].sum(1)

    module = gated(plan(), low=[1, 0, 1], other=[1, 1, 1])
    module.callees["low"] = Look(plan(), "low", [])
    env, query = scene(batch), torch.tensor([0.5, -1.0, 2.0])
    sparse = module(query, env)
    module.training = True
    assert torch.allclose(sparse, module(query, env), atol=1e-5)


def test_a_trace_has_the_calls_in_the_order_in_which_they_end(
    plan: Callable[..., ModulePlan], batch: Callable[..., dict[str, Tensor]]
) -> None:
    made, events = toys(plan())
    trace = Trace()
    made["high"](torch.zeros(3), scene(batch, trace))
    ended = [event[1:] for event in events if event[0] == "R"]  # right after each call's end
    assert [(call.caller, call.callee) for call in trace.calls] == ended
    assert all(call.depth == (call.caller == "middle") for call in trace.calls)
    assert [call.step for call in trace.of("high", "middle")] == [1, 2]
    assert [call.step for call in trace.of("middle", "low")] == [1, 2, 3] * 2


def test_callees_do_not_become_parts_of_their_caller(plan: Callable[..., ModulePlan]) -> None:
    """Else they would be trained, counted and saved twice."""
    made, _ = toys(plan())
    assert list(made["high"].modules()) == [made["high"]]


@pytest.mark.parametrize("kind", [RelationModule, CaptionModule, CountModule, AnswerModule])
def test_no_module_overrides_the_loop(kind: type[CompositionalModule]) -> None:
    assert kind.forward is CompositionalModule.forward
    assert kind.step is CompositionalModule.step
    assert kind.call is CompositionalModule.call


def test_only_the_memory_knows_of_stores_and_loaders() -> None:
    """Of the modules and their runtime; the library keeps modules by the world they learned."""
    folder = Path(compositional.__file__).parent
    files = [*folder.glob("*.py"), *(folder / "runtime").glob("*.py")]
    reading = {file.name for file in files if "pmn_cl.data" in file.read_text("utf-8")}
    assert len(files) > 12
    assert reading == {"memory.py"}
