"""Makes a strategy as large as another: widens or narrows it until both have as much of something.

That is parameters, bytes, or operations. All are counted on the network for all experiences of a
stream, without learning; operations by a step of each task (``operations_to_learn``).
Importing this file is cheap: torch comes with the first count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from pmn_cl import registry
from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience, Strategy

TOLERANCE = 0.01  # of the amount to reach
Amount = Literal["parameters", "bytes", "flops"]


@dataclass(frozen=True)
class Knob:
    """An option that says how wide something is, by its path among the options."""

    path: tuple[str, ...]
    least: int = 1
    most: int = 2**16

    def turned(self, options: Any, value: int) -> Any:
        """Return the options with this value, checked."""
        given = place = options.model_dump(exclude_unset=True)
        for key in self.path[:-1]:
            place = place.setdefault(key, {})
        place[self.path[-1]] = value
        return type(options).model_validate(given)


class Match(NamedTuple):
    """Options, and how much they make."""

    options: Any
    total: int
    target: int = 1

    @property
    def ratio(self) -> float:
        """Return how near that is to what was to be reached."""
        return self.total / self.target


def match(
    total_of: Callable[[Any], int],
    options: BaseModel,
    coarse: Knob,
    fine: Knob,
    target: int,
    tolerance: float = TOLERANCE,
    by: Amount = "parameters",
) -> Match:
    """Turn the coarse knob, and the fine one where that is not enough, until the total fits.

    What fits already stays as it is. The total must not fall as a knob is turned up. Where none
    fits, the nearest will do of bytes and operations, which no knob may reach.
    """

    def distance(found: Match) -> int:
        return abs(found.total - target)

    allowed = tolerance * target
    nearest = Match(options, total_of(options))
    if distance(nearest) > allowed:
        around = _around(total_of, options, coarse, target)
        nearest = min([nearest, *around], key=distance)
        if distance(nearest) > allowed:  # one step of the coarse knob is more than that
            for start in around:
                finer = _around(total_of, start.options, fine, target)
                nearest = min([nearest, *finer], key=distance)
    if distance(nearest) > allowed and by == "parameters":
        knobs = " and ".join(".".join(knob.path) for knob in (coarse, fine))
        raise UserError(
            f"no {knobs} give {target} parameters within {tolerance:.0%}: the nearest are "
            f"{nearest.total} ({nearest.total / target - 1:+.1%}); compare with a strategy of "
            "another size"
        )
    return nearest._replace(target=target)


def _around(
    total_of: Callable[[Any], int], options: Any, knob: Knob, target: int
) -> tuple[Match, Match]:
    """Return the last setting of a knob that is not above the target, and the next; or its ends.

    Doubling comes first, so that nothing much larger than the target is ever built.
    """

    def at(value: int) -> Match:
        turned = knob.turned(options, value)
        return Match(turned, total_of(turned))

    low = high = knob.least
    below = above = at(low)
    while above.total <= target and high < knob.most:
        low, below = high, above
        high = min(2 * high, knob.most)
        above = at(high)
    while high - low > 1:
        middle = (low + high) // 2
        found = at(middle)
        if found.total <= target:
            low, below = middle, found
        else:
            high, above = middle, found
    return below, above


def total_parameters(name: str, options: Any, experiences: Sequence[Experience]) -> int:
    """Return how many parameters a strategy has after these experiences."""
    import torch

    strategy = _strategy(name)(options=options)
    build = getattr(strategy, "build", None)
    if build is None:
        raise UserError(f"{name!r} has no network, so that its size cannot be compared")
    with torch.random.fork_rng(devices=[]):  # counting must not change what is drawn next
        strategy.expect(experiences)
        build(experiences)
    return strategy.parameter_count().total


def total(name: str, options: Any, experiences: Sequence[Experience], by: Amount) -> int:
    """Return how much a strategy has after these experiences."""
    if by == "parameters":
        return total_parameters(name, options, experiences)
    import torch

    strategy: Any = _strategy(name)(options=options)
    if not hasattr(strategy, "operations_to_learn"):
        raise UserError(f"{name!r} has no network, so that its size cannot be compared")
    if not strategy.predictable:
        raise UserError(
            f"matched_by: {by}: what {name!r} keeps and does beside its network is known only "
            "after learning; match it by parameters"
        )
    with torch.random.fork_rng(devices=[]):
        strategy.expect(experiences)
        if by == "flops":
            operations: float = strategy.operations_to_learn(experiences)
            return round(operations)
        strategy.build(experiences)
    kept: Mapping[str, int] = strategy.kept_bytes()
    return sum(kept.values())


def knobs(name: str, options: BaseModel, experiences: Sequence[Experience]) -> tuple[Knob, Knob]:
    """Return the coarse and the fine knob of a strategy, by what its options have.

    ``width`` is that of a whole network. Where every task has a module of its own, ``widths`` is
    by task, and the module of the highest level is made wider: M_vqa, as in the paper.
    """
    fields = type(options).model_fields
    if "width" in fields and "attention" in fields:
        return Knob(("width",), least=4), Knob(("attention",))
    if "widths" in fields:
        highest = max(experiences, key=lambda experience: experience.task.level).task.name
        return Knob(("widths", highest, "hidden")), Knob(("widths", highest, "attention"))
    raise UserError(
        f"{name!r} cannot be made as large as another strategy: it has neither the options `width` "
        "and `attention` nor `widths`"
    )


def matched_options(
    name: str,
    options: Any,
    other: str,
    other_options: Any,
    experiences: Sequence[Experience],
    by: Amount = "parameters",
) -> Match:
    """Return the options with which a strategy has as much of something as another one."""
    coarse, fine = knobs(name, options, experiences)
    target = total(other, other_options, experiences, by)
    try:
        return match(
            lambda tried: total(name, tried, experiences, by),
            *(options, coarse, fine, target),
            by=by,
        )
    except UserError as error:
        raise UserError(f"{name!r} cannot be made as large as {other!r}: {error}") from None


def matched_options_for(
    name: str,
    options: Any,
    matched_to: str,
    experiences: Sequence[Experience],
    others: Mapping[str, Any] | None = None,
    by: Amount = "parameters",
) -> Match:
    """Return options that make a strategy as large as another of the stream.

    ``others`` are the options of the strategies in the stream; one that is not there is as large
    as it usually is at this size.
    """
    kind = _strategy(matched_to)
    if others is not None and matched_to in others:
        return matched_options(name, options, matched_to, others[matched_to], experiences, by)
    same = {"size"} & type(options).model_fields.keys() & kind.Options.model_fields.keys()
    usual = kind.Options.model_validate({field: getattr(options, field) for field in same})
    return matched_options(name, options, matched_to, usual, experiences, by)


def _strategy(name: str) -> type[Strategy]:
    found: type[Strategy] = registry.find(name, registry.STRATEGIES, "strategy", Strategy)
    return found
