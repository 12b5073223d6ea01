"""A round of judging: which questions, who sees them, and under which letter PMN's explanation is.

A round is the key to all that judges say, so it is kept from them: their pages know an explanation
as A or B alone. Everything here is drawn from one seed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from pmn_cl.claims.evidence import Group
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole

ROUND = "round.json"
GROUPS: tuple[Group, ...] = get_args(Group)
Box = tuple[float, float, float, float]  # x1, y1, x2, y2, from 0 to 1
_WHO_IS_RIGHT: dict[tuple[bool, bool], Group] = {
    (True, True): "both right",
    (True, False): "pmn right",
    (False, True): "baseline right",
    (False, False): "both wrong",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShownExplanation(_Part):
    """An explanation as judges see it: the boxes on the scene, a sentence, the answer."""

    sentence: str
    answer: str
    boxes: list[tuple[int, Box]]  # those that the sentence names, with their numbers


class GradedQuestion(_Part):
    """A question, and how each of the two models explains its answer."""

    id: str  # on the pages; independent of the models
    row: int  # of the split's table
    scene: int
    text: str
    group: Group
    pmn: ShownExplanation
    baseline: ShownExplanation


class Sheet(_Part):
    """What one judge is given: questions in an order of their own, and PMN's letter for each."""

    judge: int  # from 1
    questions: list[str]
    pmn_is_a: list[bool]

    def letters(self) -> dict[str, bool]:
        """Return whether PMN is A, by question."""
        return dict(zip(self.questions, self.pmn_is_a, strict=True))


class Round(_Part):
    """The key to a round of judging."""

    version: Literal[1] = 1
    folder: str  # of the results that it was made from
    split: str
    pmn: str  # keys of the two runs
    baseline: str
    seed: int
    stratified: bool
    population: dict[Group, int]  # how many questions there were to draw from
    questions: list[GradedQuestion]
    sheets: list[Sheet]

    @property
    def digest(self) -> str:
        """Return what the round is known by: it changes with anything that matters."""
        whole = self.model_dump_json(exclude={"folder"})  # which may be moved
        return hashlib.sha256(whole.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Keep the round, with its digest, so that a change by hand is noticed."""
        kept = {"digest": self.digest, "round": self.model_dump()}
        write_whole(folder / ROUND, json.dumps(kept, indent=1, ensure_ascii=False))


def read_round(folder: Path) -> Round:
    """Return the round of a folder, as it was made."""
    path = folder / ROUND
    if not path.exists():
        raise UserError(
            f"{folder}: no {ROUND} there; expected a folder that `pmn-bench judge make` has made"
        )
    try:
        kept = json.loads(path.read_text("utf-8"))
        found = Round.model_validate(kept["round"])
        whole = found.digest == kept["digest"]
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        said = str(error).splitlines()[0]
        raise UserError(f"{path}: cannot be read ({said}); take the one that was made") from None
    if not whole:
        raise UserError(
            f"{path}: was changed after it was made, and without the key grades mean nothing; take "
            "the one that was made"
        )
    return found


def groups_of(pmn_right: Sequence[bool], baseline_right: Sequence[bool]) -> list[Group]:
    """Return by question who was right."""
    pairs = zip(pmn_right, baseline_right, strict=True)
    return [_WHO_IS_RIGHT[bool(ours), bool(theirs)] for ours, theirs in pairs]


def draw(
    groups: Sequence[Group], count: int, *, stratify: bool, rng: np.random.Generator
) -> list[int]:
    """Draw so many questions without return, or all where there are fewer: their places, sorted.

    Stratified, each group gives as many as the others, as far as it has them.
    """
    if not stratify:
        drawn = rng.choice(len(groups), min(count, len(groups)), replace=False)
        return sorted(drawn.tolist())
    places = {group: [i for i, of in enumerate(groups) if of == group] for group in GROUPS}
    shares = _even_shares({group: len(some) for group, some in places.items()}, count)
    return sorted(
        place
        for group, share in shares.items()
        for place in rng.choice(places[group], share, replace=False).tolist()
    )


def _even_shares(sizes: Mapping[Group, int], count: int) -> dict[Group, int]:
    """Share a number out evenly; what a small group cannot give falls to the larger ones."""
    shares: dict[Group, int] = {}
    for done, group in enumerate(sorted(sizes, key=lambda group: sizes[group])):
        shares[group] = min(sizes[group], (count - sum(shares.values())) // (len(sizes) - done))
    return shares


class Given(NamedTuple):
    """A question in one judge's hands."""

    judge: int  # from 0
    pmn_is_a: bool


def assign(
    groups: Sequence[Group], judges: int, per_question: int, rng: np.random.Generator
) -> list[list[Given]]:
    """Say for each question who judges it, and for whom PMN is A.

    Judges get equally many questions, to one. PMN is A as often as B: to one for the judges of a
    question, to a few for the questions of a judge, also within every group.
    """
    load, lead = np.zeros(judges), np.zeros(judges)  # lead: how often PMN was A more than B
    given: list[list[Given]] = [[] for _ in groups]
    for place in sorted(rng.permutation(len(groups)).tolist(), key=lambda i: groups[i]):
        chosen = np.lexsort((rng.random(judges), load))[:per_question]
        chosen = chosen[np.lexsort((rng.random(per_question), lead[chosen]))]
        half, middle = per_question // 2, chosen[per_question // 2]
        as_a = set(chosen[:half].tolist())
        balance = lead[middle] or lead.sum() or rng.choice([-1, 1])
        if per_question % 2 and balance < 0:
            as_a.add(int(middle))
        given[place] = [Given(judge, judge in as_a) for judge in sorted(chosen.tolist())]
        for judge, is_a in given[place]:
            load[judge] += 1
            lead[judge] += 1 if is_a else -1
    return given


def sheets_of(
    ids: Sequence[str], given: Sequence[Sequence[Given]], judges: int, rng: np.random.Generator
) -> list[Sheet]:
    """Return what each judge is given, in an order of the judge's own."""
    sheets = []
    for judge in range(judges):
        letters = {
            name: one.pmn_is_a
            for name, some in zip(ids, given, strict=True)
            for one in some
            if one.judge == judge
        }
        order = rng.permutation(sorted(letters)).tolist()
        letter = [letters[name] for name in order]
        sheets.append(Sheet(judge=judge + 1, questions=order, pmn_is_a=letter))
    return sheets


def counted(groups: Sequence[Group]) -> dict[Group, int]:
    """Return how many questions each group has."""
    found = Counter(groups)
    return {group: found[group] for group in GROUPS}
