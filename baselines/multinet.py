"""Multinet (Bilen & Vedaldi, NIPS 2016): what tasks answer comes back into what they share.

The regions are encoded once, r⁰ = φ⁰(x), and h⁰ = r⁰. Then, as many times as there are passes,
every task α decodes its outputs from h, xᵅ = ψᵅ(h), encodes them back into the space of h,
rᵅ = φᵅ(xᵅ), and the integrator joins them: hᵗ⁺¹ = Γ(hᵗ, r⁰, Σᵅ rᵅ). The answer is decoded from
the last h. No pass at all is hard sharing, bit for bit.

Where this departs from the publication, which learns all tasks at once and feeds all of them back:

- When task k is answered, the tasks before it in the stream come back, not k itself and none
  after it, however many are known by then: k is answered as it was learned.
- Tasks here ask queries. A task that asks nothing, or what the sample brings, is decoded with just
  that; any other with the sample's query in translation, A·q, as PMN asks M_rel about a question.
- Outputs come back as probabilities: per region where they are (classes, labels, a map over the
  regions), else per scene, to all its regions. Of a sentence it is the first word: to generate all
  of it in every pass would take longer than all the rest.
- Γ is a sum and a layer, and r⁰ goes around it, so that feedback is a modest addition at first.
  Gradient comes through the last pass alone, and to φ⁰ by way of r⁰: a third less time with two.

``Multinet`` learns one task after another, and all that was learned goes on changing;
``MultinetFrozen`` keeps it as it is; ``MultinetJoint`` learns all tasks at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from baselines.common.heads import Head, RegionHead, Teacher, head_for
from baselines.common.network import HeadsNetwork, HeadsStrategy
from baselines.common.trunk import Fusion, NetworkPlan, QueryReader, Trunk, reader_name
from baselines.hard_sharing import HardSharingJoint
from baselines.options import MultinetOptions
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import once
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task

_FEEDBACK = 0.1  # the size of rᵅ at first, where h is of about this size too


class Integrator(nn.Module):
    """Γ, with the encoders φᵅ of the tasks that come back and the translations of their queries."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.plan = plan
        self.encoders = nn.ModuleDict()  # φᵅ
        self.translations = nn.ModuleDict()  # A, where a sample does not bring what they ask
        self.layer = nn.Linear(plan.width, plan.width)

    def add(self, task: Task, earlier: Iterable[Task]) -> None:
        """Let earlier tasks come back for a task."""
        width = self.plan.width
        for old in earlier:
            if old.name not in self.encoders:
                outputs = 1 if old.outputs is None else self.plan.shape.count(old.outputs)
                encoder = nn.Linear(outputs, width, bias=False)
                nn.init.normal_(encoder.weight, std=_FEEDBACK)
                self.encoders[old.name] = encoder
            if old.name not in self.translations and not brings_query(task, old):
                self.translations[old.name] = nn.Linear(width, width)

    def forward(
        self, h: Tensor, first: Tensor, answers: Mapping[str, Tensor], env: Environment
    ) -> Tensor:
        """Return Γ(h, r⁰, Σ rᵅ) = r⁰ + relu(W (h + Σ φᵅ xᵅ) + b), not negative, as r⁰ is.

        Worked out as W h + b + Σ (W φᵅ) xᵅ: what scenes have in common is one product for all
        their samples, and so are answers of the same extent: per region, or one for all regions.
        """
        sums = {h.shape: self.layer(h)}
        extents: dict[torch.Size, list[str]] = {}
        for name, answer in answers.items():
            extents.setdefault(answer.shape[:2], []).append(name)
        for names in extents.values():
            given = torch.cat([answers[name] for name in names], dim=2)
            encoders: Any = [self.encoders[name].weight for name in names]
            part = linear(given, self.layer.weight @ torch.cat(encoders, dim=1))
            sums[part.shape] = sums[part.shape] + part if part.shape in sums else part
        first_sum, *others = map(env.of_samples, sums.values())
        joined: Tensor = env.of_samples(first) + sum(others, first_sum).relu()
        return joined


def brings_query(task: Task, other: Task) -> bool:
    """Whether samples of a task bring all that another task asks."""
    return set(other.query) <= set(task.query)


def probabilities(task: Task, outputs: Tensor, env: Environment) -> Tensor:
    """Return outputs as they are encoded: per region (B, N, n), or per sample (B, 1, n)."""
    if task.form == "class":
        return outputs.softmax(2)
    if task.form == "labels":
        return outputs.sigmoid()
    if task.form == "pointing":
        return env.softmax(outputs)[:, :, None]
    if task.form == "sentence":
        return outputs.softmax(2).mean(1, keepdim=True)  # over its words
    if task.form == "count":
        return outputs.softmax(1)[:, None]
    return outputs.sigmoid()[:, None]


class MultinetNetwork(HeadsNetwork):
    """A trunk and an integrator that every task changes, and a head per task."""

    def __init__(self, plan: NetworkPlan, passes: int) -> None:
        super().__init__(plan)
        self.passes = passes
        self.trunk = Trunk(plan)
        self.heads = nn.ModuleDict()
        self.integrators = nn.ModuleDict()  # one, as soon as a task is there that can come back

    def grow(self, task: Task) -> None:
        """Add a head, and let the tasks before come back."""
        self.trunk.add(task)
        self.heads[task.name] = head_for(task, self.plan)
        self.integrate(task, "all")

    def integrate(self, task: Task, name: str) -> None:
        """Let the tasks before this one come back, by the integrator of this name."""
        earlier = self.before(task)
        if earlier and self.passes:
            if name not in self.integrators:
                self.integrators[name] = Integrator(self.plan)
            self.integrator(task).add(task, earlier)

    def before(self, task: Task) -> list[Task]:
        """Return the tasks that come back when this one is answered, now and later."""
        names = list(self.tasks)
        return [self.tasks[name] for name in names[: names.index(task.name)]]

    def integrator(self, task: Task) -> Any:
        """Return Γ of a task."""
        return self.integrators["all"]

    def reader(self, task: Task) -> Any:
        """Return what reads a task's query."""
        return self.trunk.readers[reader_name(task)]

    def fusion(self, task: Task) -> Any:
        """Return what joins a task's query with the regions."""
        return self.trunk.fusion

    def head(self, task: str) -> Head:
        """Return the head of a task."""
        found = self.heads[task]
        assert isinstance(found, Head)
        return found

    def answer(self, env: Environment, task: Task, teacher: Teacher) -> Tensor:
        """Return what the task decodes from the last h."""
        h = self.represent(env, task)
        return env.of_samples(self.decode(env, task, h, self.read(env, task, h), teacher))

    def represent(self, env: Environment, task: Task) -> Tensor:
        """Return h (B, N, width) after all passes; gradient comes through the last one only.

        The first pass starts from r⁰, which samples of a scene share (S, N, width).
        """
        first = h = self.trunk.look(env)
        if not self.passes or not self.before(task):
            return first
        asked = self.read(env, task, first)
        with torch.no_grad():
            for _ in range(self.passes - 1):
                h = self.once_more(env, task, h, first, asked)
        return self.once_more(env, task, h.detach(), first, asked)

    def once_more(
        self, env: Environment, task: Task, h: Tensor, first: Tensor, asked: Tensor
    ) -> Tensor:
        """Return Γ(h, r⁰, Σ rᵅ): decode the tasks before this one, encode and integrate them."""
        integrator, answers = self.integrator(task), {}
        projected: dict[nn.Module, Tensor] = {}  # g(h), once for all tasks that attend with it
        for old in self.before(task):
            if brings_query(task, old):
                query = self.read(env, old, h)
            else:
                query = integrator.translations[old.name](asked)
            no_word = {"words": env.mask.new_zeros((len(env), 1), dtype=torch.long)}
            teacher = no_word if old.form == "sentence" else None  # gives the first word alone
            outputs = self.decode(env, old, h, query, teacher, projected)
            answers[old.name] = probabilities(old, outputs, env)
        joined: Tensor = integrator(h, first, answers, env)
        return joined

    def read(self, env: Environment, task: Task, h: Tensor) -> Tensor:
        """Return q; a question is read once, as it is the same whatever h is."""
        reader = self.reader(task)
        if reader.kind == "question":
            known: Tensor = once(env, reader, "q", lambda: reader(env, h))
            return known
        query: Tensor = reader(env, h)
        return query

    def decode(
        self,
        env: Environment,
        task: Task,
        h: Tensor,
        query: Tensor,
        teacher: Teacher,
        projected: dict[nn.Module, Tensor] | None = None,
    ) -> Tensor:
        """Return xᵅ = ψᵅ(h); g(h) by ``Fusion`` may be there from another task, or stays there."""
        head = self.heads[task.name]
        if isinstance(head, RegionHead):
            scores: Tensor = head.scores(h)  # no query to fuse with
            return scores
        fusion, known = self.fusion(task), {} if projected is None else projected
        if fusion not in known:
            known[fusion] = fusion.attention.project(h)
        outputs: Tensor = head(fusion(h, query, env, known[fusion]), env, teacher)
        return outputs


class FrozenNetwork(MultinetNetwork):
    """φ⁰ is the first task's; every task brings all else that it needs, its own Γ and φᵅ too.

    With a single Γ, the second task alone would have learned how to use the others' outputs.
    """

    def __init__(self, plan: NetworkPlan, passes: int) -> None:
        super().__init__(plan, passes)
        del self.trunk.fusion
        self.readers = nn.ModuleDict()
        self.fusions = nn.ModuleDict()

    def grow(self, task: Task) -> None:
        """Add the parts of a task."""
        self.readers[task.name] = QueryReader(self.plan, task)
        self.heads[task.name] = head_for(task, self.plan)
        if not isinstance(self.heads[task.name], RegionHead):
            self.fusions[task.name] = Fusion(self.plan)
        self.integrate(task, task.name)

    def integrator(self, task: Task) -> Any:
        """Return Γ of a task."""
        return self.integrators[task.name]

    def reader(self, task: Task) -> Any:
        """Return what reads a task's query."""
        return self.readers[task.name]

    def fusion(self, task: Task) -> Any:
        """Return what joins a task's query with the regions."""
        return self.fusions[task.name]


class Multinet(HeadsStrategy):
    """One task after another: all that was learned goes on changing."""

    Options = MultinetOptions

    def make_network(self, plan: NetworkPlan) -> HeadsNetwork:
        """Return the network before its first task."""
        return MultinetNetwork(plan, self.options.passes)


class MultinetFrozen(HeadsStrategy):
    """One task after another: what was learned before stays as it is."""

    Options = MultinetOptions

    def make_network(self, plan: NetworkPlan) -> HeadsNetwork:
        """Return the network before its first task."""
        return FrozenNetwork(plan, self.options.passes)

    def finish(self, experience: Experience) -> None:
        """Freeze all that is there."""
        self.network.requires_grad_(False)


class MultinetJoint(HardSharingJoint):
    """All tasks at once, as in the publication; tasks are mixed as in joint hard sharing.

    To each task comes back what comes back in the stream.
    """

    Options = MultinetOptions

    def make_network(self, plan: NetworkPlan) -> HeadsNetwork:
        """Return the network before its first task."""
        return MultinetNetwork(plan, self.options.passes)
