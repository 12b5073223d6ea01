"""What the names in a spec stand for: worlds, tasks, strategies' options."""

from __future__ import annotations

from pydantic import BaseModel

from pmn_cl import registry
from pmn_cl.config.spec import StrategySpec, StreamSpec, WorldSpec
from pmn_cl.data.world import World
from pmn_cl.strategy.base import Strategy
from pmn_cl.tasks.base import Task


def world_class(spec: WorldSpec) -> type[World]:
    """Return the class of a world."""
    found: type[World] = registry.find(spec.name, registry.WORLDS, "world", World)
    return found


def make_world(spec: WorldSpec) -> World:
    """Return the world with the options given."""
    kind = world_class(spec)
    return kind(kind.Options.model_validate(spec.options))


def task_class(name: str) -> type[Task]:
    """Return the class of a task."""
    found: type[Task] = registry.find(name, registry.TASKS, "task", Task)
    return found


def strategy_class(name: str) -> type[Strategy]:
    """Return the class of a strategy; importing some takes seconds."""
    found: type[Strategy] = registry.find(name, registry.STRATEGIES, "strategy", Strategy)
    return found


def strategy_options(name: str) -> type[BaseModel]:
    """Return the class of a strategy's options, without importing what takes long."""
    if name in registry.STRATEGY_OPTIONS:
        found: type[BaseModel] = registry.load(registry.STRATEGY_OPTIONS[name])
        return found
    return strategy_class(name).Options


def options_of(spec: StrategySpec) -> BaseModel:
    """Return the options of a strategy, checked and with their defaults."""
    return strategy_options(spec.name).model_validate(spec.options)


def call_lists(spec: StreamSpec) -> dict[str, list[str]]:
    """Return what each task's module may call, by the tasks' own names, in the stream's order."""
    lists: dict[str, list[str]] = {}
    levels: dict[str, int] = {}
    for item in spec.tasks:
        task = task_class(item.task)
        usual = [name for name in task.calls if levels.get(name, task.level) < task.level]
        lists[task.name] = usual if item.calls is None else list(item.calls)
        levels[task.name] = task.level
    return lists
