"""Whether the names in a stream.yaml stand for something, and fit together.

Checks work on data that are written out (``short_forms``), as far as its shape allows; what has no
right shape is reported with the shape.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from pmn_cl import registry
from pmn_cl.config.names import strategy_options
from pmn_cl.config.problems import problems_of, shown
from pmn_cl.config.spec import StrategySpec
from pmn_cl.config.yaml_source import Loc, Problem, shorten
from pmn_cl.data.world import World
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.strategy.base import StrategyOptions
from pmn_cl.tasks.base import Task

_LARGEST_SEED = 2**32 - 1  # what every random generator takes
_MATCHED = "matched-"


def check_names(data: dict[str, Any]) -> list[Problem]:
    """Check names, call lists, order and options."""
    world, tasks = data.get("world"), data.get("tasks")
    return [
        *_check_world(world),
        *_check_tasks(tasks, world),
        *_check_strategies(data.get("strategies"), world, tasks),
        *_check_seeds(data.get("seeds")),
        *_check_measures(data.get("measures")),
    ]


def _check_measures(measures: Any) -> list[Problem]:
    """Check that what is named can be imported; that it is a measure is seen where it is used."""
    problems = []
    for number, name in enumerate(measures if isinstance(measures, list) else []):
        try:
            if isinstance(name, str):
                registry.load(name)
        except UserError as error:
            problems.append(Problem(("measures", number), str(error)))
    return problems


def _check_world(world: Any) -> list[Problem]:
    if not isinstance(world, dict) or not isinstance(world.get("name"), str):
        return []
    try:
        kind = registry.find(world["name"], registry.WORLDS, "world", World)
    except UserError as error:
        return [Problem(("world", "name"), str(error))]
    try:
        kind.Options.model_validate(world["options"])
    except ValidationError as error:
        return problems_of(error, kind.Options, ("world",))
    return []


def _check_tasks(tasks: Any, world: Any) -> list[Problem]:
    problems: list[Problem] = []
    learned: dict[str, type[Task]] = {}
    for number, given in enumerate(tasks if isinstance(tasks, list) else []):
        if not isinstance(given, dict) or not isinstance(given.get("task"), str):
            continue
        where: Loc = ("tasks", number, "task")
        try:
            kind: type[Task] = registry.find(given["task"], registry.TASKS, "task", Task)
        except UserError as error:
            problems.append(Problem(where, str(error)))
            continue
        if kind.name in learned:
            problems.append(Problem(where, f"{kind.name!r} is in the stream twice, expected once"))
        problems += _check_level(kind, learned, where)
        problems += _check_calls(kind, given.get("calls"), learned, ("tasks", number, "calls"))
        problems += _check_extra(kind, given.get("extra"), world, ("tasks", number, "extra"))
        learned[kind.name] = kind
    return problems


def _check_extra(kind: type[Task], source: Any, world: Any, where: Loc) -> list[Problem]:
    """Ask the world whether it can make the further samples that a task asks for."""
    name = world.get("name") if isinstance(world, dict) else None
    if not isinstance(name, str) or not isinstance(source, str):
        return []  # nothing is asked for, or the shape is wrong, which has been said
    try:
        makes: type[World] = registry.find(name, registry.WORLDS, "world", World)
    except UserError:
        return []  # which has been said
    try:
        makes.check_extra(kind.name, source)
    except UserError as error:
        return [Problem(where, str(error))]
    return []


def _check_level(kind: type[Task], learned: dict[str, type[Task]], where: Loc) -> list[Problem]:
    higher = [t.name for t in learned.values() if t.level > kind.level]
    if not higher:
        return []
    return [
        Problem(
            where,
            f"{kind.name!r} (level {kind.level}) comes after {', '.join(higher)} of a higher "
            "level, expected tasks in the order of their levels",
        )
    ]


def _check_calls(
    kind: type[Task], calls: Any, learned: dict[str, type[Task]], where: Loc
) -> list[Problem]:
    """A module may call what was learned before it, at a lower level."""
    problems = []
    lower = [t.name for t in learned.values() if t.level < kind.level]
    for position, name in enumerate(calls if isinstance(calls, list) else []):
        if not isinstance(name, str) or name in lower:
            continue
        if name in learned:
            found = f"{name!r} is of level {learned[name].level}, not below {kind.level}"
        elif name == kind.name:
            found = f"{name!r} calls itself"
        elif name in registry.TASKS:
            found = f"{name!r} is not learned before {kind.name!r}"
        else:
            found = f"unknown task {name!r}"
        expected = f"one of {', '.join(lower)}" if lower else "none, as no lower task comes before"
        near = did_you_mean(name, lower)
        problems.append(Problem((*where, position), f"{found}, expected {expected}{near}"))
    return [*problems, *_check_once(calls, where)]


def _check_strategies(strategies: Any, world: Any, tasks: Any) -> list[Problem]:
    problems: list[Problem] = []
    named = []
    for number, given in enumerate(strategies if isinstance(strategies, list) else []):
        if not isinstance(given, dict):
            continue
        where: Loc = ("strategies", number)
        problems += _check_strategy(given, where) or _check_stream(given, world, tasks, where)
        named.append((given.get("name"), given.get("variant") or ""))
        if named[-1] in named[:-1]:
            again = f"{shorten(repr(named[-1][0]))} is given twice"
            expected = "expected once, or with a variant of its own"
            problems.append(Problem(where, f"{again}, {expected}"))
    return problems


def _check_strategy(given: dict[str, Any], where: Loc) -> list[Problem]:
    """Check a strategy's name, its options, and the strategy that it is matched to."""
    name = given.get("name")
    if not isinstance(name, str):
        return []
    problems = []
    try:
        options = strategy_options(name)
        options.model_validate(given["options"])
    except UserError as error:
        problems.append(Problem((*where, "name"), str(error)))
    except ValidationError as error:
        problems += problems_of(error, options, where, also=[*StrategySpec.model_fields])
    return [*problems, *_check_matched(given, where)]


def _check_stream(given: dict[str, Any], world: Any, tasks: Any, where: Loc) -> list[Problem]:
    """Ask a strategy, whose options are right, whether it can go through the stream."""
    try:
        kind = registry.find(world["name"], registry.WORLDS, "world", World)
        named = [registry.find(t["task"], registry.TASKS, "task", Task).name for t in tasks]
        options = strategy_options(given["name"]).model_validate(given["options"])
    except (UserError, LookupError, TypeError, AttributeError):
        return []  # which has been said
    if not isinstance(options, StrategyOptions):
        return []
    try:
        options.check_stream(kind, named)
    except UserError as error:
        return [Problem((*where, "name"), str(error))]
    return []


def _check_matched(given: dict[str, Any], where: Loc) -> list[Problem]:
    """Check who a strategy is matched to; a label that once said so is refused, not ignored."""
    other, label = given.get("matched_to"), given.get("variant")
    if isinstance(other, str):
        try:
            strategy_options(other)
        except UserError as error:
            return [Problem((*where, "matched_to"), str(error))]
    elif isinstance(label, str) and label.startswith(_MATCHED):
        expected = f"expected `matched_to: {label.removeprefix(_MATCHED)}`"
        said = f"found {shown(label)}: a variant is a label and changes nothing, {expected}"
        return [Problem((*where, "variant"), said)]
    return []


def _check_seeds(seeds: Any) -> list[Problem]:
    problems = []
    for number, seed in enumerate(seeds if isinstance(seeds, list) else []):
        if type(seed) is int and not 0 <= seed <= _LARGEST_SEED:
            message = f"found {shown(seed)}, expected a number from 0 to {_LARGEST_SEED}"
            problems.append(Problem(("seeds", number), message))
    return [*problems, *_check_once(seeds, ("seeds",))]


def _check_once(entries: Any, where: Loc) -> list[Problem]:
    """Find what a list names again."""
    written = [repr(entry) for entry in entries] if isinstance(entries, list) else []
    return [
        Problem((*where, number), f"{shorten(entry)} is given twice, expected once")
        for number, entry in enumerate(written)
        if entry in written[:number]
    ]
