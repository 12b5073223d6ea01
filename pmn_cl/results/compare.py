"""Strategies side by side, from results alone: means over seeds, intervals, paired differences.

Raw averages mix units (accuracy, mAP, CIDEr-D); the normalised average (``bounds``) does not: it
leads the table and strategies are compared by it where it is known of all. ``stat`` says how
normalised scores of all seeds and tasks become one number: their mean, or their interquartile mean.
The floor stands first and the ceiling last; neither is tested against others. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal

from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.results import formats, scores
from pmn_cl.results.bounds import (
    CEILING_MEANS,
    Tops,
    floor_to_ceiling,
    normalised_scores,
    tops,
    with_bound,
)
from pmn_cl.results.formats import Format
from pmn_cl.results.measures.catalogue import FORGETTING, in_context
from pmn_cl.results.result import Bound, Result
from pmn_cl.results.statistics import (
    Interval,
    Paired,
    as_bracketed,
    as_plus_minus,
    bootstrapped,
    holm,
    interquartile_mean,
    interval,
    optimality_gap,
    paired,
    probability_of_improvement,
)

SCRATCH = "independent"
Stat = Literal["mean", "iqm"]
NORMALISED, NORMALISED_FORGETTING = "normalised average", "normalised forgetting"
TOLD = "told [b, r] of"
IQM, GAP, BETTER = "normalised IQM", "optimality gap", "P(better)"
_SINGLE = "one seed: no interval"


@dataclass(frozen=True)
class StrategyRow:
    """A strategy over its seeds."""

    name: str
    seeds: list[int]
    tasks: dict[str, Interval | None]  # after the whole stream
    measures: dict[str, Interval | None]
    parameters: int
    cpu_seconds: float
    below_constant: list[str]  # tasks that were not above it right after they were learned
    against: Paired | None  # the reference, by what the table compares
    p: float | None  # of that, corrected over the table
    bound: Bound | None = None
    better: float | None = None  # how probably a seed of it is above one of the reference
    shares: Sequence[Sequence[float]] = ()  # normalised scores by seed and task
    told: str = ""  # of which tasks' questions it was told [b, r]


@dataclass(frozen=True)
class Comparison:
    """A table of strategies on one split."""

    split: str
    tasks: list[str]
    constant: list[float | None]
    reference: str | None
    lines: list[StrategyRow]
    stat: Stat = "mean"
    compared: str = "average"  # by what strategies are compared


def of_streams(results: Sequence[Result]) -> list[Result]:
    """Leave out the runs of sweeps and ablations, which have tables of their own."""
    return [result for result in results if result.run.study == "run"]


def compare(
    results: Sequence[Result],
    *,
    split: str = "test",
    reference: str | None = None,
    stat: Stat = "mean",
) -> Comparison:
    """Return the strategies of completed runs: floor, others as they first come, ceiling."""
    done = floor_to_ceiling(result for result in results if result.status == "completed")
    if not done:
        raise UserError("no run is completed: nothing to compare")
    if any(r.tasks != done[0].tasks or r.data != done[0].data for r in done):
        raise UserError("the results are of different streams or data, and cannot be compared")
    groups: dict[str, list[Result]] = {}
    for result in done:
        groups.setdefault(result.name, []).append(result)
    for name, some in groups.items():
        if len({r.seed for r in some}) < len(some) or len({r.settings for r in some}) > 1:
            raise UserError(
                f"{name!r} was run with several settings here (options, fraction, budget or "
                "tasks): they cannot be averaged; give each a variant, or a folder of its own"
            )
    if len({(r.fraction, r.budget) for r in done}) > 1:
        raise UserError("the results have different fractions or budgets, and cannot be compared")
    if reference is not None and reference not in groups:
        known = ", ".join(groups)
        raise UserError(f"no runs of {reference!r}, only {known}{did_you_mean(reference, groups)}")
    top = tops(done, split)
    shares = {name: _shares(some, split, top) for name, some in groups.items()}
    competing = [name for name, some in groups.items() if some[0].competes]
    all_known = all(len(shares[name]) == len(groups[name]) for name in competing)
    if stat == "iqm" and not all_known:
        raise UserError(
            "--stat iqm is of normalised scores, which need what counts as 1 on every task: run "
            "executor and hard_sharing_joint, too"
        )
    values = {
        name: {seed: fsum(own) / len(own) for seed, own in shares[name].items()}
        if all_known
        else _averages(some, split)
        for name, some in groups.items()
    }
    theirs = values[reference] if reference is not None else {}
    pairs = {
        name: paired(values[name], theirs) if name != reference and name in competing else None
        for name in groups
    }
    known_p = [pair.p if pair is not None else None for pair in pairs.values()]
    corrected = dict(zip(groups, holm(known_p), strict=True))
    base = [*shares[reference].values()] if reference is not None else []
    units = {run.result.key: run for run in in_context(done, split)}
    lines = []
    for name, some in groups.items():
        # A seed without a unit on some task leaves a gap: a mean over fewer seeds is another one.
        own = [*shares[name].values()] if len(shares[name]) == len(some) else []
        line = _line(name, some, split, groups, own, pairs[name], corrected[name], stat)
        line.measures[NORMALISED_FORGETTING] = _interval([FORGETTING(units[r.key]) for r in some])
        if all_known and pairs[name] is not None:
            line = replace(line, better=probability_of_improvement(own, base))
        lines.append(line)
    compared = NORMALISED if all_known else "average"
    constant = done[0].constant[split]
    return Comparison(split, done[0].tasks, constant, reference, lines, stat, compared)


def _shares(some: Sequence[Result], split: str, top: Tops) -> dict[int, list[float]]:
    """Return normalised scores by seed, of the seeds that have one on every task."""
    found = {result.seed: normalised_scores(result, split, top) for result in some}
    return {seed: own for seed, own in found.items() if own is not None}


def _averages(some: Sequence[Result], split: str) -> dict[int, float]:
    found = {result.seed: result.summary(split)["average"] for result in some}
    return {seed: value for seed, value in found.items() if value is not None}


def _line(
    name: str,
    some: Sequence[Result],
    split: str,
    groups: dict[str, list[Result]],
    shares: list[list[float]],
    against: Paired | None,
    p: float | None,
    stat: Stat,
) -> StrategyRow:
    first = some[0]
    last = {task: _interval([r.final(split, task) for r in some]) for task in first.tasks}
    measures = {
        measure: _interval([r.summary(split)[measure] for r in some])
        for measure in ("average", "forgetting", "bwt", "fwt")
    }
    averages = [fsum(own) / len(own) for own in shares]
    measures[NORMALISED] = interval(averages) if averages else None
    if stat == "iqm":
        measures[IQM] = bootstrapped(interquartile_mean, shares) if shares else None
        measures[GAP] = bootstrapped(optimality_gap, shares) if shares else None
    scratch = {r.seed: _diagonal(r, split) for r in groups.get(SCRATCH, [])}
    measures["transfer over scratch"] = _interval(
        [
            scores.transfer_over_scratch(r.matrix(split), scratch[r.seed])
            for r in some
            if r.seed in scratch and len(r.scores[split]) == len(r.tasks)
        ]
    )
    return StrategyRow(
        name,
        sorted(r.seed for r in some),
        last,
        measures,
        first.parameters["total"][-1],
        sum(sum(c.cpu_seconds for c in r.costs) for r in some) / len(some),
        _not_above_constant(some, split),
        against,
        p,
        first.bound,
        shares=shares,
        told=", ".join(first.told_of),
    )


def _diagonal(result: Result, split: str) -> list[float | None]:
    return [row[j] for j, row in enumerate(result.matrix(split))]


def _not_above_constant(some: Sequence[Result], split: str) -> list[str]:
    """Return the tasks whose mean right after learning is not above the constant answer."""
    if some[0].bound == "floor":
        return []
    found = []
    for j, task in enumerate(some[0].tasks):
        rows = [r.scores[split] for r in some]
        fresh = [row[min(j, len(row) - 1)][j] for row in rows]
        values = [value for value in fresh if value is not None]
        floor = some[0].constant[split][j]
        if values and floor is not None and sum(values) / len(values) <= floor:
            found.append(task)
    return found


def _interval(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return interval(known) if known and len(known) == len(values) else None


# --- as text -----------------------------------------------------------------------------

_LOWER = (GAP, "forgetting", NORMALISED_FORGETTING)  # is better

# Columns that a narrow screen does without, the first of them first.
LEAST = (
    *("parameters", "CPU-s", "transfer over scratch"),
    *(NORMALISED_FORGETTING, "forgetting", "seeds"),
)


def _headline(comparison: Comparison) -> tuple[str, ...]:
    """Return what leads the table: the raw average only where there is no better one."""
    return (IQM, GAP) if comparison.stat == "iqm" else (comparison.compared,)


def _other_measures(comparison: Comparison) -> tuple[str, ...]:
    known = comparison.compared == NORMALISED
    return (NORMALISED_FORGETTING if known else "forgetting", "transfer over scratch")


def columns(comparison: Comparison) -> list[str]:
    """Return the titles of the table."""
    against = [f"over {comparison.reference}", "p"] if comparison.reference else []
    if against and comparison.stat == "iqm":
        against.append(BETTER)
    told = [TOLD] if _some_are_told(comparison) else []
    return [
        *("strategy", "seeds", *told, *_headline(comparison), *comparison.tasks),
        *(*_other_measures(comparison), *against),
        *("parameters", "CPU-s", "not above the constant"),
    ]


def _some_are_told(comparison: Comparison) -> bool:
    """Whether some strategies are told [b, r] and others not: those differ in information, too."""
    return len({line.told for line in comparison.lines if line.bound is None}) > 1


def rows(comparison: Comparison) -> list[list[str]]:
    """Return the table: the constant answer first, then a row for each strategy."""
    return [cells for _, cells in named_rows(comparison)]


def named_rows(comparison: Comparison) -> list[tuple[str | None, list[str]]]:
    """Return the rows of the table with the strategies they are of: none is of the constant answer.

    That has a row of its own only where no run gives it.
    """
    lines = [(line.name, _row(comparison, line)) for line in comparison.lines]
    if any(line.bound == "floor" for line in comparison.lines):
        return [*lines]
    told = [""] if _some_are_told(comparison) else []
    floor = [with_bound("constant answer", "floor"), "", *told]
    floor += [""] * len(_headline(comparison))
    floor += [_number(value) for value in comparison.constant]
    floor += [""] * (len(columns(comparison)) - len(floor))
    return [(None, floor), *lines]


def _row(comparison: Comparison, line: StrategyRow) -> list[str]:
    against = []
    if comparison.reference:
        pair = line.against
        against = ["" if pair is None else as_plus_minus(pair.difference, "+.3f"), _number(line.p)]
        if comparison.stat == "iqm":
            against.append(_number(line.better))
    return [
        with_bound(line.name, line.bound),
        str(len(line.seeds)),
        *_told(comparison, line),
        *(_measured(line, measure) for measure in _headline(comparison)),
        *(as_plus_minus(found) for found in line.tasks.values()),
        *(_measured(line, measure) for measure in _other_measures(comparison)),
        *against,
        f"{line.parameters:,}",
        f"{line.cpu_seconds:.0f}",
        ", ".join(line.below_constant),
    ]


def _told(comparison: Comparison, line: StrategyRow) -> list[str]:
    if not _some_are_told(comparison):
        return []
    return ["" if line.bound else line.told or "-"]


def _measured(line: StrategyRow, measure: str) -> str:
    found = line.measures[measure]
    if found is not None and measure in (IQM, GAP):
        return as_bracketed(found)  # a bootstrap's interval has no middle
    return as_plus_minus(found)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def note(comparison: Comparison) -> str:
    """Return what has to be said below the table."""
    said = f"{comparison.split} split; mean ± half of the 95% interval over seeds (Student's t)"
    if all(len(line.seeds) == 1 for line in comparison.lines):
        said = f"{comparison.split} split; {_SINGLE}, and no claim"
    if comparison.reference:
        said += (
            f"; differences of the {comparison.compared} to {comparison.reference!r} are paired by "
            "seed, their p-values corrected by Holm's method over this table"
        )
    if comparison.stat == "iqm":
        said += (
            "; the IQM is the mean of the middle half of all normalised scores, the optimality gap "
            "how far they are below 1, both over seeds and tasks with intervals by the stratified "
            "bootstrap"
        )
        if comparison.reference:
            said += f"; {BETTER}: how probably a seed is above one of the reference, over tasks"
    if _some_are_told(comparison):
        said += "; between those that are told [b, r] and others, differences are of that, too"
    if any(line.bound == "ceiling" for line in comparison.lines):
        said += f"; {CEILING_MEANS}"
    return said


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a record for each number of the table: what it is, its direction, how sure."""
    floor = [
        _record(comparison, "constant answer", "floor", task, "higher", Interval(value, None, None))
        for task, value in zip(comparison.tasks, comparison.constant, strict=True)
        if value is not None and not any(line.bound == "floor" for line in comparison.lines)
    ]
    return [*floor, *(record for line in comparison.lines for record in _records(comparison, line))]


def _records(comparison: Comparison, line: StrategyRow) -> Iterator[dict[str, Any]]:
    of_tasks = {task: ("higher", found) for task, found in line.tasks.items()}
    of_runs = {
        measure: ("lower" if measure in _LOWER else "higher", found)
        for measure, found in line.measures.items()
    }
    of_size = {
        name: ("lower", Interval(float(value), None, None))
        for name, value in (("parameters", line.parameters), ("CPU-s", line.cpu_seconds))
    }
    for metric, (better, found) in {**of_tasks, **of_runs, **of_size}.items():
        if found is not None:
            yield _record(comparison, line.name, line.bound, metric, better, found, line)


def _record(
    comparison: Comparison,
    strategy: str,
    bound: str | None,
    metric: str,
    better: str,
    found: Interval,
    line: StrategyRow | None = None,
) -> dict[str, Any]:
    against = line.against if line is not None and metric == comparison.compared else None
    difference = against.difference if against is not None else Interval(0.0, None, None)
    return {
        **{"strategy": strategy, "bound": bound, "split": comparison.split},
        "told": line.told if line is not None else None,
        **{"metric": metric, "better": better, "seeds": len(line.seeds) if line else None},
        "mean": found.mean,
        "plus_minus": None if metric in (IQM, GAP) else _half(found),
        **{"low": found.low, "high": found.high},
        "over": comparison.reference if against is not None else None,
        "difference": difference.mean if against is not None else None,
        "difference_plus_minus": _half(difference),
        "common_seeds": against.seeds if against is not None else None,
        "p": against.p if against is not None else None,
        "holm": line.p if line is not None and against is not None else None,
    }


def _half(found: Interval) -> float | None:
    """Return half of an interval that has its mean in the middle."""
    return None if found.high is None else found.high - found.mean


def as_text(comparison: Comparison, form: Format) -> str:
    """Return the table in a form for documents or programs."""
    if form == "json":
        said = {"split": comparison.split, "compared": comparison.compared}
        return formats.as_json({**said, "note": note(comparison), "records": records(comparison)})
    if form == "csv":
        return formats.as_csv(records(comparison))
    titles, table = columns(comparison), rows(comparison)
    if form == "tex":
        return f"{formats.as_latex(titles, table)}% {note(comparison)}\n"
    return f"{formats.as_markdown(titles, table)}\n{note(comparison)}\n"
