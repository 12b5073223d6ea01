"""What results are judged by: values for each seed, and one rule for every claim. No torch here.

A claim says that one value is above another: a module above its base, the gain at 5% above that
at 1%. Values are paired by seed (same world, same split, same fraction). The rule is `RULE`; the
claims are in `claims`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import mean
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pmn_cl import scores
from pmn_cl.comparing import JOINT
from pmn_cl.errors import UserError
from pmn_cl.results import Result
from pmn_cl.statistics import Interval, Paired, holm, interval, paired

RULE = """\
A claim holds where the 95% interval (Student's t) of the difference, paired by seed, lies above 0,
and does not hold where it does not: "within chance" says that the interval includes 0, "the other
way" that it lies below. With fewer than 3 common seeds (n) there is not enough data. A claim of
several differences holds where each does; the weakest is shown. "No forgetting" holds where no
score changed in any run, and one that did is enough against it. p is of the paired t-test, Holm
is p corrected over all claims of the split; "not after Holm" says that this p is above 0.05.
Normalised averages count the constant answer as 0 and joint training as 1. Grades are paired by
judge."""

NEEDED = 3  # seeds: fewer say nothing about chance
NO_GRADES = "no judgement files"
SPLITS = ("test", "novel")

Verdict = Literal["holds", "does not hold", "not enough data"]
Values: TypeAlias = Mapping[int, float]  # by seed, or by judge

# --- what there is to judge by -----------------------------------------------------------

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


# --- the rule ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What came of a check on one split."""

    verdict: Verdict
    note: str
    shown: str  # what the numbers are of
    higher: Interval | None = None  # what should be above
    lower: Interval | None = None  # and what below
    difference: Paired | None = None
    holm: float | None = None  # the p-value, corrected over all claims of the split
    parts: tuple[Finding, ...] = ()  # where there are several


Check: TypeAlias = Callable[[Evidence, str], Finding]


def above(higher: Measure, lower: Measure) -> Check:
    """Check that one value is above another, seed by seed."""

    def check(evidence: Evidence, split: str) -> Finding:
        ours, theirs = higher.values(evidence, split), lower.values(evidence, split)
        shown = f"{higher.label} > {lower.label}"
        pair = paired(ours, theirs)
        common = sorted(ours.keys() & theirs.keys())
        sides = [
            interval([side[seed] for seed in common]) if common else None for side in (ours, theirs)
        ]
        missing = [side for side, some in ((higher, ours), (lower, theirs)) if not some]
        verdict, note = _verdict(pair)
        if missing:
            note = missing[0].absent or f"nothing of {', '.join(side.label for side in missing)}"
        return Finding(verdict, note, shown, sides[0], sides[1], pair)

    return check


def _verdict(pair: Paired | None) -> tuple[Verdict, str]:
    """Apply the rule to one difference; say in a word or two why."""
    if pair is None or pair.seeds < NEEDED:
        return "not enough data", f"{pair.seeds if pair else 0} in common, {NEEDED} needed"
    _, low, high = pair.difference
    if low is not None and low > 0:
        return "holds", ""
    return "does not hold", "the other way" if high is not None and high < 0 else "within chance"


def every(*checks: Check) -> Check:
    """Check that each of several differences is there; the weakest stands for them."""

    def check(evidence: Evidence, split: str) -> Finding:
        parts = tuple(sorted((part(evidence, split) for part in checks), key=_strength))
        weakest = parts[0]
        failed = [part.shown for part in parts if part.verdict == "does not hold"]
        if failed:
            note = f"not: {'; '.join(failed)}"
        elif weakest.verdict == "not enough data":
            note = weakest.note
        else:
            note = f"least: {weakest.shown}"
        return replace(weakest, note=note, parts=parts)

    return check


def _strength(finding: Finding) -> tuple[int, float]:
    """Order findings: what fails before what is missing before what holds, then by certainty."""
    order: tuple[Verdict, ...] = ("does not hold", "not enough data", "holds")
    at = order.index(finding.verdict)
    difference = finding.difference.difference if finding.difference else None
    if difference is None or difference.high is None:
        return at, 0.0
    half = max(difference.high - difference.mean, 1e-12)  # seeds may agree to the last digit
    return at, difference.mean / half


def unchanged(evidence: Evidence, split: str) -> Finding:
    """Check that no score of PMN ever changes after its task was learned, in any run.

    But for those in which modules are fine-tuned, which is another claim.
    """
    frozen = [
        (run.seed, change)
        for run in evidence.results
        if run.strategy == "pmn" and not run.options.get("finetune")
        if (change := _largest_change(run, split)) is not None
    ]
    shown = "largest change of a score"
    if not frozen:
        return Finding("not enough data", "nothing of pmn after a second task", shown)
    seeds = sorted({seed for seed, _ in frozen})
    largest = interval([max(change for of, change in frozen if of == seed) for seed in seeds])
    changed = sum(change > 0 for _, change in frozen)
    note = f"changed in {changed} of {len(frozen)} runs" if changed else f"0 in {len(frozen)} runs"
    verdict: Verdict = "does not hold" if changed else "holds"
    if not changed and len(seeds) < NEEDED:
        verdict, note = "not enough data", f"{note}; {len(seeds)} seeds, {NEEDED} needed"
    return Finding(verdict, note, shown, difference=Paired(largest, len(seeds), None))


def _largest_change(run: Result, split: str) -> float | None:
    """Return by how much a score differs at most from that right after learning its task."""
    matrix = run.matrix(split)
    later = [(row[j], matrix[j][j]) for i, row in enumerate(matrix) for j in range(i)]
    known = [abs(now - then) for now, then in later if now is not None and then is not None]
    return max(known) if known and len(known) == len(later) else None


# --- claims ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What is claimed, where, with which numbers, and how to check it."""

    name: str
    statement: str
    where: str  # table or section
    paper: str  # percent, but for CIDEr and grades; what should be lower comes first
    check: Check


class Judged(NamedTuple):
    """A claim and what came of it on a split."""

    claim: Claim
    split: str
    finding: Finding


def judge(evidence: Evidence, claims: Sequence[Claim]) -> list[Judged]:
    """Check all claims on each split, with p-values corrected over the claims of the split."""
    judged = []
    for split in SPLITS:
        findings = [claim.check(evidence, split) for claim in claims]
        corrected = holm([found.difference.p if found.difference else None for found in findings])
        for claim, found, p in zip(claims, findings, corrected, strict=True):
            judged.append(Judged(claim, split, _corrected(found, p)))
    return judged


def _corrected(finding: Finding, p: float | None) -> Finding:
    """Return the finding with its corrected p-value; say where that changes what to think."""
    note = finding.note
    if finding.verdict == "holds" and p is not None and p > 0.05:
        note = f"not after Holm; {note}" if note else "not after Holm"
    return replace(finding, note=note, holm=p)
