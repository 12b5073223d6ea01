"""M_rel (appendix A.3): the box that stands in a relation to a given box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from pmn_cl.modules.compositional import RESIDUAL, CompositionalModule, ScratchPad
from pmn_cl.modules.importance import Importances
from pmn_cl.modules.layers import SoftAttention, perceptron
from pmn_cl.modules.runtime.environment import Environment, weighted_sum
from pmn_cl.modules.task_module import ModulePlan, TaskModule


class RelationQuery(NamedTuple):
    """[b, r]: a box and a relation, one-hot or soft; a relation comes in two directions."""

    box: Tensor  # (B, N)
    relation: Tensor  # (B, directions · relations)


class Looking(NamedTuple):
    """The state: a vector for each box looked at, and which boxes come next."""

    vectors: Tensor  # (B, boxes looked at, hidden); at first the relation's, (B, 1, hidden)
    following: slice


class RelationModule(CompositionalModule):
    """T = N steps, each of which looks at one box.

    No step depends on another, so all are taken at once (``folded``); the literal loop gives
    the same, slowly.
    """

    task, vocabulary = "rel", ("relations", "directions")

    def __init__(
        self, plan: ModulePlan, callees: Mapping[str, TaskModule], folded: bool = True
    ) -> None:
        super().__init__(plan, callees)
        self.folded = folded
        self.call_list = (*callees, RESIDUAL)
        shape, hidden = plan.shape, plan.sizes.hidden
        self.relations = shape.count("relations")
        known = shape.region + sum(m.answer_width for m in callees.values()) + hidden
        self.relation = nn.Embedding(self.relations, hidden)  # I
        self.direction = nn.Parameter(torch.ones(shape.count("directions"), hidden))
        self.place = nn.Linear(7 if plan.departures.positions else 4, hidden)  # Δ
        self.look = perceptron(known, hidden, hidden)  # U
        self.point = SoftAttention(hidden, hidden, plan.sizes.attention)  # Ψ

    def own_query(self, env: Environment) -> RelationQuery:
        """Return the one-hot query of a sample."""
        code = relation_code(env["relation"], env["direction"], self.relations)
        codes = self.relations * len(self.direction)
        box = one_hot(env["box"], env.mask.shape[1])
        return RelationQuery(box.to(env.regions), one_hot(code, codes).to(env.regions))

    def steps(self, env: Environment) -> int:
        """T = N, or one step that looks at all boxes."""
        return 1 if self.folded else env.mask.shape[1]

    def initial(self, query: RelationQuery | None, env: Environment) -> Looking:
        """I: the relation's vector."""
        first = slice(None) if self.folded else slice(0, 1)
        if query is None:  # only the boxes' states are wanted, which know no relation
            return Looking(env.regions[:, :0], first)
        # Directions at first make no difference: "same colour" is learned once for both.
        vectors = (self.direction[:, None] * self.relation.weight).flatten(0, 1)
        return Looking((query.relation @ vectors)[:, None], first)

    def transmit(
        self, k: str, s: Looking, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor:
        """Q: the features of the box looked at; for Δ, its coordinates."""
        if k == RESIDUAL:
            return env.boxes[:, s.following]
        return env.regions if self.folded else env.regions[:, s.following]

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        """Δ: where the box is."""
        seen = positions(query) if self.plan.departures.positions else query
        where: Tensor = self.place(seen)
        return where

    def receive(self, k: str, s: Looking, answer: Tensor, env: Environment) -> Tensor:
        """R: as it is."""
        return answer

    def update(self, s: Looking, V: ScratchPad, g: Importances, env: Environment) -> Looking:
        """U: all that is known of the box."""
        known = torch.cat([env.regions[:, s.following], *V.values()], dim=2)
        after = slice((s.following.start or 0) + 1, (s.following.stop or 0) + 1)
        return Looking(self.look(known), after)

    def run(self, s: Looking, env: Environment) -> list[Looking]:
        """Look at all boxes, or remember having done so: no relation changes what is seen."""
        return [Looking(env.recall(self, "boxes", self._look), slice(None))]

    def _look(self, env: Environment) -> Tensor:
        """Return the states of all boxes (B, N, hidden)."""
        states = super().run(self.initial(None, env), env)
        return torch.cat([state.vectors for state in states], dim=1)

    def predict(self, states: list[Looking], query: RelationQuery, env: Environment) -> Tensor:
        """Ψ: attend over all boxes with l, the relation's vector times that of the box asked."""
        relation, boxes = states[0].vectors, states[1].vectors
        key = relation.squeeze(1) * weighted_sum(query.box, boxes)  # l
        return self.point.compare(key, env.recall(self, "points", self._points))  # (B, N)

    def _points(self, env: Environment) -> Tensor:
        """Return g(s) of all boxes."""
        return self.point.project(env.recall(self, "boxes", self._look))

    def outputs(self, answer: Tensor, env: Environment) -> Tensor:
        """Return the logits with padding out of reach."""
        return answer.masked_fill(~env.mask, -torch.inf)


def positions(boxes: Tensor) -> Tensor:
    """Return x, y, w, h, x², xy, y² (…, 7) of boxes (…, 4), x and y from −1 to 1.

    With the squares, how far two boxes are apart is a sum of products, as attention needs it.
    """
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + boxes[..., 2:] - 1
    x, y = centre.unbind(-1)
    products = torch.stack([x * x, x * y, y * y], dim=-1)
    return torch.cat([centre, size, products], dim=-1)


def relation_codes(names: Mapping[str, list[str]]) -> int:
    """Return how many relations there are, each direction counted."""
    return len(names["relations"]) * len(names["directions"])


def relation_code(relation: Tensor, direction: Tensor, relations: int) -> Tensor:
    """Return the number of a relation in a direction."""
    return direction * relations + relation
