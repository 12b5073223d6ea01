"""What networks with a head per task share: they look at regions, read a query, and fuse both.

The parts are PMN's own where it has them (question encoder, word vectors, soft attention,
positions), so that a comparison is about how tasks are put together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.layers import QuestionEncoder, ScaledLinear, SoftAttention
from pmn_cl.modules.places import PLACES, observed
from pmn_cl.modules.relation import relation_code
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Departures, Sizes, WorldShape
from pmn_cl.tasks.base import Task

WIDTHS = {"small": 128, "paper": 512}  # of every layer
_RELATION = ("box", "relation", "direction")


class NetworkPlan(NamedTuple):
    """What the parts of such a network are built from."""

    shape: WorldShape
    sizes: Sizes
    width: int
    attention: int  # in which soft attention compares
    departures: Departures = Departures()  # those of PMN's parts that are used here, too
    supervise: tuple[str, ...] = ()  # tasks whose questions say what they ask of a relation


class HeadInput(NamedTuple):
    """What a head gets to see of a sample."""

    regions: Tensor  # h (B, N, width) of samples, or (S, N, width) of their scenes
    query: Tensor  # q (B, width)
    attention: Tensor  # logits (B, N) of the regions that the query is about
    fused: Tensor  # z (B, width)


class QueryReader(nn.Module):
    """q: a question, a relation to a box, or, where a task asks nothing, a vector of its own."""

    def __init__(self, plan: NetworkPlan, task: Task) -> None:
        super().__init__()
        self.kind = _kind(task)
        shape, width = plan.shape, plan.width
        if self.kind == "question":
            hidden = plan.sizes.hidden
            words, singulars = shape.list_of("question words"), plan.departures.singulars
            self.question = QuestionEncoder(words, plan.sizes.word, hidden, singulars)
            self.project = ScaledLinear(hidden, width)
        elif self.kind == "relation":
            self.relations = shape.count("relations")
            self.relation = nn.Embedding(self.relations * shape.count("directions"), width)
        else:
            self.vector = nn.Parameter(torch.randn(width))

    def forward(self, env: Environment, regions: Tensor) -> Tensor:
        """Return q (B, width)."""
        if self.kind == "question":
            asked: Tensor = self.project(self.question(env)).relu()
            return asked
        if self.kind == "relation":
            code = relation_code(env["relation"], env["direction"], self.relations)
            rows = torch.arange(len(env), device=regions.device)
            if env.groups is not None and len(regions) < len(env):
                rows = env.groups.scene_of
            related: Tensor = self.relation(code) * regions[rows, env["box"]]
            return related
        return self.vector.expand(len(env), -1)


def _kind(task: Task) -> str:
    """Return what kind of query a task asks."""
    if not task.query:
        return "nothing"
    if task.query == ("question",):
        return "question"
    if set(task.query) == set(_RELATION):
        return "relation"
    raise UserError(
        f"the task {task.name!r} asks with {', '.join(task.query)}: a network with a head per task "
        f"can read nothing, a question, or {', '.join(_RELATION)}"
    )


class Fusion(nn.Module):
    """Attends over the regions with the query, and joins what it finds with the query."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.attention = SoftAttention(plan.width, plan.width, plan.attention)
        self.join = ScaledLinear(3 * plan.width, plan.width)

    def attend(
        self, regions: Tensor, query: Tensor, env: Environment, projected: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits (B, N) of the regions, and what joining starts from (B, 3 width).

        Who asks several queries of the same regions may bring g of these, ``projected`` once.
        """
        g = self.attention.project(regions) if projected is None else projected
        logits = self.attention.compare(query, g, env)
        found = env.weighted_sum(env.softmax(logits), regions)
        return logits, torch.cat([found, query, found * query], dim=1)

    def forward(
        self, regions: Tensor, query: Tensor, env: Environment, projected: Tensor | None = None
    ) -> HeadInput:
        """Return all that a head may use."""
        logits, both = self.attend(regions, query, env, projected)
        return HeadInput(regions, query, logits, self.join(both).relu())


class Regions(nn.Module):
    """Two layers over regions with their boxes."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.first = ScaledLinear(plan.shape.region + PLACES, plan.width)
        self.second = ScaledLinear(plan.width, plan.width)

    def forward(self, env: Environment) -> Tensor:
        """Return the regions' representation h (S, N, width)."""
        regions: Tensor = self.second(self.first(observed(env)).relu()).relu()
        return regions


class Trunk(nn.Module):
    """The layers over regions, readers of queries, and the fusion of both."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.plan = plan
        self.regions = Regions(plan)
        self.readers = nn.ModuleDict()  # by kind of query; what is no query belongs to its task
        self.fusion = Fusion(plan)

    def add(self, task: Task) -> None:
        """Get ready for a task's queries; tasks that ask alike share a reader."""
        if reader_name(task) not in self.readers:
            self.readers[reader_name(task)] = QueryReader(self.plan, task)

    def look(self, env: Environment) -> Tensor:
        """Return the regions' representation h (S, N, width)."""
        seen: Tensor = self.regions(env)
        return seen

    def forward(self, env: Environment, task: Task, regions: Tensor | None = None) -> HeadInput:
        """Return what the task's head sees, of the regions as they are or as they were changed."""
        h = self.look(env) if regions is None else regions
        seen: HeadInput = self.fusion(h, self.readers[reader_name(task)](env, h), env)
        return seen


def reader_name(task: Task) -> str:
    """Return the name of the reader that a task uses."""
    kind = _kind(task)
    return f"start of {task.name}" if kind == "nothing" else kind
