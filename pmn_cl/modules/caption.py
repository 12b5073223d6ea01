"""M_cap (appendix A.2): a sentence about the scene, word by word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from pmn_cl.modules.compositional import ATTEND, RESIDUAL, CompositionalModule, part_name
from pmn_cl.modules.importance import Importance, Importances
from pmn_cl.modules.layers import SoftAttention, perceptron, receiver
from pmn_cl.modules.places import PLACES, observed
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import (
    SceneQuery,
    ScratchPad,
    per_batch,
    per_scene,
    per_step,
)
from pmn_cl.modules.task_module import ModulePlan, TaskModule

LONGEST = 16  # T, in words with the end mark
START, END = 1, 2  # the numbers of the marks in every caption vocabulary; 0 is padding
GREEDY = "greedy"  # the query for one sentence
PROBABILITIES = SceneQuery("probabilities")  # the query for soft words, as distributions


@dataclass(frozen=True)
class CaptionState:
    """The state: both GRU layers, and the last word."""

    h1: Tensor  # (B, caption)
    h2: Tensor  # (B, caption)
    word: Tensor  # (B, vocabulary), one-hot or soft: input of the next step
    scores: Tensor  # (B, vocabulary), from which it was chosen
    ended: Tensor  # (B,)
    teacher: Tensor | None = None  # (B, words still to come): the input instead
    soft: bool = False  # the words' probabilities are


class CaptionModule(CompositionalModule):
    """A two-layer GRU that looks at a region, asks what it shows, and says the next word.

    It answers with the scores of the words (B, T, vocabulary), zero after the sentence's end. For
    people and metrics the likeliest word is the input of the next step (``GREEDY``), while it
    learns the teacher's. Callers ask for the words' probabilities (``PROBABILITIES``), which are
    the input themselves, so that gradient flows.
    """

    task, vocabulary, teacher_forced = "cap", ("caption words",), ("words",)
    departs = ("scaled_start", "caption_positions")

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        self.call_list = (ATTEND, *callees, RESIDUAL)
        region, sizes = plan.shape.region, plan.sizes
        width, words = sizes.caption, plan.shape.count("caption words")
        groups = [[ATTEND], [*callees, RESIDUAL]]
        self.G = Importance(width, groups, plan.gates)
        self.region = region
        seen = region + (PLACES if plan.departures.caption_positions else 0)
        self.attention = SoftAttention(width, seen, sizes.attention)  # Ω
        self.delta = perceptron(seen, width, width)  # Δ
        sizes_of = {k: callee.answer_width for k, callee in callees.items()} | {RESIDUAL: width}
        self.R = nn.ModuleDict({part_name(k): receiver(n, width) for k, n in sizes_of.items()})
        self.words = nn.Embedding(words, sizes.word, padding_idx=0)
        self.first = nn.GRUCell(seen + sizes.word + width, width)  # U
        self.second = nn.GRUCell(width + width, width)
        self.speak = nn.Linear(width, words)  # Ψ

    def own_query(self, env: Environment) -> Tensor | str:
        """Return the sentence to learn, where there is a teacher; else ask for one."""
        return env.fields.get("words", GREEDY)

    def steps(self, env: Environment) -> int:
        """T = 16."""
        return LONGEST

    def initial(self, query: Tensor | str, env: Environment) -> CaptionState:
        """I: zero, and the mark that begins a sentence."""
        B, words = len(env), self.speak.out_features
        zero = env.regions.new_zeros(B, self.speak.in_features)
        start = one_hot(env.mask.new_full((B,), START, dtype=torch.long), words).to(zero)
        teacher = query if isinstance(query, Tensor) else None
        ended = env.mask.new_zeros(B)
        return CaptionState(zero, zero, start, start, ended, teacher, soft=query == PROBABILITIES)

    def importance(self, s: CaptionState) -> Importances:
        """G: a linear layer on the first hidden state."""
        gates: Importances = self.G(s.h1)
        return gates

    def transmit(
        self, k: str, s: CaptionState, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor:
        """Q: the first hidden state for Ω; for the others the region attended to."""
        if k == ATTEND:
            return s.h1
        attended = self._attended(V, env)
        return attended if k == RESIDUAL else attended[:, : self.region]

    @per_step
    def _attended(self, V: ScratchPad, env: Environment) -> Tensor:
        """Return what is seen of the region attended to (B, seen)."""
        return env.weighted_sum(V[ATTEND], self._seen(env))

    @per_batch
    def _seen(self, env: Environment) -> Tensor:
        """Return the regions (S, N, seen), with the places of their boxes where these are seen."""
        return observed(env) if self.plan.departures.caption_positions else env.scenes.regions

    def attend(self, query: Tensor, env: Environment) -> Tensor:
        """Ω: which region to speak of."""
        return self.attention.compare(query, self._projected(env), env)

    @per_scene
    def _projected(self, env: Environment) -> Tensor:
        """Return g(d) of Ω (S, N, attention)."""
        return self.attention.project(self._seen(env))

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        """Δ: anything else in the region."""
        more: Tensor = self.delta(query)
        return more

    def receive(self, k: str, s: CaptionState, answer: Tensor, env: Environment) -> Tensor:
        """R: an attention map, or a vector of the GRU's width."""
        if k == ATTEND:
            return env.softmax(answer)
        received: Tensor = self.R[part_name(k)](answer)
        return received

    def update(
        self, s: CaptionState, V: ScratchPad, g: Importances, env: Environment
    ) -> CaptionState:
        """U: a GRU layer takes the last word, one what the modules said of the region."""
        last = s.word @ self.words.weight
        h1 = self.first(torch.cat([env.of_samples(self._mean(env)), last, s.h2], dim=1), s.h1)
        gated = [g[k][:, None] * V[k] for k in self.call_list if k != ATTEND and k in V]
        rho = torch.stack(gated).sum(0)
        h2 = self.second(torch.cat([h1, rho], dim=1), s.h2)
        return self._say(replace(s, h1=h1, h2=h2))

    @per_scene
    def _mean(self, env: Environment) -> Tensor:
        """Return the mean of all regions (S, seen)."""
        return env.scenes.mean_of(self._seen(env))

    def _say(self, s: CaptionState) -> CaptionState:
        """Score the words, and choose the input of the next step."""
        scores: Tensor = self.speak(s.h2).masked_fill(s.ended[:, None], 0)
        ended = s.ended | (scores.argmax(1) == END)
        if s.teacher is not None:
            word = one_hot(s.teacher[:, 0], scores.shape[1]).to(scores)
            return replace(s, word=word, scores=scores, teacher=s.teacher[:, 1:])
        word = scores.softmax(1)
        if not s.soft:
            word = one_hot(scores.argmax(1), scores.shape[1]).to(scores)
        return replace(s, word=word, scores=scores, ended=ended)

    def finished(self, s: CaptionState) -> bool:
        """Stop when every sentence has ended: the teacher's where there is one."""
        if s.teacher is not None:
            return s.teacher.shape[1] == 0 or not bool(s.teacher[:, 0].any())
        return bool(s.ended.all())

    def predict(self, states: list[CaptionState], query: Tensor | str, env: Environment) -> Tensor:
        """Ψ: the scores of all words, or their probabilities; steps not taken have zeros."""
        taken = torch.stack([s.scores for s in states[1:]], dim=1)
        scores = pad(taken, (0, 0, 0, LONGEST - taken.shape[1]))
        return soft_sentence(scores) if query == PROBABILITIES else scores


def soft_sentence(scores: Tensor) -> Tensor:
    """Return the distributions over words (B, T, vocabulary), zero after the end of a sentence."""
    over = (scores.argmax(2) == END).cumsum(1)  # from the end mark on
    after = pad(over, (1, 0))[:, :-1] > 0
    return scores.softmax(2).masked_fill(after[:, :, None], 0)


def is_over(sentence: Tensor) -> Tensor:
    """Return where a soft sentence (B, T, vocabulary) has no word to hear: from its end mark on.

    Something is heard even of a sentence without words: no softmax is over nothing.
    """
    later = sentence[:, 1:]
    return pad((later.argmax(2) == END) | (later.sum(2) == 0), (1, 0))
