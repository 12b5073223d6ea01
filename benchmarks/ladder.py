"""The paper's ladders (Tables 1 to 3): each module with less and with more to call.

    python -m benchmarks.ladder run --seed 0 --out ladder      train and score every rung
    python -m benchmarks.ladder show ladder                    the tables, over all seeds

A rung that is done is not done again. Lower modules are learned once per seed and shared.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.spec import StreamSpec, load_spec, shipped_streams

Tasks = tuple[tuple[str, tuple[str, ...]], ...]  # after obj and att: task and call list

_BELOW = ("obj", "att")
_REL = ("rel", _BELOW)
_CAP = ("cap", _BELOW)
_CNT1 = ("cnt", _BELOW)
_CNT2 = ("cnt", (*_BELOW, "rel"))
_ALL = ("rel", "obj", "att", "cnt", "cap")
_FULL: Tasks = (_REL, _CAP, _CNT2, ("vqa", _ALL))


@dataclass(frozen=True)
class Rung:
    """A module with a call list: the last task of a short stream."""

    tasks: Tasks
    options: Mapping[str, Any] = field(default_factory=dict)
    keep: bool = False  # for rungs above to call


RUNGS = {
    "obj": Rung((), keep=True),
    "rel1": Rung((_REL,), keep=True),
    "rel0": Rung((("rel", ()),)),
    "cap1": Rung((_CAP,), keep=True),
    "cnt2": Rung((_REL, _CNT2), keep=True),
    "vqa5": Rung(_FULL),
    "vqa0": Rung((("vqa", ()),)),
    "vqa1": Rung((("vqa", _BELOW),)),
    "vqa4": Rung((_REL, _CNT2, ("vqa", ("rel", "obj", "att", "cnt")))),
    "cnt1": Rung((_CNT1,), keep=True),
    "cnt0": Rung((("cnt", ()),)),
    "cap0": Rung((("cap", ()),)),
    "vqa2": Rung((_REL, ("vqa", ("rel", "obj", "att")))),
    "vqa3": Rung((_CNT1, ("vqa", ("obj", "att", "cnt")))),
    "vqa2 [b, r]": Rung((_REL, ("vqa", ("rel", "obj", "att"))), {"supervise": ["cnt", "vqa"]}),
    # How M_vqa comes by its question encoder, Ω and Q→rel, beside the default (copies).
    "vqa5 shared": Rung(
        _FULL,
        {"asking": "shared", "finetune": ["cnt"], "departures": {"own_question": False}},
    ),
    "vqa5 [b, r]": Rung(_FULL, {"supervise": ["cnt", "vqa"]}),
    "vqa5 own": Rung(_FULL, {"asking": "own"}),
    "vqa5 own [b, r]": Rung(_FULL, {"asking": "own", "supervise": ["cnt", "vqa"]}),
    "vqa5 equal gates": Rung(_FULL, {"gates": {"kind": "equal"}}),
}
TABLES = {
    "M_rel (Table 1), accuracy": ["rel0", "rel1"],
    "M_cap (section 4.1), CIDEr-D": ["cap0", "cap1"],
    "M_cnt (Table 2), accuracy": ["cnt0", "cnt1", "cnt2"],
    "M_vqa (Table 3), accuracy": [f"vqa{n}" for n in range(6)],
    "M_vqa2, its query to M_rel supervised": ["vqa2", "vqa2 [b, r]"],
    "M_vqa5, otherwise": [name for name in RUNGS if name.startswith("vqa5")],
}


def run_rung(name: str, seed: int, out: Path, *, split: str | None = None) -> dict[str, Any]:
    """Learn a rung, and score it on test and novel (or one split alone)."""
    rung, kept = RUNGS[name], out / "modules" / f"seed {seed}"
    kept.mkdir(parents=True, exist_ok=True)
    benchmark = Stream.open(_spec(rung, seed), seed).as_avalanche()
    options = registry.load(registry.STRATEGY_OPTIONS["pmn"]).model_validate(
        {**rung.options, "start_from": [str(kept)]}
    )
    strategy = registry.load(registry.STRATEGIES["pmn"])(
        options=options, seed=seed, on_progress=_tell
    )
    lessons = benchmark.streams
    began = time.process_time()
    for lesson, validation in zip(lessons["train"], lessons["val"], strict=True):
        strategy.learn(lesson, validation)
    seconds = time.process_time() - began
    if rung.keep:
        strategy.save(kept)
    splits = ("val", "test", "novel") if split is None else (split,)
    scores = {
        part: {lesson.task.name: strategy.score(lesson) for lesson in lessons[part]}
        for part in splits
    }
    return {
        "rung": name,
        "seed": seed,
        "task": lesson.task.name,
        "metric": lesson.task.metric,
        "data": lesson.samples.store.digest,
        "cpu_seconds": round(seconds, 1),
        "parameters": sum(p.numel() for p in strategy.network[lesson.task.name].parameters()),
        "scores": scores,
    }


def _spec(rung: Rung, seed: int) -> StreamSpec:
    """Return the default stream with the rung's tasks."""
    usual = load_spec(shipped_streams()["stream.yaml"])
    tasks: list[dict[str, Any]] = [{"task": "obj"}, {"task": "att"}]
    tasks += [{"task": task, "calls": list(calls)} for task, calls in rung.tasks]
    changed = {"tasks": tasks, "seeds": [seed], "strategies": ["pmn"], "budget": 100}
    return StreamSpec.model_validate({**usual.model_dump(), **changed})


def _tell(progress: Any) -> None:
    if progress.score is None:
        return  # in the middle of an epoch
    click.echo(
        f"  {progress.task} epoch {progress.epoch}/{progress.epochs}  "
        f"loss {progress.loss:.3f}  validation {progress.score:.4f}"
    )


@click.group()
def main() -> None:
    """The paper's ladders."""


@main.command()
@click.option("--seed", type=int, required=True)
@click.option("--rung", "rungs", multiple=True, type=click.Choice(list(RUNGS)))
@click.option("--split", type=click.Choice(["val"]), help="Score on validation alone, to choose.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("ladder"))
def run(seed: int, rungs: tuple[str, ...], split: str | None, out: Path) -> None:
    """Train and score the rungs, one after another, on one thread."""
    import torch

    torch.set_num_threads(1)
    for name in rungs or RUNGS:
        path = out / f"{name} seed {seed}{f' {split}' if split else ''}.json"
        if path.exists():
            continue
        click.echo(f"{name}, seed {seed}")
        result = run_rung(name, seed, out, split=split)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(result, indent=1), "utf-8")
        os.replace(partial, path)
        click.echo(f"  {result['metric']}: {_primary(result)}  {result['cpu_seconds']} CPU-s")


@main.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True))
@click.option("--detail", is_flag=True, help="Secondary metrics of every rung, too.")
def show(out: Path, detail: bool) -> None:
    """Print the tables: mean ± standard deviation over seeds, and differences paired by seed."""
    results = [json.loads(path.read_text("utf-8")) for path in sorted(out.glob("*.json"))]
    for title, names in TABLES.items():
        click.echo(f"\n{title}")
        base: list[dict[str, Any]] = []
        for name in names:
            rows = [r for r in results if r["rung"] == name]
            base = base or rows
            for split in rows[0]["scores"] if rows else ():
                click.echo(f"  {name:<18}{split:<7}{_row(rows, base, split)}")
            if rows and detail:
                click.echo(f"    {_details(rows)}")


def _row(rows: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]], split: str) -> str:
    ours = {r["seed"]: _primary(r)[split] for r in rows}
    theirs = {r["seed"]: _primary(r)[split] for r in base}
    gains = np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    values = np.array(list(ours.values()))
    spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    by_seed = " ".join(f"{gain:+.3f}" for gain in gains)
    return f"{values.mean():.3f}{spread}  over the first {gains.mean():+.3f}  by seed {by_seed}"


def _primary(result: Mapping[str, Any]) -> dict[str, float]:
    return {
        split: round(scores[result["task"]][result["metric"]], 4)
        for split, scores in result["scores"].items()
    }


def _details(rows: Sequence[Mapping[str, Any]]) -> str:
    task, split = rows[0]["task"], "test" if "test" in rows[0]["scores"] else "val"
    metrics = rows[0]["scores"][split][task]
    means = {m: np.mean([r["scores"][split][task][m] for r in rows]) for m in metrics}
    return f"{split}: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items())


if __name__ == "__main__":
    main()
