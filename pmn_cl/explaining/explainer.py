"""From a completed run to explanations of the questions that its network answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.explaining.records.explanation import Explanation
from pmn_cl.explaining.tracer import TASK, Tracer
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.progress import ProgressCallback
from pmn_cl.runs.learned import LearnedRun, PlainExperience
from pmn_cl.tasks.base import LossTerms
from pmn_cl.tasks.captions import words_to_text

_AT_ONCE = 200  # questions
NO_TRUTH = "none of the answers that can be given"
_HALF = 0.5  # of a point: an answer that earns as much is right
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


class Explainer:
    """Opens a completed run with what it learned, and explains how it answers questions.

    ``run`` is a key or its unique beginning, or a strategy and a seed ("pmn 0"). The world is
    built first where it is not in the cache.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        cache: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        opened = LearnedRun(folder, run, cache=cache, progress=progress)
        self.result = opened.result
        strategy: Any = opened.strategy
        self.strategy = strategy
        self.world, self.store = opened.stream.world, opened.store
        network = getattr(strategy, "network", None)
        if not isinstance(network, ModuleNetwork):
            raise UserError(
                f"{self.result.key}: {self.result.strategy!r} has no modules to explain; expected "
                "pmn, independent, parameter_matched or another that is made of modules"
            )
        self.network = network
        self.experiences = {
            split: opened.experience(task.task.name, split)
            for task in opened.stream.tasks
            if task.task.name == TASK
            for split in task.splits
        }
        self.terms: LossTerms = strategy.settings[TASK].loss
        phrases = self.world.relation_phrases()
        self.tracer = Tracer(network, self.store.names, phrases, self.terms)

    def explain(
        self, ids: Sequence[int], split: str = "test", progress: ProgressCallback | None = None
    ) -> list[Explanation]:
        """Explain questions by their rows in the split's vqa table."""
        batches, table = self.experience(split).batches, self.table(split)
        count = len(table["scene"])
        for number in ids:
            if not 0 <= number < count:
                raise UserError(
                    f"no question {number} in {split!r}, expected one from 0 to {count - 1}"
                )
        rows = np.asarray(ids, dtype=np.int64)
        truths, scores = table["answers"].array[rows], table["scores"].array[rows]
        words, scenes = table["question"].array[rows], table["scene"].array[rows]
        names, found = self.store.names, []
        for done in range(0, len(rows), _AT_ONCE):
            x, _ = batches[torch.from_numpy(rows[done : done + _AT_ONCE])]
            for place, traced in enumerate(self.tracer(_free(x)), start=done):
                answer = names["answers"].index(traced["answer"])
                earned = float((scores[place] * (truths[place] == answer)).sum())
                truth = truth_of(truths[place], scores[place], names["answers"])
                found.append(
                    self._explanation(
                        traced,
                        split=split,
                        scene=int(scenes[place]),
                        question_id=int(rows[place]),
                        question=f"{words_to_text(words[place], names['question words'])}?",
                        truth=truth,
                        right=earned >= _HALF,
                    )
                )
            if progress is not None:
                progress(min(done + _AT_ONCE, len(rows)), len(rows))
        return found

    def ask(self, question: str, scene: int, split: str = "test") -> Explanation:
        """Explain a question in free text; words that were never learned are left out."""
        scenes = self.experience(split).batches.scenes
        if not 0 <= scene < len(scenes):
            raise UserError(
                f"no scene {scene} in {split!r}, expected one from 0 to {len(scenes) - 1}"
            )
        known = self.store.names["question words"]
        words = [word.lower() for word in _WORD.findall(question)]
        unknown = [word for word in dict.fromkeys(words) if word not in known]
        numbers = [known.index(word) for word in words if word in known]
        if not numbers:
            near = did_you_mean(unknown[0], known) if unknown else ""
            raise UserError(
                f"{question[:80]!r}: the network knows none of its words{near}; expected a "
                f"question such as {self._example(split)!r}"
            )
        longest = self.table(split)["question"].shape[1]
        if len(numbers) > longest:
            raise UserError(
                f"a question of {len(numbers)} words, expected at most {longest}: ask a shorter one"
            )
        x = {**scenes.take(torch.tensor([scene])), "question": torch.tensor([numbers])}
        (traced,) = self.tracer(x)
        return self._explanation(
            traced, split=split, scene=scene, question=question, unknown_words=unknown
        )

    def answers(self, split: str = "test") -> tuple[list[str], NDArray[np.bool_]]:
        """Return the answers to all questions of a split, and whether they are right."""
        experience = self.experience(split)
        given = self.strategy.predict(experience)
        columns = experience.samples.columns
        earned = (columns["scores"] * (columns["answers"] == given[:, None])).sum(axis=1)
        return [self.store.names["answers"][number] for number in given], earned >= _HALF

    def picture(self, split: str, scene: int) -> NDArray[np.uint8]:
        """Return what people see of a scene (H, W, 3)."""
        seen: NDArray[np.uint8] = self.world.picture(self.store, split, scene)
        return seen

    def kinds(self, split: str = "test") -> dict[str, NDArray[np.bool_]]:
        """Return which questions are of which kind: the world's, answer types, families."""
        found = dict(self.world.question_kinds(self.store, split))
        table, names = self.table(split), self.store.names
        for column, of in (("kind", "vqa kinds"), ("family", "families")):
            if column in table and of in names:
                values = table[column].array
                found |= {n: values == i for i, n in enumerate(names[of]) if n not in found}
        return found

    def sample(
        self, count: int, kind: str | None = None, *, seed: int = 0, split: str = "test"
    ) -> list[int]:
        """Draw questions, of one kind or of any; the same seed draws the same."""
        fitting = np.arange(len(self.table(split)["scene"]))
        if kind is not None:
            known = self.kinds(split)
            if kind not in known:
                raise UserError(
                    f"no questions of the type {kind!r}, expected {', '.join(known)}"
                    f"{did_you_mean(kind, known)}"
                )
            fitting = np.flatnonzero(known[kind])
        if count > len(fitting):
            what = f" of the type {kind!r}" if kind is not None else ""
            raise UserError(
                f"{count} questions{what} were asked for, but {split!r} has {len(fitting)}"
            )
        drawn = np.random.default_rng(seed).choice(fitting, count, replace=False)
        return [int(number) for number in drawn]

    def experience(self, split: str) -> PlainExperience:
        """Return the questions of a split."""
        if split not in self.experiences:
            raise UserError(f"no split {split!r}, expected {', '.join(self.experiences)}")
        return self.experiences[split]

    def table(self, split: str) -> Mapping[str, Any]:
        """Return the columns of a split's vqa table, all of its rows."""
        experience = self.experience(split)
        table: Mapping[str, Any] = self.store.table(split, experience.task.table_name)
        if len(experience.samples) != len(table["scene"]):
            raise UserError(
                f"of {split!r} the run saw a part alone, so that rows of the table are not those "
                "of its samples; expected test, novel or val"
            )
        return table

    def _example(self, split: str) -> str:
        first = self.table(split)["question"].array[0]
        return f"{words_to_text(first, self.store.names['question words'])}?"

    def _explanation(self, traced: Mapping[str, Any], **facts: Any) -> Explanation:
        # Made of our own numbers by the hundred: checking each of them would take most of the time.
        usual: dict[str, Any] = {
            "question_id": None,
            "unknown_words": [],
            "truth": None,
            "right": None,
        }
        about = {"run": self.result.key, "strategy": self.result.name}
        return Explanation.model_construct(**{**usual, **about, **facts, **traced})


def truth_of(answers: NDArray[Any], scores: NDArray[Any], names: Sequence[str]) -> str:
    """Return the answer with the highest score; of those that can be given none may have one."""
    return names[int(answers[scores.argmax()])] if scores.any() else NO_TRUTH


def _free(x: Any) -> dict[str, Any]:
    """Return a batch without the numbers by which frozen modules remember what they found."""
    return {name: value for name, value in x.items() if name not in ("scene", "sample")}
