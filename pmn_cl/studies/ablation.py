"""The paper's ablations and our controls: which runs they take, and the tables they make.

Tables 1 to 3 (each module with less and with more to call), the three additional experiments of
section 4.1 (parameters, data and gates), and what else may explain a gain. Every entry is a stream
cut to what one module needs, with that module's task last; lower modules are shared by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StrategySpec, TaskSpec
from pmn_cl.console import print_table
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.ladder import tables
from pmn_cl.results.result import Result
from pmn_cl.results.statistics import as_range
from pmn_cl.studies.conduct import (
    carry_through,
    conclude_study,
    open_world,
    plan_study,
    print_plan,
    read_stream,
    say_interrupted,
    shared_modules,
    splits_of,
    study_folder,
)
from pmn_cl.studies.request import AblationRequest

_BELOW = ("obj", "att")
_REL, _CAP = ("rel", _BELOW), ("cap", _BELOW)
_CNT1, _CNT2 = ("cnt", _BELOW), ("cnt", (*_BELOW, "rel"))
_VQA5 = ("vqa", ("rel", "obj", "att", "cnt", "cap"))
_CHILDREN = ["obj", "att", "rel", "cap", "cnt"]
_TERMINALS = (("obj", ()), ("att", ()))
_WHOLE = (*_TERMINALS, _REL, _CAP, _CNT2, _VQA5)
_VQA3 = (*_TERMINALS, _CNT1, ("vqa", (*_BELOW, "cnt")))
_VQA4 = (*_TERMINALS, _REL, _CNT2, ("vqa", ("rel", *_BELOW, "cnt")))

Tasks = tuple[tuple[str, tuple[str, ...]], ...]  # with call lists


@dataclass(frozen=True)
class Rung:
    """A module with a call list: the last task of a short stream."""

    tasks: Tasks
    options: Mapping[str, Any] = field(default_factory=dict)
    strategy: str = "pmn"
    extra: str | None = None  # what the last task's further samples are made from


def _hard(top: int) -> dict[str, Any]:
    return {"gates": {"kind": "hard", "top": top}, "gates_of": ["vqa"]}


RUNGS: dict[str, Rung] = {
    "M_rel0": Rung((("rel", ()),), strategy="independent"),
    "M_rel1": Rung((*_TERMINALS, _REL)),
    "M_cap0": Rung((("cap", ()),), strategy="independent"),
    "M_cap1": Rung((*_TERMINALS, _CAP)),
    "M_cnt0": Rung((("cnt", ()),), strategy="independent"),
    "M_cnt1": Rung((*_TERMINALS, _CNT1)),
    "M_cnt2": Rung((*_TERMINALS, _REL, _CNT2)),
    "M_vqa0": Rung((("vqa", ()),), strategy="independent"),
    "M_vqa1": Rung((*_TERMINALS, ("vqa", _BELOW))),
    "M_vqa2": Rung((*_TERMINALS, _REL, ("vqa", ("rel", *_BELOW)))),
    "M_vqa3": Rung(_VQA3),
    "M_vqa4": Rung(_VQA4),
    "M_vqa5": Rung(_WHOLE),
    # The same without what M_cnt has learned of questions: calling alone.
    **{
        f"{name} no copies": Rung(tasks, {"asking": "own"})
        for name, tasks in (("M_vqa3", _VQA3), ("M_vqa4", _VQA4), ("M_vqa5", _WHOLE))
    },
    # The paper's additional experiments.
    "M_vqa0 matched": Rung(_WHOLE, strategy="parameter_matched"),
    "M_cnt2 synthetic data": Rung((*_TERMINALS, _REL, _CNT2), extra="obj"),
    "M_vqa1 extra data": Rung((*_TERMINALS, ("vqa", _BELOW)), extra="rel"),
    "M_vqa5 equal gates": Rung(_WHOLE, {"gates": {"kind": "equal"}, "gates_of": ["vqa"]}),
    # What else may explain a gain.
    "M_vqa5 random children": Rung(_WHOLE, {"untrained": _CHILDREN}),
    "M_vqa5 shuffled children": Rung(_WHOLE, {"shuffled": _CHILDREN}),
    # How M_vqa and M_cnt are trained: fine-tuned as in the paper; queries supervised or not.
    "M_vqa5 fine-tuned": Rung(
        _WHOLE, {"asking": "shared", "finetune": ["cnt"], "departures": {"own_question": False}}
    ),
    "M_vqa5 [b, r]": Rung(_WHOLE, {"supervise": ["cnt", "vqa"]}),
    "M_vqa5 no [b, r]": Rung(_WHOLE, {"supervise": []}),
    "M_cnt2 no [b, r]": Rung((*_TERMINALS, _REL, _CNT2), {"supervise": []}),
    # The paper's future work: children that are not asked are not run.
    **{f"M_vqa5 top-{top}": Rung(_WHOLE, _hard(top)) for top in (1, 2, 3)},
    # Another order that the levels allow.
    **{
        f"{strategy}, another order": Rung(
            (*reversed(_TERMINALS), _CAP, _REL, _CNT2, _VQA5), strategy=strategy
        )
        for strategy in ("pmn", "hard_sharing")
    },
}


def ablation_runs(
    spec: BenchmarkSpec, *, only: Sequence[str] = (), seeds: Sequence[int] = (), reuse: Path
) -> list[RunSpec]:
    """Return a run for each rung and seed, with the options that the stream gives its strategy."""
    for name in only:
        if name not in RUNGS:
            near = did_you_mean(name, RUNGS)
            raise UserError(f"--only {name!r}: expected one of {', '.join(RUNGS)}{near}")
    curricula = {task.task: task.curriculum for task in spec.stream.tasks}
    runs = []
    for name, rung in RUNGS.items():
        if only and name not in only:
            continue
        # Where base modules are not named, they are as PMN's are; but its search is not theirs.
        usual = spec.plain(rung.strategy) or (spec.plain("pmn") if spec.tuned is None else None)
        usual = usual or spec.of_study(rung.strategy)
        options = {**usual.options, **rung.options}
        *below, last = [
            TaskSpec(
                task=task, calls=list(calls), fraction=None, curriculum=curricula.get(task, [])
            )
            for task, calls in rung.tasks
        ]
        tasks = [*below, last.model_copy(update={"extra": rung.extra})]
        runs += [
            RunSpec(
                stream=spec.stream.model_copy(update={"tasks": tasks}),
                strategy=StrategySpec(
                    name=rung.strategy,
                    variant=name,
                    options=options,
                    tuned=usual.tuned if usual.name == rung.strategy else None,
                ),
                seed=seed,
                study="ablate",
                rung=name,
                splits=list(spec.splits),
                evaluate_at_end=True,
                reuse=str(reuse),
            )
            for seed in dict.fromkeys(seeds or spec.seeds)
        ]
    return runs


def ablate_command(
    request: AblationRequest, console: Console, progress: ProgressCallback | None = None
) -> int:
    """Learn each module with less and with more to call; return the exit code."""
    spec = read_stream(request.stream)
    folder = study_folder(spec, request.out, "-ablate")
    runs = ablation_runs(
        spec, only=request.only, seeds=request.seeds, reuse=shared_modules(folder, spec)
    )
    plan = plan_study(spec, runs, folder, request)
    if request.dry_run:
        print_plan(plan, console, fractions=True)
        return 0
    open_world(spec, request.cache, progress)
    outcome = carry_through(plan, request, console)
    if outcome.interrupted:
        return say_interrupted(outcome, plan, console)
    for split in splits_of(outcome.results):
        for table in rung_tables(outcome.results, split):
            print_table(console, table)
    return conclude_study(outcome, console)


def rung_tables(results: Sequence[Result], split: str) -> list[Table]:
    """Return the ladders, each rung with its gain over the first, beside the paper's numbers."""
    made = []
    for title, lines in tables(results, split).items():
        table = Table(box=None, header_style="bold", title=f"{title}, {split}")
        for name in ("module", "seeds", "score", "over the first", "95% interval", "the paper's"):
            table.add_column(name, justify="left" if name == "module" else "right")
        for line in lines:
            gain = line.gain.difference if line.gain is not None else None
            table.add_row(
                line.name,
                str(line.seeds),
                f"{line.score.mean:.3f}",
                "" if gain is None else f"{gain.mean:+.3f}",
                "" if gain is None else as_range(gain),
                line.paper,
            )
        made.append(table)
    return made
