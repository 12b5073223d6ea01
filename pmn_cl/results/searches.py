"""On what terms strategies are compared: what is the same for all, what was searched for whom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pmn_cl.errors import UserError

TUNED = Path(__file__).parents[2] / "benchmarks" / "streams" / "tuned.json"

SAME = {
    "inputs": "regions, boxes and words of the same samples, in an order that seed and task decide",
    "questions": "PMN's word vectors and question encoder, of the same width",
    "budget": "the same samples seen of every new task (samples seen are in every result)",
    "training": "Adam; batch size, schedule, warm-up and clipping of the task; the samples of a "
    "scene come together; what a network has learned before rests for a tenth of the steps, then "
    "starts at a fifth of the rate",
    "losses": "rel: every box that fits, and a yes or no for each; cnt: distance of the expected "
    "count, and of the soft count of a map; vqa: one softmax over answers",
    "layers": "attention, trunks and MLPs start at the scale of their input; waves say where boxes "
    "are; plurals have their singulars' vectors; the question alone may answer",
    "curriculum": "the stream's, by task; none where all tasks are learned at once, which it harms",
    "selection": "the best epoch on the validation samples of the task; at once: of all tasks",
    "search": "validation only, development seeds: four trials or fewer at field.yaml's budget; "
    "docs/claims.md says what was tried for claims.yaml",
    "start": "batch sizes, epochs and rates as chosen for PMN's modules at the full budget",
}


class Trial(BaseModel):
    """One setting of a method, and what it scored on validation after the whole stream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    options: dict[str, Any]
    scores: dict[str, float | None]
    value: float  # mean over tasks of the share of the best trial's score


class Search(BaseModel):
    """The trials of a method, the best first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: str
    seed: int
    budget: float
    trials: list[Trial]

    @property
    def chosen(self) -> dict[str, Any]:
        """Return the options of the best trial."""
        return self.trials[0].options


def read_tuned(path: Path = TUNED) -> dict[str, Search]:
    """Return the searches that were done, by method."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return {name: Search.model_validate(search) for name, search in found.items()}


def write_tuned(searches: Sequence[Search], path: Path) -> None:
    """Add searches to those that are there."""
    known = read_tuned(path) if path.exists() else {}
    known |= {search.strategy: search for search in searches}
    text = json.dumps({name: s.model_dump() for name, s in sorted(known.items())}, indent=1)
    path.write_text(text + "\n", "utf-8")
