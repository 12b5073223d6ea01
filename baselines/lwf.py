"""Learning without forgetting (Li & Hoiem 2016) for mixed outputs, on hard sharing's network.

No old data is kept. Before a task is learned, the network is copied and frozen. What the copy
answers to the old tasks *about the new data* is what the network must go on answering while it
learns: its loss is L_new + λ_o Σ_old L_old.

L_old is the paper's for classes, the cross-entropy of probabilities softened by a temperature T.
Other outputs get a distillation in their own form, each a mean like the loss of its task:

- labels, answers: binary cross-entropy with the old probabilities as targets;
- pointing: KL divergence over the boxes that are there, softened by T as all that follow;
- sentences: KL divergence per word, along the sentence that the old network generates;
- counts: as classes.

What an old task asks may be missing in the new data. Where a relation is, a random box that is
there, a random relation and a random direction are asked, new ones for every batch; they need not
have an answer, but what the old network makes of them is defined. A question is the new sample's
own (counts are asked with vqa's questions); where it has none, old tasks with questions are left
out, as old questions are not kept and random words ask nothing.

Departures: the old answers are not recorded for all data beforehand but found for each batch, which
is the same for a frozen copy and needs no room; only its sentences are generated beforehand, once
per scene, as a word needs those before it. Sentences are held for 16 samples from all over a
batch, a random choice as batches are shuffled. There is no warm-up of the new head alone, so that
every strategy takes the same steps, and no weight decay, as nowhere here.

A step of vqa with five old tasks takes about three times as long as plain hard sharing's (measured:
15 ms became 50): either network looks at the regions once for all tasks, and at a query once for
all tasks that ask it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from baselines.common.heads import RegionHead, Teacher
from baselines.common.trunk import HeadInput, reader_name
from baselines.hard_sharing import HardSharing, SharedNetwork
from baselines.options import LwfOptions
from pmn_cl.modules.caption import LONGEST
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task
from pmn_cl.tasks.relations import OUT_OF_REACH
from strategies.loaders import task_seed
from strategies.losses import counted_maps

_GENERATOR = "dice"  # in a saved state
_GENERATED_AT_ONCE = 512  # scenes
_SENTENCES = 16  # of a batch: each has a term per word, and they cost the most


class LearningWithoutForgetting(HardSharing):
    """One task after another, while the answers to old tasks on the new data are held."""

    predictable = False

    Options = LwfOptions

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._old: OldNetwork | None = None
        self.terms: dict[str, float] = {}  # L_old of the last batch, by old task

    def prepare(self, experience: Experience) -> None:
        """Freeze a copy of the network as it is, then add what the task needs."""
        if isinstance(self.model, SharedNetwork) and self.options.strength > 0:
            self._old = OldNetwork(self.model, experience, self.seed)
        super().prepare(experience)

    def finish(self, experience: Experience) -> None:
        """Let the copy go."""
        self._old, self.terms = None, {}

    def task_batch_loss(self, x: Any, y: Any, experience: Experience) -> tuple[Tensor, Tensor]:
        """Return outputs, and L_new + λ_o Σ L_old."""
        if self._old is None:
            return super().task_batch_loss(x, y, experience)
        env = self._old.ask(Environment.of(x, task=experience.task.name))
        now = OldTaskQuery(self.network, env)
        with counted_maps(self.network) as maps:
            outputs = now.answer(experience.task, y)
        terms = self._old.terms(now, experience.task, self.options.temperature)
        self.terms = {name: float(term.detach()) for name, term in terms.items()}
        loss = self.loss_of(experience.task, outputs, y, maps)
        return outputs, loss + self.options.strength * sum(terms.values())

    def extra_state(self) -> dict[str, Tensor]:
        """Return the copy, while there is one, and its random generator."""
        return {} if self._old is None else self._old.state()

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back the copy: that of a network in the middle of a task would come too late."""
        if self._old is not None:
            self._old.load(tensors)


class OldTaskQuery:
    """One look of a network at a batch, for all tasks: what they have in common is found once."""

    def __init__(
        self, network: SharedNetwork, env: Environment, regions: Tensor | None = None
    ) -> None:
        self.network, self.env = network, env
        self._regions = network.trunk.look(env) if regions is None else regions
        self._seen: dict[str, HeadInput] = {}  # by reader

    def answer(self, task: Task, teacher: Teacher = None) -> Tensor:
        """Return the outputs of a task."""
        head, reader = self.network.heads[task.name], reader_name(task)
        outputs: Tensor
        if isinstance(head, RegionHead):  # sees the regions alone, whatever would be fused
            outputs = self.env.of_samples(head.scores(self._regions))
            return outputs
        if reader not in self._seen:
            self._seen[reader] = self.network.trunk(self.env, task, self._regions)
        outputs = head(self._seen[reader], self.env, teacher)
        return outputs

    def some(self, count: int) -> OldTaskQuery:
        """Return the look at so many samples from all over the batch."""
        last, device = len(self.env) - 1, self.env.mask.device
        rows = torch.linspace(0, last, min(count, last + 1), device=device).round().long()
        return OldTaskQuery(
            self.network, self.env.rows(rows), self.env.of_samples(self._regions)[rows]
        )


class OldNetwork:
    """The network as it was before an experience, and what it answers about its scenes."""

    def __init__(self, network: SharedNetwork, experience: Experience, seed: int) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        self._experience = experience
        self._generator = torch.Generator().manual_seed(task_seed(seed, experience.task.name))
        self._generated: dict[str, Tensor] = {}  # sentences (scenes of the split, T), by task

    def state(self) -> dict[str, Tensor]:
        """Return what was frozen, and the state of the random generator."""
        return {**self.network.state_dict(), _GENERATOR: self._generator.get_state()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Be the network of such a state."""
        kept = dict(tensors)
        self._generator.set_state(kept.pop(_GENERATOR))
        self.network.load_state_dict(kept)

    def ask(self, env: Environment) -> Environment:
        """Return a batch that also asks for a relation, if it did not and an old task would."""
        names = ("box", "relation", "direction")
        wanted = {name for task in self.network.tasks.values() for name in task.query}
        if not wanted.issuperset(names) or any(name in env.fields for name in names):
            return env
        scores = torch.rand(env.mask.shape, generator=self._generator).masked_fill(
            ~env.mask.cpu(), -1
        )
        drawn = {"box": scores.argmax(1)}
        for name, several in (("relation", "relations"), ("direction", "directions")):
            count = self.network.plan.shape.count(several)
            drawn[name] = torch.randint(count, (len(env),), generator=self._generator)
        asked = {name: value.to(env.mask.device) for name, value in drawn.items()}
        return replace(env, fields={**env.fields, **asked})

    def terms(self, now: OldTaskQuery, new: Task, temperature: float) -> dict[str, Tensor]:
        """Return L_old of every old task that the batch can ask, of a network's look at it."""
        before = OldTaskQuery(self.network, now.env)
        terms = {}
        for name, task in self.network.tasks.items():
            if name == new.name or not now.env.fields.keys() >= set(task.query):
                continue
            ours, theirs, teacher, counted = now, before, None, now.env.mask
            if task.form == "sentence":
                ours, theirs = now.some(_SENTENCES), before.some(_SENTENCES)
                teacher = self._sentences(task, ours.env)
                counted = teacher["words"] != 0
            old = theirs.answer(task, teacher)
            distil = DISTILLATIONS[task.form]
            terms[name] = distil(ours.answer(task, teacher), old, counted, temperature)
        return terms

    def _sentences(self, task: Task, env: Environment) -> Mapping[str, Tensor]:
        """Return the sentences of the scenes of a batch, cut to the longest."""
        if task.name not in self._generated:
            self._generated[task.name] = self._generate(task, env.mask.device)
        first = self._experience.batches.scenes.first
        words = self._generated[task.name].index_select(0, env["scene"] - first)
        used = (words != 0).any(0).nonzero()  # a weak network may leave out a word in the middle
        longest = int(used.max()) + 1 if len(used) else 1
        return {"words": words[:, :longest]}

    @torch.no_grad()
    def _generate(self, task: Task, device: torch.device) -> Tensor:
        """Return a sentence (T,) about every scene of the experience; of others, nothing (0)."""
        scenes = self._experience.batches.scenes
        words = torch.zeros(len(scenes), LONGEST, dtype=torch.long, device=device)
        present = torch.from_numpy(np.unique(self._experience.samples.columns["scene"])).long()
        for rows in torch.split(present, _GENERATED_AT_ONCE):
            x = {name: value.to(device) for name, value in scenes.take(rows).items()}
            words[rows.to(device)] = self.network(x, task.name).argmax(2)
        return words


# L_old: of outputs now and before, what counts of them, and T.

Distillation = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def distil_classes(now: Tensor, old: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """−Σ_c y′_c log ŷ′_c of (B, N, classes), the mean over regions that are there.

    y′ is the softmax of the old logits over T: their probabilities to the power of 1/T, normed.
    """
    return _mean(_cross_entropy(now, old, temperature), mask)


def distil_counts(now: Tensor, old: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """−Σ_c y′_c log ŷ′_c of (B, counts), the mean over samples."""
    return _cross_entropy(now, old, temperature).mean()


def distil_labels(now: Tensor, old: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Binary cross-entropy of (B, N, labels), the mean over labels of regions that are there."""
    costs = binary_cross_entropy_with_logits(now, old.sigmoid(), reduction="none")
    return _mean(costs.mean(2), mask)


def distil_answers(now: Tensor, old: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Binary cross-entropy of (B, answers), summed over answers as the task's loss is."""
    return binary_cross_entropy_with_logits(now, old.sigmoid(), reduction="sum") / len(now)


def distil_pointing(now: Tensor, old: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """KL(y′ ‖ ŷ′) over the boxes (B, N) that are there, the mean over samples."""
    # Finite, so that probability 0 costs nothing rather than 0 · ∞.
    now, old = (logits.masked_fill(~mask, OUT_OF_REACH) for logits in (now, old))
    return _divergence(now, old, temperature).mean()


def distil_sentences(now: Tensor, old: Tensor, counted: Tensor, temperature: float) -> Tensor:
    """KL(y′ ‖ ŷ′) over the words (B, T, words) at each place, the mean over places with a word."""
    return _mean(_divergence(now, old, temperature), counted)


def _mean(costs: Tensor, counted: Tensor) -> Tensor:
    """Return the mean of the costs that count; of none, 0."""
    return (costs * counted).sum() / counted.sum().clamp(min=1)


def _cross_entropy(now: Tensor, old: Tensor, temperature: float) -> Tensor:
    """Return H(y′, ŷ′) over the last dimension."""
    targets = (old / temperature).softmax(-1)
    return -(targets * (now / temperature).log_softmax(-1)).sum(-1)


def _divergence(now: Tensor, old: Tensor, temperature: float) -> Tensor:
    """Return KL(y′ ‖ ŷ′) over the last dimension."""
    ours, theirs = (logits.div(temperature).log_softmax(-1) for logits in (now, old))
    return (theirs.exp() * (theirs - ours)).sum(-1)


DISTILLATIONS: dict[str, Distillation] = {
    "class": distil_classes,
    "labels": distil_labels,
    "pointing": distil_pointing,
    "sentence": distil_sentences,
    "count": distil_counts,
    "answer": distil_answers,
}
