"""M_cnt (appendix A.4): how many of the things asked about there are."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pmn_cl.modules.attention import AttentionMap
from pmn_cl.modules.compositional import ATTEND, CompositionalModule
from pmn_cl.modules.counter import Counter
from pmn_cl.modules.importance import Importance, Importances
from pmn_cl.modules.question import DEPARTS, QuestionParts
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import SampleQuery, ScratchPad
from pmn_cl.modules.task_module import ModulePlan, TaskModule

OWN_QUESTION = SampleQuery("own question")  # the query of a caller that has no question vector
_SHARP = 5.0  # of the layer after the counter, at first: a sure count gets e⁵ times the odds
_FAINT = 1e-6  # a count that the counter excludes is merely very unlikely


class CountModule(CompositionalModule):
    """One step: attend by itself or ask M_rel for a map of boxes, and count what is attended."""

    task, vocabulary = "cnt", ("question words", "counts", "relations", "directions")
    departs = (*DEPARTS, "relation_receiver", "count_layer", "count_boxes")

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        related = ("rel",) if "rel" in callees else ()
        self.call_list = (ATTEND, *related)
        self.asking = QuestionParts(plan, callees)  # Ω, Q_{→rel}
        self.G = Importance(plan.sizes.hidden, [self.call_list], plan.gates)
        most = plan.shape.count("counts") - 1
        self.answer_width = most + 1
        self.looks = AttentionMap(logits=True)
        departures = plan.departures
        self.counter = Counter(most, departures.count_boxes)  # Ψ
        self.scale = self.level = None
        if departures.relation_receiver and related:
            self.scale = nn.Parameter(torch.tensor(1.0))
            self.level = nn.Parameter(torch.tensor(0.0))
        self.layer: nn.Linear | None = None
        if departures.count_layer:
            self.layer = nn.Linear(most + 1, most + 1)
            with torch.no_grad():
                self.layer.weight.copy_(_SHARP * torch.eye(most + 1))
                self.layer.bias.zero_()

    def own_query(self, env: Environment) -> Tensor:
        """Return the question vector."""
        asked: Tensor = self.asking.question(env)
        return asked

    def steps(self, env: Environment) -> int:
        """T = 1."""
        return 1

    def initial(self, query: Tensor | SampleQuery, env: Environment) -> Tensor:
        """I: the question vector itself, or what its own encoder makes of the question's words."""
        return query if isinstance(query, Tensor) else self.own_query(env)

    def importance(self, s: Tensor) -> Importances:
        """G: a linear layer on the question."""
        gates: Importances = self.G(s)
        return gates

    def transmit(
        self, k: str, s: Tensor, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor | RelationQuery:
        """Q: the question for Ω; a box and a relation for M_rel."""
        return s if k == ATTEND else self.asking.ask_relation(s, env, self)

    def attend(self, query: Tensor, env: Environment) -> Tensor:
        """Ω: which regions are meant."""
        return self.asking.attend(query, env, self)

    def receive(self, k: str, s: Tensor, answer: Tensor, env: Environment) -> Tensor:
        """R: a map of logits; M_rel's are compared by a softmax, so their level is learned."""
        if k == ATTEND or self.scale is None or self.level is None:
            return answer
        return self.scale * answer + self.level

    def update(self, s: Tensor, V: ScratchPad, g: Importances, env: Environment) -> Tensor:
        """U: choose softly between the maps."""
        return torch.stack([g[k][:, None] * V[k] for k in V]).sum(0)

    def predict(
        self, states: list[Tensor], query: Tensor | SampleQuery, env: Environment
    ) -> Tensor:
        """Ψ: count what s² attends to; the scores of 0 … 12 (B, 13)."""
        attention = self.looks(states[1], env).masked_fill(~env.mask, -torch.inf)
        counted: Tensor = self.counter(env.overlaps, attention)
        return counted

    def first_relation_query(
        self, query: Tensor, env: Environment, reach_encoder: bool
    ) -> RelationQuery:
        """Return [b, r] for supervision, which may stop short of the question's encoder."""
        return self.asking.ask_relation(query if reach_encoder else query.detach(), env, self)

    def outputs(self, answer: Tensor, env: Environment) -> Tensor:
        """Return logits: those of the layer, or of the count vector as probabilities."""
        if self.layer is None:
            return answer.clamp(min=_FAINT).log()
        logits: Tensor = self.layer(answer)
        return logits
