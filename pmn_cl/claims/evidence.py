"""What claims are checked on: values for each seed, from results and grades."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from statistics import mean
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pmn_cl.errors import UserError
from pmn_cl.results.bounds import normalised_average, tops
from pmn_cl.results.compare import of_streams
from pmn_cl.results.paper import FRACTIONS
from pmn_cl.results.result import FLOOR, Result, finals

NO_GRADES = "no judgement files"
# Labels of runs that are told what a question asks of a relation, and of those that are not.
WITH, WITHOUT = "[b, r]", "no [b, r]"


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


_STUDIES = ("run", "ablate", "sweep")  # that claims are about


class Evidence:
    """Completed results by what tells them apart, and what judges thought, where they did."""

    def __init__(self, results: Iterable[Result], grades: Sequence[Grades] = ()) -> None:
        done = (result for result in results if result.status == "completed")
        self.results = [result for result in done if result.run.study in _STUDIES]
        self.grades = grades
        if not self.results:
            raise UserError("no run is completed: nothing to check")
        if len({(result.data, result.budget) for result in self.results}) > 1:
            raise UserError(
                "the results are of different data or budgets, and cannot be compared; "
                "give each a folder of its own"
            )
        named = {tuple(result.run.stream.primary) for result in self.results}
        if len(named) > 1:
            raise UserError(
                "the results name different primary claims, and cannot be decided together: give "
                "each stream a folder of its own"
            )
        self.primary = named.pop()  # claims that were named before any of the runs
        self._runs: dict[_Setting, dict[int, Result]] = defaultdict(dict)
        for result in self.results:
            some = self._runs[_setting(result)]
            if result.seed in some:
                raise UserError(
                    f"{result.name!r} with seed {result.seed} is here twice ({result.key} and "
                    f"{some[result.seed].key}): which of them counts? move one away"
                )
            some[result.seed] = result
        for some in self._runs.values():
            if len({result.settings for result in some.values()}) > 1:
                name = next(iter(some.values())).name
                raise UserError(
                    f"{name!r} was run with several settings here (options or tasks): its seeds "
                    "cannot be averaged; give each setting a variant, or a folder of its own"
                )

    def streams(self, strategy: str, told: bool | None = None) -> dict[int, Result]:
        """Return the results of a strategy on the whole stream by seed.

        ``told``: whether it was told [b, r] of cnt's questions, which its options say; of several
        such, those without a label. None: those without a label, whatever they were told.
        """
        if told is None:
            return self._runs.get(("run", strategy, "", 100), {})
        for label in ("", WITH, WITHOUT):
            found = self._runs.get(("run", strategy, label, 100), {})
            if found and all(result.told == told for result in found.values()):
                return found
        return {}

    def rung(self, rung: str) -> dict[int, Result]:
        """Return the results of a rung of the ablations by seed, whichever strategy learned it."""
        return self._runs.get(("ablate", "", rung, 100), {})

    def swept(self, strategy: str, fraction: float) -> dict[int, Result]:
        """Return the results of the low-data sweep at a fraction by seed."""
        return self._runs.get(("sweep", strategy, "", fraction), {})


_Setting: TypeAlias = tuple[str, str, str, float]


def _setting(result: Result) -> _Setting:
    """Return what tells the settings of a folder apart: study, strategy, rung or label, data."""
    run = result.run
    if run.study == "ablate":
        return run.study, "", run.rung or "", result.fraction
    return run.study, result.strategy, result.variant if run.study == "run" else "", result.fraction


class Measure(NamedTuple):
    """A value for each seed, with a name."""

    label: str
    values: Callable[[Evidence, str], Values]  # on a split
    absent: str = ""  # what to say where there are none
    floor: Callable[[Evidence, str], float | None] | None = (
        None  # the constant answer's, on a split
    )


def module(rung: str, metric: str | None = None) -> Measure:
    """Measure a module of the ablations on its own task, which is the last of its stream."""

    def scored(evidence: Evidence, split: str) -> Values:
        return finals(evidence.rung(rung).values(), split, metric=metric)

    def floor(evidence: Evidence, split: str) -> float | None:
        tasks = {run.tasks[-1] for run in evidence.rung(rung).values()}
        return _floor(evidence, split, tasks.pop(), metric) if len(tasks) == 1 else None

    return Measure(f"{rung} ({metric})" if metric else rung, scored, floor=floor)


def _floor(evidence: Evidence, split: str, task: str, metric: str | None = None) -> float | None:
    """Return what the constant answer scores: by a further metric only where it was run, too."""
    if metric is None:
        known = {
            result.seed: score
            for result in evidence.results
            for name, score in zip(result.tasks, result.constant.get(split, []), strict=False)
            if name == task and score is not None
        }
        return mean(known.values()) if known else None
    found = finals(evidence.streams(FLOOR).values(), split, task, metric)
    return mean(found.values()) if found else None


def tuned_count(evidence: Evidence, split: str) -> Values:
    """Measure M_cnt after M_vqa has trained it on."""
    return finals(evidence.rung("M_vqa5 fine-tuned").values(), split, "cnt")


def final_vqa(strategy: str, told: bool) -> Measure:
    """Measure a strategy on vqa after the whole stream."""
    return Measure(
        _label(strategy, told),
        lambda evidence, split: finals(evidence.streams(strategy, told).values(), split, "vqa"),
        floor=lambda evidence, split: _floor(evidence, split, "vqa"),
    )


def _label(strategy: str, told: bool) -> str:
    """Return a strategy as streams label it: PMN is told unless that says not, others only then."""
    if told == (strategy == "pmn"):
        return strategy
    return f"{strategy} ({WITH if told else WITHOUT})"


def average(strategy: str, told: bool) -> Measure:
    """Measure a strategy on all tasks after the whole stream.

    Tasks have different units: 0 is the constant answer, 1 the ceiling or joint training.
    """

    def normalised(evidence: Evidence, split: str) -> Values:
        top = tops(of_streams(evidence.results), split)
        return _known(
            {
                seed: normalised_average(run, split, top)
                for seed, run in evidence.streams(strategy, told).items()
            }
        )

    return Measure(f"{_label(strategy, told)} (average)", normalised)


def gain(fraction: float) -> Measure:
    """Measure what PMN gains over its base on vqa with so many percent of vqa's data."""

    def gained(evidence: Evidence, split: str) -> Values:
        ours, base = (
            finals(evidence.swept(strategy, fraction).values(), split, "vqa")
            for strategy in ("pmn", "independent")
        )
        return {seed: ours[seed] - base[seed] for seed in ours.keys() & base.keys()}

    return Measure(f"gain at {fraction:g}%", gained)


NOTHING = Measure("0", lambda evidence, split: {run.seed: 0.0 for run in evidence.results})


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


def _known(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if value is not None}
