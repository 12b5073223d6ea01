"""M_vqa (section 3.4 and appendix A.5): the answer to a question about the scene."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.attention import AttentionMap
from pmn_cl.modules.caption import PROBABILITIES, is_over
from pmn_cl.modules.compositional import ATTEND, RESIDUAL, CompositionalModule, part_name
from pmn_cl.modules.count import OWN_QUESTION
from pmn_cl.modules.importance import Importance, Importances
from pmn_cl.modules.layers import GatedTanh, SoftAttention, perceptron, receiver
from pmn_cl.modules.question import DEPARTS, QuestionParts
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import ScratchPad, per_batch, per_step
from pmn_cl.modules.task_module import ModulePlan, TaskModule

_MAPS = (ATTEND, "rel")  # callees that say where to look; all others say what is there
STEPS = 2


class AnswerState(NamedTuple):
    """The state: what to ask now, and what was learned in the step before."""

    question: Tensor  # q (B, hidden)
    knowledge: Tensor  # k (B, knowledge)


class AnswerModule(CompositionalModule):
    """Two steps: look somewhere, ask the modules what they know of it, update the question."""

    task = "vqa"
    vocabulary = (
        *("question words", "answers", "relations", "directions"),
        *("counts", "caption words"),
    )
    departs = (*DEPARTS, "question_answers", "joint_steps", "own_question", "question_as_state")

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        self.call_list = call_order(callees)
        shape, sizes = plan.shape, plan.sizes
        hidden, knowledge = sizes.hidden, sizes.knowledge
        self.copied = False  # whether Ω and Q_{→rel} started from those of a callee
        self.own_asking: QuestionParts | None = QuestionParts(plan, callees)  # Ω, Q_{→rel}
        maps = [k for k in self.call_list if k in _MAPS]
        others = [k for k in self.call_list if k not in _MAPS]
        self.G = Importance(hidden, [maps, others], plan.gates)
        self.think = nn.GRUCell(knowledge, hidden)  # I, U
        self.enter: nn.Linear | None = None  # I, where the GRU's input is not as wide as a question
        if hidden != knowledge and not plan.departures.question_as_state:
            self.enter = nn.Linear(hidden, knowledge)
        self.looks = AttentionMap()
        self.delta = perceptron(shape.region, knowledge, knowledge)  # Δ
        widths = {k: callee.answer_width for k, callee in callees.items()}
        widths |= {RESIDUAL: knowledge, "cap": sizes.word}
        without = [k for k in others if not widths[k]]
        if without:
            raise UserError(f"M_vqa cannot call {without[0]!r}: its module has no answer_width")
        self.R = nn.ModuleDict({part_name(k): receiver(widths[k], knowledge) for k in others})
        if "cap" in callees:
            self.words = nn.Embedding(shape.count("caption words"), sizes.word, padding_idx=0)
            self.listen = SoftAttention(hidden, sizes.word, sizes.attention)
        self.of_question = GatedTanh(hidden, knowledge)  # Ψ
        self.of_knowledge = GatedTanh(knowledge, knowledge)
        self.answer = nn.Linear(knowledge, shape.count("answers"))
        self.of_both: GatedTanh | None = None
        if plan.departures.joint_steps:
            self.of_both = GatedTanh(3 * knowledge, knowledge)
        self.of_words: nn.Linear | None = None
        if plan.departures.question_answers:
            self.of_words = nn.Linear(hidden, shape.count("answers"))

    @property
    def asking(self) -> QuestionParts:
        """Return the question encoder, Ω and Q→rel: its own, or borrowed from a callee."""
        found = self.own_asking if self.shares is None else self.callees[self.shares].asking
        assert isinstance(found, QuestionParts)
        return found

    def own_query(self, env: Environment) -> Tensor:
        """Return the question vector."""
        asked: Tensor = self.asking.question(env)
        return asked

    def steps(self, env: Environment) -> int:
        """T = 2."""
        return STEPS

    def initial(self, query: Tensor, env: Environment) -> AnswerState:
        """I: the GRU takes the question; nothing is known."""
        first = query
        if not self.plan.departures.question_as_state:
            first = self.think(query if self.enter is None else self.enter(query))
        return AnswerState(first, first.new_zeros(len(first), self.think.input_size))

    def importance(self, s: AnswerState) -> Importances:
        """G: a linear layer on the question of this step; a softmax for maps, one for the rest."""
        gates: Importances = self.G(s.question)
        return gates

    def transmit(
        self, k: str, s: AnswerState, V: ScratchPad, g: Importances, env: Environment
    ) -> Any:
        """Q: the question for Ω, a box and a relation for M_rel, else the region looked at."""
        if k == ATTEND:
            return s.question
        if k == "rel":
            return self.asking.ask_relation(s.question, env, self)
        if k == "cnt":
            return OWN_QUESTION if self.plan.departures.own_question else s.question
        if k == "cap":
            return PROBABILITIES
        return self._region(V, g, env)

    @per_step
    def _region(self, V: ScratchPad, g: Importances, env: Environment) -> Tensor:
        """Return the region looked at (B, d), by the maps together."""
        m = torch.stack([g[name][:, None] * V[name] for name in _MAPS if name in V]).sum(0)
        return env.attended(self.looks(m, env))

    def first_relation_query(
        self, query: Tensor, env: Environment, reach_encoder: bool
    ) -> RelationQuery:
        """Return [b, r] of the first step, for supervision; it may stop short of the encoder."""
        key = self.initial(query, env).question
        return self.asking.ask_relation(key if reach_encoder else key.detach(), env, self)

    def share(self, callee: str) -> None:
        """Use the encoder, Ω and Q→rel of M_cnt: borrowed, not owned."""
        unknown = [k for k in self.callees[callee].callees if k not in self.callees]
        if unknown:
            raise UserError(
                f"M_vqa cannot share with M_{callee}, which calls {', '.join(unknown)}: name these "
                "in M_vqa's call list, too, or use `asking: own`"
            )
        self.shares, self.own_asking = callee, None

    def attend(self, query: Tensor, env: Environment) -> Tensor:
        """Ω: where to look."""
        return self.asking.attend(query, env, self)

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        """Δ: anything else in the region."""
        more: Tensor = self.delta(query)
        return more

    def receive(self, k: str, s: AnswerState, answer: Tensor, env: Environment) -> Tensor:
        """R: an attention map, or a vector of knowledge."""
        if k in _MAPS:
            return env.softmax(answer)
        if k == "cap":
            answer = self._of_caption(s, answer, env)
        received: Tensor = self.R[part_name(k)](answer)
        return received

    def _of_caption(self, s: AnswerState, sentence: Tensor, env: Environment) -> Tensor:
        """R_{cap→vqa}: attend over the words of the caption, as far as it goes."""
        # Behind hard gates, the samples that get the caption change from step to step.
        hard = self.plan.gates.kind == "hard"
        over, words, projected = self._read(sentence) if hard else self._read_once(env, sentence)
        over = env.of_samples(over)
        p = self.listen.compare(s.question, projected, env).masked_fill(over, -torch.inf).softmax(1)
        return env.weighted_sum(p, words)

    @per_batch
    def _read_once(self, env: Environment, sentence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._read(sentence)

    def _read(self, sentence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the caption is over (S, T), its words w (S, T, word), and g(w)."""
        # Sentence times words, both turned round: the same product, and for thousands of words a
        # faster one, with its gradient.
        words = self.words.weight.T.contiguous() @ sentence.flatten(0, 1).T
        words = words.T.contiguous().view(*sentence.shape[:2], -1)
        return is_over(sentence), words, self.listen.project(words)

    def update(
        self, s: AnswerState, V: ScratchPad, g: Importances, env: Environment
    ) -> AnswerState:
        """U: weigh what was received; the GRU makes the next question of it."""
        gated = [g[k][:, None] * V[k] for k in self.call_list if k in V and k not in _MAPS]
        k = torch.stack(gated).sum(0)
        return AnswerState(self.think(k, s.question), k)

    def predict(self, states: list[AnswerState], query: Tensor, env: Environment) -> Tensor:
        """Ψ: fuse the question with the knowledge of each step; the logits are added."""
        asked = self.of_question(query)
        logits = [self.answer(asked * self.of_knowledge(s.knowledge)) for s in states[1:]]
        if self.of_both is not None:
            first, second = (s.knowledge for s in states[1:])
            both = torch.cat([first, second, first * second], dim=1)
            logits.append(self.answer(asked * self.of_both(both)))
        if self.of_words is not None:
            logits.append(self.of_words(query))
        return torch.stack(logits).sum(0)


def call_order(callees: Iterable[str]) -> tuple[str, ...]:
    """Return L_vqa: the callees in the order of the stream, with Ω and Δ in their places.

    The maps, Ω and M_rel, come first wherever the stream names M_rel: the others are asked about
    the region that all maps show. Δ, which is asked so, too, follows the last of M_obj and M_att.
    """
    called = list(callees)
    order = [ATTEND, *(k for k in called if k in _MAPS), *(k for k in called if k not in _MAPS)]
    place = 1 + max(place for place, k in enumerate(order) if k in (*_MAPS, "obj", "att"))
    return (*order[:place], RESIDUAL, *order[place:])
