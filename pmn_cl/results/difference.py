"""Where two records of one run differ, and whether they may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeGuard

from pmn_cl.results.measures.catalogue import raw_moments
from pmn_cl.results.result import REUSED, REUSED_CPU, Result

PACKAGES = ("torch", "numpy", "avalanche-lib")  # that the last digits depend on


State: TypeAlias = Literal["same", "differs", "cannot be compared"]


@dataclass(frozen=True)
class FieldDifference:
    """What became of one part of the record when it was run again."""

    what: str
    state: State
    why: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the record."""
        return self.state == "same"

    def __str__(self) -> str:
        """Return the finding as a line says it."""
        return f"{self.state} ({self.why})" if self.why else self.state


def findings(recorded: Result, again: Result) -> list[FieldDifference]:
    """Compare all that must not depend on when and how often something is run."""
    excuse = _excuse(recorded, again)
    found = []
    theirs = dict(compared_parts(again))
    for what, ours in compared_parts(recorded):
        apart = difference(ours, theirs.get(what))
        if not apart:
            found.append(FieldDifference(what, "same"))
        elif excuse and what != "data":
            found.append(FieldDifference(what, "cannot be compared", f"{excuse}; {apart}"))
        else:
            found.append(FieldDifference(what, "differs", apart))
    return found


def compared_parts(result: Result) -> Iterator[tuple[str, Any]]:
    """Yield all of a record that must not depend on when and how often it was run."""
    yield "key", result.key if result.upgraded_from is None else result.run.key
    yield "data", result.data
    yield "options", result.options
    yield "tasks", [result.tasks, result.metrics]
    yield "samples", result.samples
    yield "constant answer", result.constant
    for split in result.scores:
        yield f"scores on {split}", _by_task(result, split)
    yield "splits", sorted(result.scores)
    yield "all metrics", result.secondary
    yield "validation", result.validation
    if result.curves:
        yield "learning curves", {t: [e.model_dump() for e in c] for t, c in result.curves.items()}
    yield from _inside_tasks(result)
    yield "samples seen", [cost.samples_seen for cost in result.costs]
    yield "parameters", result.parameters.get("total")
    yield "parameters learned", result.parameters.get("trainable")
    yield "weights", result.weights
    if result.work.learned:  # operations of learning are more where a run was cut off
        yield "operations to answer", result.work.answer
        yield "bytes kept", result.work.bytes
    whose = (REUSED, REUSED_CPU)  # learned a module does not matter
    yield "details", {name: v for name, v in result.details.items() if name not in whose}


def _inside_tasks(result: Result) -> Iterator[tuple[str, Any]]:
    """Yield the moments inside each phase that has some, unless a clock said where they fall.

    A phase has none where another run had learned its module.
    """
    every = result.run.stream.evaluate_every
    if every is None or every.seconds is not None:
        return
    moments = raw_moments(result)
    for phase in dict.fromkeys(result.inside.phase):
        scores = {f"step {m.step}": m.scores for m in moments if m.phase == phase}
        yield f"inside phase {phase + 1}", scores


def _by_task(result: Result, split: str) -> list[dict[str, float | None]]:
    """Return R with the names of its columns, as far as there are as many."""
    return [dict(zip(result.tasks, row, strict=False)) for row in result.scores[split]]


def _excuse(recorded: Result, again: Result) -> str:
    """Return why numbers may rightly differ; nothing where they may not."""
    pairs = {
        "other data": (recorded.data[:12], again.data[:12]),
        **{
            f"another {name}": (recorded.versions.get(name), again.versions.get(name))
            for name in PACKAGES
        },
        "another device": (recorded.device or again.device, again.device),
        "another code revision": (recorded.revision, again.revision),
    }
    return ", ".join(
        f"{what}: {before or 'unknown'}, here {now or 'unknown'}"
        for what, (before, now) in pairs.items()
        if before != now
    )


def difference(before: Any, now: Any) -> str:
    """Say in how many places two values differ, by how much, and where first; or nothing."""
    ours, theirs = dict(_places(before)), dict(_places(now))
    places = [
        place
        for place in dict.fromkeys([*ours, *theirs])
        if place not in ours or place not in theirs or ours[place] != theirs[place]
    ]
    if not places:
        return ""
    first = places[0]
    said = f"{_shown(ours, first)}, now {_shown(theirs, first)}"
    if first:
        said = f"{first}: {said}"
    count = len({**ours, **theirs})
    if count == 1:
        return said
    numbers = [(ours.get(place), theirs.get(place)) for place in places]
    steps = [abs(a - b) for a, b in numbers if _is_number(a) and _is_number(b)]
    most = f"by at most {max(steps):.3g}, " if len(steps) == len(places) else ""
    return f"{len(places)} of {count}, {most}first {said}"


def _places(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value inside, with its path; an empty list or mapping is one, too."""
    if not isinstance(value, dict | list) or not value:
        yield place, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value, start=1):
        yield from _places(item, f"{place}.{key}" if place else str(key))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(values: dict[str, Any], place: str) -> str:
    if place not in values:
        return "nothing"
    text = str(values[place])
    return text if len(text) <= 24 else f"{text[:12]}…"
