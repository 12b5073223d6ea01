"""A round of judging made up for tests: two models that explain by hand, and judges by rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmn_cl.explaining.records.explanation import (
    ATTEND,
    RELATION,
    CallRecord,
    Explanation,
    Message,
    Step,
)
from pmn_cl.human_eval.preparation import RoundPlan, make_round, who_is_right
from pmn_cl.human_eval.rounds import Round
from pmn_cl.human_eval.sheets import FORMAT, Marks, Saved

BOXES = [(0.1, 0.05, 0.3, 0.25), (0.5, 0.5, 0.7, 0.7), (0.7, 0.1, 0.9, 0.3)]


class MadeModel:
    """Answers questions as it was given; four questions to a scene."""

    def __init__(self, name: str, right: Sequence[bool], questions: Sequence[str]) -> None:
        self.name, self.right, self.questions = name, right, questions

    def answers(self, split: str) -> tuple[list[str], NDArray[np.bool_]]:
        return ["blue" if right else "red" for right in self.right], np.array(self.right)

    def explain(self, ids: Sequence[int], split: str) -> list[Explanation]:
        return [self._explain(row, split) for row in ids]

    def picture(self, split: str, scene: int) -> NDArray[np.uint8]:
        pixels = np.full((60, 60, 3), 230, dtype=np.uint8)
        pixels[5:20, 6:18] = (225, 45, scene % 256)
        return pixels

    def _explain(self, row: int, split: str) -> Explanation:
        looks = {ATTEND: [0.8, 0.1, 0.1]}
        gates, calls = {ATTEND: 1.0}, []
        if self.name == "pmn":
            looks = {ATTEND: [0.9, 0.05, 0.05], RELATION: [0.0, 0.2, 0.8]}
            gates = {ATTEND: 0.3, RELATION: 0.7}
            asked = Message(
                words="left of it", boxes=looks[ATTEND], chances={"what is left of it": 0.9}
            )
            reply = Message(boxes=looks[RELATION])
            calls = [
                CallRecord(
                    **{"number": 1, "depth": 0, "caller": "vqa", "callee": RELATION, "step": 1},
                    **{"gate": 0.7, "query": asked, "reply": reply},
                )
            ]
        attended = looks[RELATION] if RELATION in looks else looks[ATTEND]
        answers, _ = self.answers(split)
        return Explanation(
            **{"run": f"{self.name}-0", "strategy": self.name, "split": split, "scene": row // 4},
            **{"question_id": row, "question": self.questions[row], "answer": answers[row]},
            **{"confidence": 0.75, "runners_up": [], "truth": "blue", "right": self.right[row]},
            **{"boxes": BOXES, "regions": ["red two", "blue six", "red one"]},
            **{"attended": attended, "calls": calls},
            steps=[Step(gates=gates, maps=looks, attended=attended, pad={})],
        )


def models(count: int, questions: Sequence[str] = ()) -> tuple[MadeModel, MadeModel]:
    """PMN and a baseline: of 20 questions in a row, 9, 6, 3 and 2 are of the four groups."""
    pattern = [(True, True)] * 9 + [(True, False)] * 6 + [(False, True)] * 3 + [(False, False)] * 2
    right = [pattern[row % 20] for row in range(count)]
    asked = [questions[r] if r < len(questions) else f"what is left of {r}?" for r in range(count)]
    ours = MadeModel("pmn", [first for first, _ in right], asked)
    return ours, MadeModel("independent", [second for _, second in right], asked)


def made_round(folder: Path, count: int = 40, population: int = 100, **changes: object) -> Round:
    """A round of so many questions, drawn from a population."""
    plan = RoundPlan(folder, "pmn-0", "independent-0", questions=count, **changes)  # type: ignore[arg-type]
    ours, theirs = models(population)
    groups = who_is_right(ours, theirs, plan.split)
    return make_round(plan, groups, ours, theirs, lambda done, total: None)


def opinion(key: Round, judge: int, question: str, model: str) -> int:
    """What a made-up judge thinks: by rule, so that it can be followed by hand."""
    [found] = [q for q in key.questions if q.id == question]
    usual = {
        "both right": (3, 2),
        "pmn right": (3, 1),
        "baseline right": (1, 3),
        "both wrong": (2, 1),
    }
    if model == "pmn":
        return usual[found.group][0] + ((found.row + judge) % 5 == 0)
    return usual[found.group][1] - (found.row * judge % 7 == 1)


def saved_by(key: Round, judge: int, token: str = "", at: int = 1, skip: int = 0) -> Saved:
    """The file of a judge who thinks so, without the first few questions."""
    sheet = key.sheets[judge - 1]
    marks = {}
    for name, pmn_is_a in list(sheet.letters().items())[skip:]:
        pmn, baseline = (opinion(key, judge, name, model) for model in ("pmn", "baseline"))
        a, b = (pmn, baseline) if pmn_is_a else (baseline, pmn)
        marks[name] = Marks(A=a, B=b, milliseconds=5000, at=at)
    saved = Saved(
        **{"format": FORMAT, "round": key.digest, "judge": judge, "token": token or f"t{judge}"},
        **{"saved": at, "marks": marks, "checksum": ""},
    )
    return saved.model_copy(update={"checksum": saved.expected_checksum()})
