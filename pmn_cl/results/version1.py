"""Records of version 1 in the form of version 2.

Version 1 had the run flattened into the record, and its labels (`variant`) said what a run was for.
"""

from __future__ import annotations

from typing import Any

_RUN = ("stream", "strategy", "variant", "seed", "fraction", "budget", "threads", "spec", "asked")
_RENAMED = {"rate": "lr_scale"}  # among options
_CALLS = {  # the lists of tasks that did not say their own
    "rel": ["obj", "att"],
    "cap": ["obj", "att"],
    "cnt": ["obj", "att", "rel"],
    "vqa": ["rel", "obj", "att", "cnt", "cap"],
}
_STUDIES = {"low-data": "sweep", "trial": "tune"}  # by label
_RUNGS = {
    *(
        f"M_{task}{n}"
        for task, most in (("rel", 1), ("cap", 1), ("cnt", 2))
        for n in range(most + 1)
    ),
    *(f"M_vqa{n}" for n in range(6)),
    *("M_vqa0 matched", "M_cnt2 synthetic data", "M_vqa1 extra data", "M_vqa5 equal gates"),
    *("M_vqa5 random children", "M_vqa5 shuffled children", "M_vqa5 fine-tuned"),
    *("M_vqa5 [b, r]", "M_vqa5 no [b, r]", "M_vqa5 top-1", "M_vqa5 top-2", "M_vqa5 top-3"),
    *("pmn, another order", "hard_sharing, another order"),
}
_MATCHED = "matched-"


def upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of version 1 as one of version 2."""
    kept = {name: value for name, value in record.items() if name not in _RUN}
    asked, label = record.get("asked"), record["variant"]
    spec, options = record["spec"], _renamed(record["options"])
    given = options if asked is None else _renamed(asked["options"])
    others = asked["matched"] if asked else []
    matched = [_strategy(other) for other in others if not other.get("variant")]
    run = {
        "stream": {
            "name": record["stream"],
            "world": _with_options(spec["world"]),
            "tasks": _resolved(spec["tasks"]),
            **{name: record[name] for name in ("fraction", "budget", "threads")},
        },
        "strategy": {
            "name": record["strategy"],
            "variant": label,
            "matched_to": label[len(_MATCHED) :] if label.startswith(_MATCHED) else None,
            "options": given,
        },
        "seed": record["seed"],
        "study": "ablate" if label in _RUNGS else _STUDIES.get(label, "run"),
        "rung": label if label in _RUNGS else None,
        "matched": matched[0] if matched else None,
        "splits": asked["judged_on"] if asked else list(record["scores"]),
        "evaluate_at_end": bool(asked and asked["judged_at_end"]),
    }
    missing = None if asked else "the options as they were given"
    now = {"version": 2, "upgraded_from": 1, "run": run, "options": options}
    return {**kept, **now, "incomplete": missing}


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(name, name): value for name, value in options.items()}


def _with_options(world: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in world.items() if name != "name"}
    return {"name": world["name"], "options": options}


def _strategy(given: dict[str, Any]) -> dict[str, Any]:
    own = ("name", "variant")
    options = _renamed({name: value for name, value in given.items() if name not in own})
    return {**{name: given[name] for name in own if name in given}, "options": options}


def _resolved(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks with the call lists that they had."""
    before: list[str] = []
    found = []
    for item in tasks:
        calls = item.get("calls")
        if calls is None:
            calls = [name for name in _CALLS.get(item["task"], []) if name in before]
        found.append({**item, "calls": calls})
        before.append(item["task"])
    return found
