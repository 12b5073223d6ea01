"""A made-up folder with everything that a report can show: run, sweep and ablate, and trouble."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_results import result

from pmn_cl.explaining.records.faithfulness import Faithfulness, Measured
from pmn_cl.results.result import Result, write_result

CALLS = {
    **{"obj": [], "att": [], "rel": ["obj", "att"], "cap": ["obj", "att"]},
    **{"cnt": ["obj", "att", "rel"], "vqa": ["rel", "obj", "att", "cnt", "cap"]},
}
TASKS = list(CALLS)
SEEDS = (0, 1, 2)
NASTY = {
    "script": "<script>alert(1)</script>",
    "quotes": "\"it's\" 'quoted' & <b>bold</b>",
    "long": "l" * 10_000,
    "right to left": "שלום עולם",
    "formula": "=1+1",
}
SWEPT = {"variant": "low-data", "study": "sweep"}
_GATES = {"Ω": 0.6, "rel": 0.4, "cnt": 0.1}
FAMILIES = {"exist": 0.0, "same": 0.1}  # of vqa's questions, and how much less they score
_FLOOR = {"scores": {split: dict.fromkeys(FAMILIES, 0.4) for split in ("val", "test", "novel")}}


def made(strategy: str, seed: int, level: float, lost: float = 0.0, **changes: Any) -> Result:
    """Return a run of six tasks that scores ``level`` on each, less ``lost`` with each later one.

    Seeds differ by a hundredth; novel compositions score a tenth less.
    """
    tasks = changes.get("tasks", TASKS)
    count = len(tasks)
    matrix = [
        [level + seed / 100 - lost * (i - j) if j <= i else None for j in range(count)]
        for i in range(count)
    ]
    novel = [[None if v is None else v - 0.1 for v in row] for row in matrix]
    gates = {f"gate {callee}": gate for callee, gate in _GATES.items()}
    gates |= {f"gate {callee}, yes/no": gate / 2 for callee, gate in _GATES.items()}
    seen = {task: {"accuracy": level, "yes/no": level} for task in tasks}
    by_family = {f"family {name}": level - less for name, less in FAMILIES.items()}
    seen["vqa"] = {**seen.get("vqa", {}), **by_family, **(gates if strategy == "pmn" else {})}
    secondary = {split: [{}] * (count - 1) + [seen] for split in ("test", "novel")}
    epochs = [{"step": 10 * n, "loss": 1.0, "score": level * n / 3 + seed / 100} for n in (1, 2, 3)]
    families = [
        {
            **epoch,
            "families": {name: epoch["score"] - less for name, less in FAMILIES.items()},
            "mass": {name: 0.3 - less for name, less in FAMILIES.items()},
            "gates": _GATES if strategy == "pmn" else {},
        }
        for epoch in epochs
    ]
    variant = changes.get("variant", "")
    given = {
        "key": f"{strategy}-{variant}-{changes.get('fraction', 100)}-{seed}",
        **{"stream": "claims", "tasks": tasks, "metrics": ["accuracy"] * count},
        "scores": {"test": matrix, "novel": novel},
        "constant": {"test": [0.1] * count, "novel": [0.05] * count},
        "secondary": secondary,
        "curves": {task: families if task == "vqa" else epochs for task in tasks},
        "floors": {"vqa": {**_FLOOR, "mass": dict.fromkeys(FAMILIES, 0.25)}},
        "samples": {"train": [100] * count, "test": [50] * count},
        "world": {"name": "digits", "options": {"seed": 0}},
        "calls": {task: CALLS.get(task, []) for task in tasks},
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "revision": "0355a14",
    }
    return result(strategy, seed, matrix, **{**given, **changes})


def plain() -> list[Result]:
    """Return the runs of four strategies."""
    found = []
    for seed in SEEDS:
        found += [made("pmn", seed, 0.6), made("hard_sharing", seed, 0.5, lost=0.05)]
        found += [made("independent", seed, 0.4)]
        joint = made("hard_sharing_joint", seed, 0.7)
        last = {split: rows[-1:] for split, rows in joint.scores.items()}
        found.append(joint.model_copy(update={"scores": last, "curves": {}}))
    return found


def swept() -> list[Result]:
    """Return a sweep in which PMN gains 0.02 with 25% of the data and 0.01 with all of it."""
    return [
        made(
            name,
            seed,
            level,
            variant="low-data",
            study="sweep",
            fraction=fraction,
            tasks=["obj", "vqa"],
        )
        for seed in SEEDS
        for fraction, gain in ((25.0, 0.02), (100.0, 0.01))
        for name, level in (("pmn", 0.3 + gain), ("independent", 0.3))
    ]


def ablated() -> list[Result]:
    """Return the first rungs of M_vqa, each 0.05 above the one below."""
    return [
        made("pmn", seed, 0.2 + 0.05 * n, **rung(f"M_vqa{n}"), tasks=["obj", "vqa"])
        for seed in SEEDS
        for n in range(3)
    ]


def rung(name: str) -> dict[str, str]:
    """Return what a run of an ablation says of itself."""
    return {"variant": name, "study": "ablate", "rung": name}


def trouble() -> list[Result]:
    """Return runs that failed or were cut off, one of them before it knew its tasks."""
    nothing = {"tasks": [], "metrics": [], "scores": {}, "constant": {}, "curves": {}}
    nothing |= {"parameters": {"total": [], "trainable": []}, "costs": [], "secondary": {}}
    error = {"kind": "ValueError", "message": f"no {NASTY['script']}"}
    return [
        made("pnn", 0, 0.5, status="failed", error=error, **nothing),
        made("pnn", 1, 0.5, status="interrupted"),
    ]


def nasty() -> list[Result]:
    """Return runs with names that a page may take for something else, numbered as folders."""
    return [
        made(name, seed, 0.5 + n / 50, variant=name, stream=name, key=f"nasty{n}-{seed}")
        for n, name in enumerate(NASTY.values())
        for seed in SEEDS
    ]


def measured(one: Result, splits: tuple[str, ...] = ("test",), **values: float) -> Faithfulness:
    """Return what was measured of a run's explanations; chance is a quarter for attention mass."""
    part = Measured(
        questions=4000,
        values={name.replace("_", " "): value for name, value in values.items()},
        chance={"attention mass": 0.25},
        measured="2026-01-02T03:04:05+00:00",
    )
    return Faithfulness(
        **{"run": one.key, "strategy": one.name, "seed": one.seed},
        weights=one.weights[-1] if one.weights else "",
        splits=dict.fromkeys(splits, part),
    )


def write(results: list[Result], folder: Path) -> Path:
    """Write results into a folder, each where its key says."""
    for one in results:
        (folder / one.key).mkdir(parents=True)
        write_result(one, folder / one.key)
    return folder
