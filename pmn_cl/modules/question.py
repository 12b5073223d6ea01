"""What M_cnt and M_vqa have in common: a question, Ω, and the query [b, r] for M_rel.

The paper shares these parts between the two modules.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pmn_cl.modules.compositional import CompositionalModule
from pmn_cl.modules.layers import QuestionEncoder, SoftAttention, perceptron
from pmn_cl.modules.relation import RelationQuery, relation_codes
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import per_batch, per_scene
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.modules.terminal import TerminalModule

# Departures that concern these parts, and how they are trained.
DEPARTS = ("scaled_start", "singulars", "shared_projection", "supervise_encoder")


class QuestionParts(nn.Module):
    """The question's encoder, Ω, and Q_{→rel} where M_rel may be called.

    Where M_obj and M_att may be called, Ω and Q_{→rel} attend over [Xᵢ; M_obj(Xᵢ); M_att(Xᵢ)],
    as the authors' published demo does; else over Xᵢ.
    """

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__()
        self.plan = plan
        terminal = [k for k, m in callees.items() if isinstance(m, TerminalModule)]
        self.describers = sorted(terminal, key=lambda k: (k != "obj", k))  # in any call order
        shape, sizes = plan.shape, plan.sizes
        data = shape.region + sum(callees[k].answer_width for k in self.describers)
        hidden = sizes.hidden
        self.question = QuestionEncoder(
            shape.list_of("question words"), sizes.word, hidden, plan.departures.singulars
        )
        self.attention = SoftAttention(hidden, data, sizes.attention)  # Ω
        self.box: SoftAttention | None = None  # Q_{→rel}: b
        self.relation: nn.Sequential | None = None  # Q_{→rel}: r
        if "rel" in callees:
            own = None if plan.departures.shared_projection else data
            self.box = SoftAttention(hidden, own, sizes.attention)
            self.relation = perceptron(hidden, hidden, relation_codes(shape))

    def fits(self, other: QuestionParts) -> bool:
        """Whether another module's parts can be used in the place of these."""
        same = (self.box is None) == (other.box is None)
        return same and self.describers == other.describers

    def attend(self, key: Tensor, env: Environment, owner: CompositionalModule) -> Tensor:
        """Ω: the logits (B, N) of all regions."""
        return self.attention.compare(key, self._for_attention(env, owner), env)

    def ask_relation(
        self, key: Tensor, env: Environment, owner: CompositionalModule
    ) -> RelationQuery:
        """Q_{→rel}: which box, in which relation."""
        assert self.box is not None
        assert self.relation is not None
        shared = self.plan.departures.shared_projection
        projected = self._for_attention(env, owner) if shared else self._for_box(env, owner)
        box = env.softmax(self.box.compare(key, projected, env))
        return RelationQuery(box, self.relation(key).softmax(1))

    @per_scene
    def _for_attention(self, env: Environment, owner: CompositionalModule) -> Tensor:
        """Return g(d) of Ω (S, N, attention)."""
        return self.attention.project(self._described(env, owner))

    @per_scene
    def _for_box(self, env: Environment, owner: CompositionalModule) -> Tensor:
        """Return g(d) of b (S, N, attention)."""
        assert self.box is not None
        return self.box.project(self._described(env, owner))

    @per_batch
    def _described(self, env: Environment, owner: CompositionalModule) -> Tensor:
        """Return the regions with what the modules of level 0 say of them (S, N, data)."""
        said = [owner.call(name, env.regions, {}, 0, env) for name in self.describers]
        return torch.cat([env.regions, *said], dim=2) if said else env.regions
