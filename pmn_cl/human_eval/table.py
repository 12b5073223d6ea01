"""The paper's Table 5: mean grades by who was right, beside the paper's own numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from pmn_cl.claims.evidence import Grades, Group
from pmn_cl.human_eval.agreement import Level, krippendorff_alpha
from pmn_cl.human_eval.intervals import Grade, mean_grade
from pmn_cl.human_eval.rounds import GROUPS, Round
from pmn_cl.human_eval.sheets import GradedSheet
from pmn_cl.results.paper import ALL, GRADES, PublishedGrades
from pmn_cl.results.statistics import Interval

LEVELS: tuple[Level, ...] = ("ordinal", "interval")


def by_its_rows() -> PublishedGrades:
    """Return what the paper's rows average to by their counts; its last row says otherwise."""
    rows = [GRADES[group] for group in GROUPS]
    total = sum(row.questions for row in rows)
    pmn = sum(row.questions * row.pmn for row in rows) / total
    return PublishedGrades(total, pmn, sum(row.questions * row.baseline for row in rows) / total)


def paper_note() -> str:
    """Return what to know about the paper's numbers."""
    rows, last = by_its_rows(), GRADES[ALL]
    return (
        f"The paper's four rows average {rows.pmn:.2f} (PMN) and {rows.baseline:.2f} (baseline) by "
        f"their counts, while its row for all says {last.pmn:.2f} and {last.baseline:.2f}."
    )


@dataclass(frozen=True)
class GradeRow:
    """What judges gave to the explanations for one group of questions."""

    label: str  # a group, or all
    questions: int
    judgements: int
    pmn: Interval
    baseline: Interval
    difference: Interval  # PMN's grade minus the baseline's, by the same judge


@dataclass(frozen=True)
class GradeTable:
    """All rows that have questions, and how far the judges agree."""

    rows: list[GradeRow]
    alpha: dict[str, dict[Level, float | None]]  # of PMN's grades, the baseline's, and both
    lost: list[Group]  # strata of which nothing was judged


def make_table(key: Round, judged: Sequence[GradedSheet]) -> GradeTable:
    """Join what judges gave to the paper's table.

    Where a round was stratified, groups count in the row for all by their share of all questions.
    """
    group_of: dict[str, str] = {question.id: question.group for question in key.questions}
    by_group = {
        group: [one for one in judged if group_of[one.question] == group] for group in GROUPS
    }
    rows = [_row(group, some) for group, some in by_group.items() if some]
    if not key.stratified:
        return GradeTable([*rows, _row(ALL, judged)], alphas(judged), [])
    shares = {str(group): size for group, size in key.population.items()}
    lost = [group for group in GROUPS if key.population[group] and not by_group[group]]
    return GradeTable([*rows, _row(ALL, judged, group_of, shares)], alphas(judged), lost)


def _row(
    label: str,
    judged: Sequence[GradedSheet],
    strata: Mapping[str, str] | None = None,
    shares: Mapping[str, float] | None = None,
) -> GradeRow:
    """Return the row of some questions, or of all by the strata that they were drawn from."""

    def interval(value: Callable[[GradedSheet], float]) -> Interval:
        grades = [
            Grade(one.question, one.judge, strata[one.question] if strata else "", value(one))
            for one in judged
        ]
        return mean_grade(grades, shares)

    return GradeRow(
        label,
        len({one.question for one in judged}),
        len(judged),
        interval(lambda one: one.pmn),
        interval(lambda one: one.baseline),
        interval(lambda one: one.pmn - one.baseline),
    )


def alphas(judged: Iterable[GradedSheet]) -> dict[str, dict[Level, float | None]]:
    """Return Krippendorff's alpha; an explanation is a unit."""
    units: dict[str, dict[str, list[int]]] = {
        "pmn": defaultdict(list),
        "baseline": defaultdict(list),
    }
    for one in judged:
        units["pmn"][one.question].append(one.pmn)
        units["baseline"][one.question].append(one.baseline)
    pmn, baseline = list(units["pmn"].values()), list(units["baseline"].values())
    some = {"pmn": pmn, "baseline": baseline, "both": pmn + baseline}
    return {
        of: {level: krippendorff_alpha(grades, level) for level in LEVELS}
        for of, grades in some.items()
    }


def grades_by_judge(key: Round, judged: Sequence[GradedSheet]) -> list[Grades]:
    """Return each judge's means, as ``pmn-bench claims`` reads them.

    A mean over several groups counts them by their `questions`: those that the judge graded, or,
    where the round was stratified, all those that they stand for.
    """
    group_of = {question.id: question.group for question in key.questions}
    found: dict[tuple[int, Group], list[GradedSheet]] = defaultdict(list)
    for one in judged:
        found[one.judge, group_of[one.question]].append(one)
    return [
        Grades(
            judge=f"judge {judge} of round {key.digest[:8]}",
            split=key.split,
            group=group,
            questions=key.population[group] if key.stratified else len(some),
            pmn=mean(one.pmn for one in some),
            baseline=mean(one.baseline for one in some),
        )
        for (judge, group), some in sorted(found.items())
    ]


def numbers(table: GradeTable) -> dict[str, float]:
    """Return every number of the table by a name of its own."""
    found = {}
    for row in table.rows:
        found[f"{row.label}/questions"] = float(row.questions)
        for of in ("pmn", "baseline", "difference"):
            spread: Interval = getattr(row, of)
            for part, value in zip(("mean", "low", "high"), spread, strict=True):
                if value is not None:
                    found[f"{row.label}/{of}.{part}"] = value
    for of, levels in table.alpha.items():
        for level, value in levels.items():
            if value is not None:
                found[f"alpha/{of} {level}"] = value
    return found
