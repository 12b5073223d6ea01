"""The validated form of a stream's YAML: the only place where its options are named.

``load_spec`` reports every mistake of a file at once, each as
``file:line:column: path: what was found, what was expected; did you mean …?``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pmn_cl import registry
from pmn_cl.config.problems import problems_of, shown
from pmn_cl.config.yaml_source import Loc, Problem, YamlSource, read_yaml, shorten
from pmn_cl.data.world import World
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.strategy.base import Strategy
from pmn_cl.tasks.base import Task

_LARGEST_SEED = 2**32 - 1  # what every random generator takes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class TaskSpec(_Strict):
    """One experience of the stream: a task, what its module may call, how much data it has."""

    task: str
    calls: list[str] | None = None  # None: the paper's list, as far as it was learned before
    fraction: float | None = Field(None, ge=1, le=100, description="percent")  # None: the stream's
    extra: str | None = None  # a task whose training samples the world makes into more of this one


class StreamSpec(_Strict):
    """A whole stream.yaml."""

    name: str = Field(min_length=1)
    world: dict[str, Any]
    tasks: list[TaskSpec] = Field(min_length=1)
    fraction: float = Field(100, ge=1, le=100, description="percent")  # of training samples
    budget: float = Field(100, gt=0, le=1000, description="percent")  # of the usual training
    threads: int = Field(1, ge=1, le=1024)  # of each run; another number gives other last digits
    strategies: list[dict[str, Any]] = Field(min_length=1)  # name, variant and options
    seeds: list[int] = Field(min_length=1)

    @field_validator("world", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("strategies", mode="before")
    @classmethod
    def _strategies_alone(cls, value: Any) -> Any:
        return _mappings(value, "name")

    @field_validator("tasks", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        return _mappings(value, "task")

    def world_class(self) -> type[World]:
        """Return the class of the world named."""
        found: type[World] = registry.find(self.world["name"], registry.WORLDS, "world", World)
        return found

    def make_world(self) -> World:
        """Return the world with the options given."""
        kind = self.world_class()
        options = {key: value for key, value in self.world.items() if key != "name"}
        return kind(kind.Options.model_validate(options))


def _mappings(value: Any, key: str) -> Any:
    """Return a list whose plain names stand as mappings with one key."""
    if not isinstance(value, list):
        return value
    return [{key: item} if isinstance(item, str) else item for item in value]


def find_stream(name: str | Path) -> tuple[Path, bool]:
    """Return the file that is meant and whether it is one of the shipped streams.

    A name that is no file here is looked up among the streams that come with pmn-bench.
    """
    path = Path(name)
    if os.path.exists(path):  # unlike Path.exists, False for a name that no file can have
        return path, False
    shipped = shipped_streams()
    for known in (path.name, f"{path.name}.yaml"):
        if known in shipped and path.parent == Path():
            return shipped[known], True
    raise UserError(
        f"{name}: no such file, and no shipped stream of that name "
        f"({', '.join(shipped)}){did_you_mean(path.name, shipped)}"
    )


def shipped_streams() -> dict[str, Path]:
    """Return the streams that come with pmn-bench, by file name."""
    folder = (
        Path(__file__).parents[2] / "benchmarks" / "streams"
    )  # whatever else is named so on the path
    return {path.name: path for path in sorted(folder.glob("*.yaml"))}


def load_spec(path: str | Path) -> StreamSpec:
    """Read and check a stream's YAML; raise a ``UserError`` that lists every mistake."""
    path = Path(path)
    source = read_yaml(path)
    registry.search_last(path.parent)  # a user's own worlds, tasks and strategies
    if not isinstance(source.data, dict):
        found = "nothing" if source.data is None else shown(source.data)
        keys = ", ".join(StreamSpec.model_fields)
        source.refuse([Problem((), f"found {found}, expected a mapping with the keys {keys}")])
    try:
        spec = StreamSpec.model_validate(source.data)
    except ValidationError as error:
        spec = None
        problems = problems_of(error, StreamSpec, ())
    else:
        problems = []
    problems += _check_meaning(source)
    source.refuse(problems)
    assert spec is not None
    return spec


def _check_meaning(source: YamlSource) -> list[Problem]:
    """Check names, call lists, order and world options, as far as the shape allows."""
    data: dict[str, Any] = source.data
    return [
        *_check_world(data.get("world")),
        *_check_tasks(data.get("tasks"), data.get("world")),
        *_check_strategies(data.get("strategies")),
        *_check_seeds(data.get("seeds")),
    ]


def _check_world(world: Any) -> list[Problem]:
    if isinstance(world, str):
        world = {"name": world}
        where: Loc = ("world",)
    else:
        where = ("world", "name")
    if not isinstance(world, dict):
        return []
    name = world.get("name")
    if not isinstance(name, str):
        found = f"found {shown(name)}" if "name" in world else "missing"
        return [Problem(where, f"{found}, expected the name of a world")]
    try:
        kind = registry.find(name, registry.WORLDS, "world", World)
    except UserError as error:
        return [Problem(where, str(error))]
    try:
        kind.Options.model_validate({k: v for k, v in world.items() if k != "name"})
    except ValidationError as error:
        return problems_of(error, kind.Options, ("world",))
    return []


def _check_tasks(tasks: Any, world: Any) -> list[Problem]:
    if not isinstance(tasks, list):
        return []
    problems: list[Problem] = []
    learned: dict[str, type[Task]] = {}
    for number, item in enumerate(tasks):
        given = {"task": item} if isinstance(item, str) else item
        if not isinstance(given, dict) or not isinstance(given.get("task"), str):
            continue  # the shape is wrong, which has been said
        where: Loc = ("tasks", number) if given is not item else ("tasks", number, "task")
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
    name = world.get("name") if isinstance(world, dict) else world
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


def _check_strategies(strategies: Any) -> list[Problem]:
    problems: list[Problem] = []
    named = []
    for number, item in enumerate(strategies if isinstance(strategies, list) else []):
        where: Loc = ("strategies", number)
        given = {"name": item} if isinstance(item, str) else item
        if isinstance(given, dict):  # else the shape is wrong, which has been said
            problems += _check_strategy(given, where if given is not item else (*where, "name"))
            named.append((given.get("name"), given.get("variant")))
            if named[-1] in named[:-1]:
                again = f"{shorten(repr(named[-1][0]))} is given twice"
                expected = "expected once, or with a variant of its own"
                problems.append(Problem(where, f"{again}, {expected}"))
    return problems


def _check_strategy(given: dict[str, Any], where: Loc) -> list[Problem]:
    """Check a strategy's name, the name of its variant, and its options."""
    name, variant = given.get("name"), given.get("variant", "")
    if not isinstance(name, str):
        found = f"found {shown(name)}" if "name" in given else "missing"
        return [Problem(where, f"{found}, expected the name of a strategy")]
    problems = []
    if not isinstance(variant, str):
        problems.append(Problem((*where[:2], "variant"), f"found {shown(variant)}, expected text"))
    try:
        options = strategy_options(name)
        options.model_validate({k: v for k, v in given.items() if k not in ("name", "variant")})
    except UserError as error:
        problems.append(Problem(where, str(error)))
    except ValidationError as error:
        problems += problems_of(error, options, where[:2])
    return problems


def call_lists(spec: StreamSpec) -> dict[str, list[str]]:
    """Return what each task's module may call, by the tasks' own names, in the stream's order."""
    lists: dict[str, list[str]] = {}
    levels: dict[str, int] = {}
    for item in spec.tasks:
        task: type[Task] = registry.find(item.task, registry.TASKS, "task", Task)
        usual = [name for name in task.calls if levels.get(name, task.level) < task.level]
        lists[task.name] = usual if item.calls is None else list(item.calls)
        levels[task.name] = task.level
    return lists


def strategy_options(name: str) -> type[BaseModel]:
    """Return the class of a strategy's options, without importing what takes long."""
    if name in registry.STRATEGY_OPTIONS:
        found: type[BaseModel] = registry.load(registry.STRATEGY_OPTIONS[name])
        return found
    kind: type[Strategy] = registry.find(name, registry.STRATEGIES, "strategy", Strategy)
    return kind.Options


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
