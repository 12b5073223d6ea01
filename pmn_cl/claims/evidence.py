"""What claims are checked on: values for each seed, from results and grades."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from statistics import mean
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pmn_cl.errors import UserError
from pmn_cl.results import scores
from pmn_cl.results.compare import JOINT
from pmn_cl.results.result import Result

NO_GRADES = "no judgement files"


Values: TypeAlias = Mapping[int, float]  # by seed, or by judge


Group = Literal["both right", "pmn right", "baseline right", "both wrong"]


class Grades(BaseModel):
    """What one judge thought of the explanations for one group of questions: means of 0 to 4."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    judge: str
    split: str
    group: Group
    questions: int = Field(ge=1)
    pmn: float = Field(ge=0, le=4)
    baseline: float = Field(ge=0, le=4)


class Evidence:
    """Completed results by what tells them apart, and what judges thought, where they did."""

    def __init__(self, results: Iterable[Result], grades: Sequence[Grades] = ()) -> None:
        self.results = [result for result in results if result.status == "completed"]
        self.grades = grades
        if not self.results:
            raise UserError("no run is completed: nothing to judge")
        if len({(result.data, result.budget) for result in self.results}) > 1:
            raise UserError(
                "the results are of different data or budgets, and cannot be judged together; "
                "give each a folder of its own"
            )
        self._runs: dict[tuple[str, str, float], dict[int, Result]] = defaultdict(dict)
        for result in self.results:
            some = self._runs[result.strategy, result.variant, result.fraction]
            if result.seed in some:
                raise UserError(
                    f"{result.name!r} with seed {result.seed} is here twice ({result.key} and "
                    f"{some[result.seed].key}): which of them counts? move one away"
                )
            some[result.seed] = result
        for some in self._runs.values():
            if len({_settings(result) for result in some.values()}) > 1:
                name = next(iter(some.values())).name
                raise UserError(
                    f"{name!r} was run with several settings here (options or tasks): its seeds "
                    "cannot be averaged; give each setting a variant, or a folder of its own"
                )

    def runs(self, strategy: str, variant: str = "", fraction: float = 100) -> dict[int, Result]:
        """Return the results of one setting by seed."""
        return self._runs.get((strategy, variant, fraction), {})


def _settings(result: Result) -> str:
    options = {name: value for name, value in result.options.items() if name != "start_from"}
    return json.dumps([options, result.spec, result.tasks], sort_keys=True)


class Measure(NamedTuple):
    """A value for each seed, with a name."""

    label: str
    values: Callable[[Evidence, str], Values]  # on a split
    absent: str = ""  # what to say where there are none


def module(variant: str, metric: str | None = None, *, strategy: str = "pmn") -> Measure:
    """Measure a module of the ablations on its own task, which its name has: M_vqa5 is of vqa."""

    def scored(evidence: Evidence, split: str) -> Values:
        return _last(evidence.runs(strategy, variant), split, variant[2:5], metric)

    return Measure(f"{variant} ({metric})" if metric else variant, scored)


def tuned_count(evidence: Evidence, split: str) -> Values:
    """Measure M_cnt after M_vqa has trained it on."""
    return _last(evidence.runs("pmn", "M_vqa5 fine-tuned"), split, "cnt")


def final_vqa(strategy: str) -> Measure:
    """Measure a strategy on vqa after the whole stream."""
    return Measure(strategy, lambda evidence, split: _last(evidence.runs(strategy), split, "vqa"))


def average(strategy: str) -> Measure:
    """Measure a strategy on all tasks after the whole stream.

    Tasks have different units: 0 is the constant answer, 1 what joint training reaches.
    """

    def normalised(evidence: Evidence, split: str) -> Values:
        joint = evidence.runs(JOINT)
        return _known(
            {
                seed: scores.normalised_average(
                    run.matrix(split), run.constant[split], joint[seed].matrix(split)[-1]
                )
                for seed, run in evidence.runs(strategy).items()
                if seed in joint and run.tasks == joint[seed].tasks and split in run.scores
            }
        )

    return Measure(f"{strategy} (average)", normalised)


def gain(fraction: float) -> Measure:
    """Measure what PMN gains over its base on vqa with so many percent of vqa's data."""

    def gained(evidence: Evidence, split: str) -> Values:
        ours = _last(evidence.runs("pmn", "low-data", fraction), split, "vqa")
        base = _last(evidence.runs("independent", "low-data", fraction), split, "vqa")
        return {seed: ours[seed] - base[seed] for seed in ours.keys() & base.keys()}

    return Measure(f"gain at {fraction:g}%", gained)


NOTHING = Measure("0", lambda evidence, split: {run.seed: 0.0 for run in evidence.results})


FRACTIONS = (1, 5, 10, 25, 50, 100)


def best_middle(evidence: Evidence, split: str) -> Values:
    """For each seed, its gain at the middle fraction that is the best of the other seeds.

    Chosen by the seed itself, the largest of several gains would be too large by chance.
    """
    gains = [gain(fraction).values(evidence, split) for fraction in FRACTIONS[1:-1]]
    seeds = set.intersection(*(set(some) for some in gains))
    if len(seeds) < 2:
        return {}
    return {
        seed: max(gains, key=lambda some: mean(some[s] for s in sorted(seeds - {seed})))[seed]
        for seed in seeds
    }


def graded(model: Literal["pmn", "baseline"], *groups: Group) -> Measure:
    """Measure a model's explanations by judge, over all questions of these groups."""

    def grade(evidence: Evidence, split: str) -> Values:
        judges = sorted({given.judge for given in evidence.grades})
        found = {}
        for number, judge in enumerate(judges):
            of_judge = [g for g in evidence.grades if (g.judge, g.split) == (judge, split)]
            some = [g for g in of_judge if g.group in groups]
            if {g.group for g in some} == set(groups):
                total = sum(g.questions for g in some)
                found[number] = fsum(g.questions * getattr(g, model) for g in some) / total
        return found

    return Measure(f"grades of {model}", grade, NO_GRADES)


def lead(ahead: Measure, behind: Measure, label: str) -> Measure:
    """Measure how far one is ahead of another."""

    def led(evidence: Evidence, split: str) -> Values:
        first, second = ahead.values(evidence, split), behind.values(evidence, split)
        return {unit: first[unit] - second[unit] for unit in first.keys() & second.keys()}

    return Measure(label, led, ahead.absent)


def _last(
    runs: Mapping[int, Result], split: str, task: str, metric: str | None = None
) -> dict[int, float]:
    """Return the last score on a task by seed: its primary metric, or another."""

    def score(run: Result) -> float | None:
        if task not in run.tasks or not run.scores.get(split):
            return None
        if metric is None:
            return run.scores[split][-1][run.tasks.index(task)]
        known = run.secondary.get(split) or [{}]
        return known[-1].get(task, {}).get(metric)

    return _known({seed: score(run) for seed, run in runs.items()})


def _known(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if value is not None}
