"""What a results folder keeps of a round: its numbers, for MLflow and reports. Cheap to import."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pmn_cl.errors import UserError
from pmn_cl.files import write_whole

NUMBERS = "judgement_numbers.json"  # beside the results: by split


class RoundNumbers(BaseModel):
    """The numbers of a round's table, each by a name of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    round: str
    collected: int  # when they came to this, in milliseconds since 1970
    numbers: dict[str, float]


class GradePoint(NamedTuple):
    """A number as MLflow takes it."""

    name: str
    value: float
    at: int


def read_numbers(folder: Path) -> dict[str, RoundNumbers]:
    """Return what was kept in a folder, by split; nothing where there was no round."""
    path = folder / NUMBERS
    if not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, RoundNumbers]).validate_json(path.read_bytes())
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise UserError(
            f"{path}: {said}; move it away, and `pmn-bench judge collect` makes it again"
        ) from None


def keep_numbers(folder: Path, split: str, digest: str, numbers: Mapping[str, float]) -> None:
    """Keep the numbers of a round; the same ones again keep their time."""
    known = read_numbers(folder)
    before = known.get(split)
    if before is None or (before.round, before.numbers) != (digest, numbers):
        now = int(1000 * time.time())
        known[split] = RoundNumbers(round=digest, collected=now, numbers=dict(numbers))
        plain = {name: kept.model_dump() for name, kept in sorted(known.items())}
        write_whole(folder / NUMBERS, json.dumps(plain, indent=1))


def judged_points(folder: Path) -> Iterator[GradePoint]:
    """Yield every number that was kept, for the mirror in MLflow."""
    for split, kept in read_numbers(folder).items():
        for name, value in kept.numbers.items():
            yield GradePoint(f"judges/{split}/{name}", value, kept.collected)
