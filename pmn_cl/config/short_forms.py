"""The short forms of a stream.yaml, written out: here and nowhere else.

``world: digits``, ``- obj``, ``- pmn`` and ``evaluate_every: 100`` stand for mappings with one key;
what a world or a strategy is given beside the keys of every world or strategy are its own options.
"""

from __future__ import annotations

from typing import Any

from pmn_cl.config.spec import StrategySpec, WorldSpec
from pmn_cl.config.yaml_source import Loc

_OPTIONS = "options"


def written_out(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data in the form of ``BenchmarkSpec``; what has no right shape stays as it is."""
    found = dict(data)
    if "world" in found:
        found["world"] = _with_options(_mapping(found["world"], "name"), [*WorldSpec.model_fields])
    if isinstance(found.get("tasks"), list):
        found["tasks"] = [_mapping(item, "task") for item in found["tasks"]]
    if isinstance(found.get("evaluate_every"), (int, float)):
        found["evaluate_every"] = {"steps": found["evaluate_every"]}
    if isinstance(found.get("strategies"), list):
        known = [*StrategySpec.model_fields]
        found["strategies"] = [
            _labelled(_with_options(_mapping(item, "name"), known)) for item in found["strategies"]
        ]
    return found


def _mapping(item: Any, key: str) -> Any:
    return {key: item} if isinstance(item, str) else item


def _with_options(item: Any, known: list[str]) -> Any:
    """Gather what is no key of every world or strategy as options of this one."""
    if not isinstance(item, dict):
        return item
    keys = [name for name in known if name != _OPTIONS]
    options = {name: value for name, value in item.items() if name not in keys}
    return {**{name: item[name] for name in keys if name in item}, _OPTIONS: options}


def _labelled(item: Any) -> Any:
    """Give a strategy that is matched to another a label, where it has none."""
    if isinstance(item, dict) and isinstance(item.get("matched_to"), str):
        return {"variant": f"matched-{item['matched_to']}", **item}
    return item


def as_written(loc: Loc, data: dict[str, Any]) -> Loc:
    """Return where something stands in the file, given where it is when written out."""
    place: Any = data
    for depth, part in enumerate(loc):
        if isinstance(place, (str, int, float)):  # a short form, which has no parts
            return loc[:depth]
        try:
            place = place[part]
        except (KeyError, IndexError, TypeError):
            return loc
    return loc
