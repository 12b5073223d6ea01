"""M_rel (appendix A.3): the box that stands in a relation to a given box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from pmn_cl.modules.compositional import RESIDUAL, CompositionalModule
from pmn_cl.modules.importance import Importances
from pmn_cl.modules.layers import SoftAttention, perceptron
from pmn_cl.modules.places import PLACES, positions
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import ScratchPad, per_scene
from pmn_cl.modules.sizes import WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule


class RelationQuery(NamedTuple):
    """[b, r]: a box and a relation, one-hot or soft; a relation comes in two directions."""

    box: Tensor  # (B, N)
    relation: Tensor  # (B, directions · relations)


class RelationModule(CompositionalModule):
    """The paper's T = N steps, each of which looks at one box, taken at once: none needs another.

    The first state is the relation's vector (B, hidden), the second holds those of all boxes of
    the scenes (S, N, hidden), whatever the relation.
    """

    task, vocabulary = "rel", ("relations", "directions")
    departs = ("scaled_start", "positions")
    scene_steps = True

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        self.call_list = (*callees, RESIDUAL)
        shape, hidden = plan.shape, plan.sizes.relation
        self.relations = shape.count("relations")
        known = shape.region + sum(m.answer_width for m in callees.values()) + hidden
        self.relation = nn.Embedding(self.relations, hidden)  # I
        self.direction = nn.Parameter(torch.ones(shape.count("directions"), hidden))
        self.place = nn.Linear(PLACES if plan.departures.positions else 4, hidden)  # Δ
        self.look = perceptron(known, hidden, hidden)  # U
        self.point = SoftAttention(hidden, hidden, plan.sizes.relation_attention)  # Ψ

    def own_query(self, env: Environment) -> RelationQuery:
        """Return the one-hot query of a sample."""
        code = relation_code(env["relation"], env["direction"], self.relations)
        codes = self.relations * len(self.direction)
        box = one_hot(env["box"], env.mask.shape[1])
        return RelationQuery(box.to(env.regions), one_hot(code, codes).to(env.regions))

    def steps(self, env: Environment) -> int:
        """T = 1: all boxes at once."""
        return 1

    def initial(self, query: RelationQuery, env: Environment) -> Tensor:
        """I: the relation's vector."""
        # Directions at first make no difference: "same colour" is learned once for both.
        vectors = (self.direction[:, None] * self.relation.weight).flatten(0, 1)
        return query.relation @ vectors

    def transmit(self, k: str, s: None, V: ScratchPad, g: Importances, env: Environment) -> Tensor:
        """Q: the features of the boxes; for Δ, their coordinates."""
        return env.boxes if k == RESIDUAL else env.regions

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        """Δ: where the boxes are."""
        seen = positions(query) if self.plan.departures.positions else query
        where: Tensor = self.place(seen)
        return where

    def receive(self, k: str, s: None, answer: Tensor, env: Environment) -> Tensor:
        """R: as it is."""
        return answer

    def update(self, s: None, V: ScratchPad, g: Importances, env: Environment) -> Tensor:
        """U: all that is known of the boxes."""
        looked: Tensor = self.look(torch.cat([env.regions, *V.values()], dim=2))
        return looked

    def predict(self, states: list[Tensor], query: RelationQuery, env: Environment) -> Tensor:
        """Ψ: attend over all boxes with l, the relation's vector times that of the box asked."""
        relation, boxes = states
        key = relation * env.weighted_sum(query.box, boxes)  # l
        return self.point.compare(key, self.projected(env), env)  # (B, N)

    @per_scene
    def projected(self, env: Environment) -> Tensor:
        """Return g(s) of all boxes."""
        return self.point.project(self.step(None, 1, env))

    def outputs(self, answer: Tensor, env: Environment) -> Tensor:
        """Return the logits with padding out of reach."""
        return answer.masked_fill(~env.mask, -torch.inf)


def relation_codes(shape: WorldShape) -> int:
    """Return how many relations there are, each direction counted."""
    return shape.count("relations") * shape.count("directions")


def relation_code(relation: Tensor, direction: Tensor, relations: int) -> Tensor:
    """Return the number of a relation in a direction."""
    return direction * relations + relation
