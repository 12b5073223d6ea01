"""M_cap (appendix A.2): a sentence about the scene, word by word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from pmn_cl.modules.compositional import (
    ATTEND,
    RESIDUAL,
    CompositionalModule,
    ScratchPad,
    part_name,
)
from pmn_cl.modules.importance import Importance, Importances
from pmn_cl.modules.layers import SoftAttention, perceptron, receiver
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.task_module import ModulePlan, TaskModule

LONGEST = 16  # T, in words with the end mark
START, END = 1, 2  # the numbers of the marks in every caption vocabulary; 0 is padding
GREEDY = "greedy"  # the query of who wants one sentence rather than soft words
CHANCES = "chances"  # the query of who wants soft words as distributions rather than scores


@dataclass(frozen=True)
class Telling:
    """The state: both GRU layers, and what was said last."""

    h1: Tensor  # (B, caption)
    h2: Tensor  # (B, caption)
    word: Tensor  # (B, vocabulary), one-hot or soft: what the next step hears
    scores: Tensor  # (B, vocabulary), from which it was chosen
    ended: Tensor  # (B,)
    teacher: Tensor | None = None  # (B, words still to come): to be heard instead
    greedy: bool = False


class CaptionModule(CompositionalModule):
    """A two-layer GRU that looks at a region, asks what it shows, and says the next word.

    It answers with the scores of the words (B, T, vocabulary), zero after the sentence's end.
    Callers ask with nothing, and each word is heard softly by the next step, so that gradient
    flows; or for what they make of the scores, the words' chances (``CHANCES``). People and
    metrics want the likeliest word each time (``GREEDY``).
    """

    task, vocabulary, hears = "cap", ("caption words",), ("words",)

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        self.call_list = (ATTEND, *callees, RESIDUAL)
        region, sizes = plan.shape.region, plan.sizes
        width, words = sizes.caption, plan.shape.count("caption words")
        groups = [[ATTEND], [*callees, RESIDUAL]]
        self.G = Importance(width, groups, plan.gates)
        self.attention = SoftAttention(width, region, sizes.attention)  # Ω
        self.delta = perceptron(region, width, width)  # Δ
        heard = {k: callee.answer_width for k, callee in callees.items()} | {RESIDUAL: width}
        self.R = nn.ModuleDict({part_name(k): receiver(size, width) for k, size in heard.items()})
        self.words = nn.Embedding(words, sizes.word, padding_idx=0)
        self.first = nn.GRUCell(region + sizes.word + width, width)  # U
        self.second = nn.GRUCell(width + width, width)
        self.speak = nn.Linear(width, words)  # Ψ

    def own_query(self, env: Environment) -> Tensor | str:
        """Return the sentence to learn, where there is a teacher; else ask for a plain one."""
        return env.fields.get("words", GREEDY)

    def forward(self, query: Tensor | str | None, env: Environment) -> Tensor:
        """Tell; what callers hear depends on the scene alone, and is remembered."""
        told = super().forward
        if query is None:
            return env.recall(self, "soft", lambda seen: told(None, seen))
        if isinstance(query, str) and query == CHANCES:
            return env.recall(self, CHANCES, lambda seen: soft_sentence(told(None, seen)))
        return told(query, env)

    def steps(self, env: Environment) -> int:
        """T = 16."""
        return LONGEST

    def initial(self, query: Tensor | str | None, env: Environment) -> Telling:
        """I: zero, and the mark that begins a sentence."""
        B, words = len(env), self.speak.out_features
        zero = env.regions.new_zeros(B, self.speak.in_features)
        start = one_hot(env.mask.new_full((B,), START, dtype=torch.long), words).to(zero)
        teacher = query if isinstance(query, Tensor) else None
        ended = env.mask.new_zeros(B)
        return Telling(zero, zero, start, start, ended, teacher, query == GREEDY)

    def importance(self, s: Telling) -> Importances:
        """G: a linear layer on the first hidden state."""
        gates: Importances = self.G(s.h1)
        return gates

    def transmit(
        self, k: str, s: Telling, V: ScratchPad, g: Importances, env: Environment
    ) -> Tensor:
        """Q: the first hidden state for Ω; for the others the region attended to."""
        if k == ATTEND:
            return s.h1
        if "attended" not in V:
            V["attended"] = env.attended(V[ATTEND])
        attended: Tensor = V["attended"]
        return attended

    def attend(self, query: Tensor, env: Environment) -> Tensor:
        """Ω: which region to speak of."""
        projected = env.recall(self, "Ω", lambda seen: self.attention.project(seen.regions))
        return self.attention.compare(query, projected)

    def residual(self, query: Tensor, env: Environment) -> Tensor:
        """Δ: anything else in the region."""
        more: Tensor = self.delta(query)
        return more

    def receive(self, k: str, s: Telling, answer: Tensor, env: Environment) -> Tensor:
        """R: an attention map, or a vector of the GRU's width."""
        if k == ATTEND:
            return env.softmax(answer)
        heard: Tensor = self.R[part_name(k)](answer)
        return heard

    def update(self, s: Telling, V: ScratchPad, g: Importances, env: Environment) -> Telling:
        """U: hear the last word, then what the modules said of the region; say a word."""
        mean = env.recall(self, "mean", Environment.mean_region)
        last = s.word @ self.words.weight
        h1 = self.first(torch.cat([mean, last, s.h2], dim=1), s.h1)
        heard = [g[k][:, None] * V[k] for k in self.call_list if k != ATTEND and k in V]
        rho = torch.stack(heard).sum(0)
        h2 = self.second(torch.cat([h1, rho], dim=1), s.h2)
        return self._say(replace(s, h1=h1, h2=h2))

    def _say(self, s: Telling) -> Telling:
        """Say a word, and choose what the next step hears."""
        scores: Tensor = self.speak(s.h2).masked_fill(s.ended[:, None], 0)
        ended = s.ended | (scores.argmax(1) == END)
        if s.teacher is not None:
            word = one_hot(s.teacher[:, 0], scores.shape[1]).to(scores)
            return replace(s, word=word, scores=scores, teacher=s.teacher[:, 1:])
        word = scores.softmax(1)
        if s.greedy:
            word = one_hot(scores.argmax(1), scores.shape[1]).to(scores)
        return replace(s, word=word, scores=scores, ended=ended)

    def finished(self, s: Telling) -> bool:
        """Stop when every sentence has ended: the teacher's where there is one."""
        if s.teacher is not None:
            return s.teacher.shape[1] == 0 or not bool(s.teacher[:, 0].any())
        return bool(s.ended.all())

    def predict(
        self, states: list[Telling], query: Tensor | str | None, env: Environment
    ) -> Tensor:
        """Ψ: the scores of all words; steps that were not needed are silent."""
        spoken = torch.stack([s.scores for s in states[1:]], dim=1)
        return pad(spoken, (0, 0, 0, LONGEST - spoken.shape[1]))

    @torch.no_grad()
    def describe(self, env: Environment, beams: int = 3) -> Tensor:
        """Return the likeliest sentences (B, T) that a beam search of this width finds."""
        B, words = len(env), self.speak.out_features
        copies = env.rows(torch.arange(B, device=env.mask.device).repeat_interleave(beams))
        s = self.initial(GREEDY, copies)
        # At first all beams of a scene are alike: only one of them may go on.
        total = s.h1.new_full((B, beams), -torch.inf)
        total[:, 0] = 0
        told = torch.zeros(B * beams, 0, dtype=torch.long, device=total.device)
        for t in range(1, LONGEST + 1):
            ended = s.ended
            s = self.step(s, t, copies)
            chances = s.scores.log_softmax(1)
            silence = torch.full_like(chances, -torch.inf)
            silence[:, 0] = 0  # an ended sentence goes on with padding, at no cost
            chances = torch.where(ended[:, None], silence, chances)
            total, best = (total[:, :, None] + chances.view(B, beams, words)).flatten(1).topk(beams)
            beam = (best // words + beams * torch.arange(B, device=best.device)[:, None]).flatten()
            word = (best % words).flatten()
            told = torch.cat([told[beam], word[:, None]], dim=1)
            s = replace(
                s,
                h1=s.h1[beam],
                h2=s.h2[beam],
                word=one_hot(word, words).to(s.h1),
                ended=ended[beam] | (word == END),
            )
        return told.view(B, beams, LONGEST)[:, 0]  # topk sorts: the likeliest comes first


def soft_sentence(scores: Tensor) -> Tensor:
    """Return the distributions over words (B, T, vocabulary), zero after the end of a sentence."""
    over = (scores.argmax(2) == END).cumsum(1)  # from the end mark on
    silent = pad(over, (1, 0))[:, :-1] > 0  # after it
    return scores.softmax(2).masked_fill(silent[:, :, None], 0)
