"""The heads: from what a trunk sees to the outputs of a task, one for each form of outputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from baselines.common.trunk import HeadInput, NetworkPlan
from pmn_cl.errors import UserError
from pmn_cl.modules.caption import END, LONGEST, START
from pmn_cl.modules.counter import Counter
from pmn_cl.modules.layers import ScaledLinear, SoftAttention
from pmn_cl.modules.relation import RelationQuery, relation_codes
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.tasks.base import ASKED_OF_RELATION, FORMS, Task
from pmn_cl.tasks.relations import OUT_OF_REACH

_SHARP = 5.0  # of the layer after the counter, at first, as in M_cnt

Teacher = Mapping[str, Tensor] | None


class Head(nn.Module):
    """Turns what was seen into outputs."""

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__()
        self.asks: QueryHead | None = None  # beside it, where [b, r] is supervised

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Return the outputs that the task's loss takes."""
        raise NotImplementedError


class RegionHead(Head):
    """Scores of each region (B, N, outputs): classes or labels."""

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__(plan, outputs)
        self.scores = nn.Linear(plan.width, outputs)

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Classify every region by itself."""
        scores: Tensor = self.scores(seen.regions)
        return env.of_samples(scores)


class PointingHead(Head):
    """Which region (B, N) is meant."""

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__(plan, outputs)
        self.point = SoftAttention(plan.width, plan.width, plan.attention)

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Attend over the regions once more, with the query as what it is about has changed it."""
        logits: Tensor = self.point(seen.query + seen.fused, seen.regions, env)
        return logits.masked_fill(~env.mask, OUT_OF_REACH)


class SentenceHead(Head):
    """Words (B, T, words): a GRU that attends over the regions after each word."""

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__(plan, outputs)
        self.start = nn.Linear(plan.width, plan.width)
        self.words = nn.Embedding(outputs, plan.sizes.word, padding_idx=0)
        self.gru = nn.GRU(plan.sizes.word, plan.width, batch_first=True)
        self.look = SoftAttention(plan.width, plan.width, plan.attention)
        self.speak = nn.Linear(2 * plan.width, outputs)

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Follow the teacher's sentence, or generate one, the likeliest word each time."""
        state, regions = self.start(seen.fused).tanh(), env.of_samples(seen.regions)
        projected = env.of_samples(self.look.project(seen.regions))
        if teacher is None:
            return self._generate(state, projected, regions, env)
        previous = pad(teacher["words"], (1, -1), value=START)
        states, _ = self.gru(self.words(previous), state[None])
        return self._words(states, projected, regions, env)

    def _words(
        self, states: Tensor, projected: Tensor, regions: Tensor, env: Environment
    ) -> Tensor:
        """Return the scores of the words (B, T, words) after each state (B, T, width)."""
        keys = self.look.f(states) * self.look.z.weight  # as SoftAttention.compare, for all T
        logits = keys @ projected.transpose(1, 2) + self.look.z.bias  # (B, T, N)
        found = logits.masked_fill(~env.mask[:, None], -torch.inf).softmax(2) @ regions
        scores: Tensor = self.speak(torch.cat([states, found], dim=2))
        return scores

    def _generate(
        self, state: Tensor, projected: Tensor, regions: Tensor, env: Environment
    ) -> Tensor:
        """Return the scores of the words of a new sentence, 0 after its end."""
        word = env.mask.new_full((len(env), 1), START, dtype=torch.long)
        ended = env.mask.new_zeros(len(env))
        generated, hidden = [], state[None]
        for _ in range(LONGEST):
            states, hidden = self.gru(self.words(word), hidden)
            scores = self._words(states, projected, regions, env)[:, 0]
            generated.append(scores.masked_fill(ended[:, None], 0))
            word = scores.argmax(1, keepdim=True)
            ended = ended | (word[:, 0] == END)
            if bool(ended.all()):
                break
        sentence = torch.stack(generated, dim=1)
        return pad(sentence, (0, 0, 0, LONGEST - sentence.shape[1]))


class CountHead(Head):
    """How many (B, counts): Zhang et al.'s counter on a map of boxes, and on nothing else.

    What was fused would guess a count from the question before there is a map worth counting, and
    then there never is one: plain counts are right in a third of cases with it, in half without.
    As M_cnt does, the query chooses softly between two maps: of what it is about, and, as in
    pointing, of what that leads to.
    """

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__(plan, outputs)
        self.point = SoftAttention(plan.width, plan.width, plan.attention)
        self.choose = nn.Linear(plan.width, 2)
        self.counter = Counter(outputs - 1, plan.departures.count_boxes)
        self.counted = nn.Linear(outputs, outputs)
        with torch.no_grad():
            self.counted.weight.copy_(_SHARP * torch.eye(outputs))

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Count what is attended to."""
        related: Tensor = self.point(seen.query + seen.fused, seen.regions, env)
        share = self.choose(seen.query).softmax(1)
        attention = share[:, :1] * seen.attention + share[:, 1:] * related
        counted = self.counter(env.overlaps, attention.masked_fill(~env.mask, -torch.inf))
        logits: Tensor = self.counted(counted)
        return logits


class AnswerHead(Head):
    """Any of some answers (B, answers)."""

    def __init__(self, plan: NetworkPlan, outputs: int) -> None:
        super().__init__(plan, outputs)
        self.think = ScaledLinear(plan.width, plan.width)
        self.answer = nn.Linear(plan.width, outputs)
        self.of_words: nn.Linear | None = None
        if plan.departures.question_answers:
            self.of_words = nn.Linear(plan.width, outputs)

    def forward(self, seen: HeadInput, env: Environment, teacher: Teacher = None) -> Tensor:
        """Answer from what was fused; what the question alone says of the answer is added."""
        logits: Tensor = self.answer(self.think(seen.fused).relu())
        return logits if self.of_words is None else logits + self.of_words(seen.query)


class QueryHead(nn.Module):
    """[b, r], which PMN puts to M_rel: the box and the relation that a question is about.

    Here nobody is asked. b is where the head's query attends, r is read from the query, and to
    learn them teaches the network where to look and what words mean.
    """

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.relation = nn.Linear(plan.width, relation_codes(plan.shape))

    def forward(self, seen: HeadInput, env: Environment) -> RelationQuery:
        """Return which box, in which relation."""
        return RelationQuery(env.softmax(seen.attention), self.relation(seen.query).softmax(1))


HEADS: dict[str, type[Head]] = {
    "class": RegionHead,
    "labels": RegionHead,
    "pointing": PointingHead,
    "sentence": SentenceHead,
    "count": CountHead,
    "answer": AnswerHead,
}


def head_for(task: Task, plan: NetworkPlan) -> Head:
    """Return a head for the form of a task's outputs."""
    if task.form not in HEADS:
        said = f"has the form {task.form!r}" if task.form else "does not say its `form`"
        raise UserError(
            f"the task {task.name!r} {said}: a network with a head per task needs one of "
            f"{', '.join(FORMS)}"
        )
    outputs = plan.shape.count(task.outputs) if task.outputs is not None else 0
    head = HEADS[task.form](plan, outputs)
    if task.name in plan.supervise:
        if not {*ASKED_OF_RELATION} <= {*task.target}:
            raise UserError(
                f"supervise: samples of {task.name!r} do not say what they ask of a relation; "
                f"those of a task with {', '.join(ASKED_OF_RELATION)} do"
            )
        head.asks = QueryHead(plan)
    return head
