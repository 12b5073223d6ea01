"""All measures of a run by name. A measure is one function: this file is the only place to name it.

    @measure("lowest task", "the lowest final score of any task")
    def lowest(run: Scored) -> float | None:
        return min(run.final) if run.final else None

One of your own stands in a file of yours, which a stream names (``measures: [my_file:lowest]``);
`compare --measures`, the report and MLflow then have it, too. Scores are shares between floor and
ceiling (``bounds``), so that tasks can be averaged; None says that a run has not what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Literal

from pmn_cl import registry
from pmn_cl.config.spec import PROBE
from pmn_cl.errors import UserError
from pmn_cl.results import scores
from pmn_cl.results.bounds import JOINT, Tops, has_top, top_of, tops
from pmn_cl.results.measures import continual, emergence
from pmn_cl.results.measures.continual import Moment
from pmn_cl.results.result import INSIDE_DIGITS, Result, Row
from pmn_cl.results.scores import Values

Better = Literal["higher", "lower"]
SCRATCH = "independent"


@dataclass(frozen=True)
class Scored:
    """A completed run on a split, with all that it is measured against."""

    result: Result
    split: str
    top: Tops  # what counts as 1 on the split
    top_of_probe: Tops
    scratch: Result | None = None  # each task learned alone, with the same seed
    joint: Result | None = None  # all at once

    @cached_property
    def matrix(self) -> list[Row]:
        """Return R as shares: 0 is the constant answer, 1 the ceiling; empty where that is unknown.

        Joint training has its last row alone.
        """
        return shares_of(self.result, self.result.matrix(self.split), self.split, self.top)

    @property
    def final(self) -> list[float]:
        """Return the shares after the whole stream; empty where one is missing."""
        last = self.matrix[-1] if self.matrix else []
        known = [share for share in last if share is not None]
        return known if len(known) == len(last) else []

    @cached_property
    def moments(self) -> list[Moment]:
        """Return the shares at all moments, on the probe; empty where nothing was scored inside."""
        result, after = self.result, self.result.scores.get(PROBE, [])
        if len(after) < len(result.tasks) or not result.inside.step:
            return []
        raw = raw_moments(result)
        rows = shares_of(result, [m.scores for m in raw], PROBE, self.top_of_probe)
        return [m._replace(scores=row) for m, row in zip(raw, rows, strict=True)] if rows else []

    def alone(self) -> Values | None:
        """Return the shares of tasks that were learned alone, where they were."""
        if self.scratch is None:
            return None
        matrix = shares_of(self.scratch, self.scratch.matrix(self.split), self.split, self.top)
        return [matrix[j][j] for j in range(len(matrix))] if matrix else None

    def at_once(self) -> Values | None:
        """Return the shares of joint training, where it was run."""
        if self.joint is None:
            return None
        matrix = shares_of(self.joint, self.joint.matrix(self.split), self.split, self.top)
        return matrix[-1] if matrix else None


def shares_of(result: Result, rows: Sequence[Row], split: str, top: Tops) -> list[Row]:
    """Return rows of scores as shares between floor and ceiling; none where a unit is missing."""
    floor = result.constant.get(split, [])
    if not has_top(result, top) or len(floor) != len(result.tasks):
        return []
    return scores.shares(rows, floor, top_of(result, top)) if rows else []


def raw_moments(result: Result) -> list[Moment]:
    """Return what the probe came to at all moments of a run, in the tasks' own units."""
    inside, found = result.inside, []
    for phase, row in enumerate(result.scores.get(PROBE, [])):
        columns = zip(inside.phase, inside.step, inside.scores, strict=True)
        during = [Moment(at, step, scored) for at, step, scored in columns if at == phase]
        # As those inside are kept: a score that stays the same must not seem to move.
        ended = [None if score is None else round(score, INSIDE_DIGITS) for score in row]
        found += [*during, Moment(phase, steps_of(result, phase), ended)]
    return _filled(found)


def _filled(moments: Sequence[Moment]) -> list[Moment]:
    """Give tasks that were not scored at a moment the score they had before.

    So it is of modules that another run has learned: what is below them is frozen.
    """
    found: list[Moment] = []
    last: Row = [None] * (len(moments[0].scores) if moments else 0)
    for moment in moments:
        last = [old if new is None else new for old, new in zip(last, moment.scores, strict=True)]
        found.append(moment._replace(scores=last))
    return found


def steps_of(result: Result, phase: int) -> int:
    """Return how many steps a phase took, as far as its record says."""
    rows = result.scores.get(PROBE, [])
    at_once = len(rows) == 1 < len(result.tasks) and None not in rows[0]
    learned = result.tasks if at_once else result.tasks[phase : phase + 1]
    ends = [result.curves[task][-1].step for task in learned if result.curves.get(task)]
    inside = zip(result.inside.phase, result.inside.step, strict=True)
    return max([1, *ends, *(step for at, step in inside if at == phase)])


def in_context(results: Iterable[Result], split: str) -> list[Scored]:
    """Return the completed runs of a split, each with those of its seed that it is measured by."""
    done = [r for r in results if r.status == "completed" and r.scores.get(split)]
    top, of_probe = tops(done, split), tops(done, PROBE)
    known = {(r.strategy, r.seed, r.data): r for r in done if not r.variant}
    return [
        Scored(
            *(result, split, top, of_probe),
            scratch=known.get((SCRATCH, result.seed, result.data)),
            joint=known.get((JOINT, result.seed, result.data)),
        )
        for result in done
    ]


# --- naming them -------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A function of a run, with what tables say of it."""

    name: str
    says: str
    better: Better
    of: Callable[[Scored], float | None]

    def __call__(self, run: Scored) -> float | None:
        """Return what a run comes to; a mistake in a function is said with the measure's name."""
        try:
            found = self.of(run)
            return None if found is None else float(found)
        except Exception as error:
            raise UserError(
                f"the measure {self.name!r}: {type(error).__name__}: {error}"
            ) from error


def measure(
    name: str, says: str, better: Better = "higher"
) -> Callable[[Callable[[Scored], float | None]], Measure]:
    """Make a function a measure with a name, a line that says what it is, and its direction."""
    return lambda function: Measure(name, says, better, function)


def known_measures(results: Iterable[Result]) -> list[Measure]:
    """Return all measures: those of pmn-bench, then those that the results' streams name."""
    named = dict.fromkeys(name for result in results for name in result.run.stream.measures)
    if named:
        registry.search_last(Path())
    return [*CATALOGUE, *(load_measure(name) for name in named)]


def load_measure(reference: str) -> Measure:
    """Return the measure that ``module:name`` refers to."""
    found = registry.load(reference)
    if not isinstance(found, Measure):
        raise UserError(
            f"measures: {reference} is no measure; put @measure(name, what it says) from "
            f"{__name__} above the function"
        )
    return found


# --- what there is -----------------------------------------------------------------------


@measure("normalised average", "after the whole stream, mean over tasks")
def _average(run: Scored) -> float | None:
    return fsum(run.final) / len(run.final) if run.final else None


@measure("learning accuracy", "each task right after it was learned, mean over tasks")
def _learning_accuracy(run: Scored) -> float | None:
    return scores.learning_accuracy(run.matrix) if run.matrix else None


@measure("forgetting", "max − last, mean over earlier tasks", "lower")
def _forgetting(run: Scored) -> float | None:
    return scores.forgetting(run.matrix) if run.matrix else None


@measure("forgetting, first − last", "right after learning − last, as in Avalanche", "lower")
def _first_last(run: Scored) -> float | None:
    return scores.forgetting_first_last(run.matrix) if run.matrix else None


@measure("forgetting (CLiMB)", "percent of what was learned above the constant answer", "lower")
def _climb_forgetting(run: Scored) -> float | None:
    nothing = [0.0] * len(run.result.tasks)
    return scores.climb_forgetting(run.matrix, nothing) if run.matrix else None


@measure("backward transfer", "last − right after learning, mean over earlier tasks")
def _backward(run: Scored) -> float | None:
    return scores.backward_transfer(run.matrix) if run.matrix else None


@measure("forward transfer", "before a task is learned, over the constant answer")
def _forward(run: Scored) -> float | None:
    nothing = [0.0] * len(run.result.tasks)
    return scores.forward_transfer(run.matrix, nothing) if run.matrix else None


@measure("transfer over scratch", "right after learning, over the task learned alone")
def _over_scratch(run: Scored) -> float | None:
    alone = run.alone()
    return scores.transfer_over_scratch(run.matrix, alone) if run.matrix and alone else None


@measure("knowledge transfer (CLiMB)", "that in percent of what was learned alone")
def _climb_transfer(run: Scored) -> float | None:
    alone, nothing = run.alone(), [0.0] * len(run.result.tasks)
    if not run.matrix or alone is None:
        return None
    return scores.climb_knowledge_transfer(run.matrix, alone, nothing)


@measure("intransigence", "joint training over right after learning, mean over tasks", "lower")
def _intransigence(run: Scored) -> float | None:
    best = run.at_once()
    return scores.intransigence(run.matrix, best) if run.matrix and best is not None else None


@measure("learning curve", "area under validation curves, mean over tasks")
def _curve(run: Scored) -> float | None:
    if not has_top(run.result, run.top):
        return None
    areas = [
        emergence.area(run.result.curves.get(task, []), floor or 0.0, one)
        for task, floor, one in zip(
            *(run.result.tasks, run.result.constant[run.split]),
            top_of(run.result, run.top),
            strict=True,
        )
    ]
    known = [area for area in areas if area is not None]
    return fsum(known) / len(known) if known and len(known) == len(areas) else None


@measure("time to competence", "CPU-s until the last task is half-way to its ceiling", "lower")
def _competence(run: Scored) -> float | None:
    if not has_top(run.result, run.top):
        return None
    task, floor = run.result.tasks[-1], run.result.constant[run.split][-1]
    found = emergence.reached(run.result, task, floor or 0.0, top_of(run.result, run.top)[-1])
    return None if found is None else found.cpu_seconds


def _inside(
    name: str,
    says: str,
    function: Callable[[Sequence[Moment]], float | None],
    better: Better = "higher",
) -> Measure:
    """Return a measure of what happens inside tasks."""
    return Measure(
        *(name, f"{says}, on the probe", better),
        lambda run: function(run.moments) if run.moments else None,
    )


NORMALISED_AVERAGE, FORGETTING, TIME_TO_COMPETENCE = _average, _forgetting, _competence
CATALOGUE: tuple[Measure, ...] = (
    *(NORMALISED_AVERAGE, _learning_accuracy),
    *(FORGETTING, _first_last, _climb_forgetting, _backward),
    *(_forward, _over_scratch, _climb_transfer, _intransigence),
    *(_curve, TIME_TO_COMPETENCE),
    _inside(
        "min-ACC",
        "lowest score while later tasks are learned, mean over earlier tasks",
        continual.minimum_accuracy,
    ),
    _inside(
        "WC-ACC", "that and the last task's score, each task alike", continual.worst_case_accuracy
    ),
    _inside(
        "stability gap",
        "deepest fall within one later task, mean over earlier tasks",
        continual.stability_gap,
        "lower",
    ),
    _inside(
        "steps to recover",
        "from there to within 0.01 of where it was, mean over earlier tasks",
        continual.steps_to_recover,
        "lower",
    ),
    _inside(
        "windowed forgetting",
        f"largest fall within {continual.WINDOW} evaluations, mean over earlier tasks",
        continual.windowed_forgetting,
        "lower",
    ),
    _inside(
        "windowed plasticity",
        f"largest rise within {continual.WINDOW} evaluations, mean over tasks",
        continual.windowed_plasticity,
    ),
    _inside(
        "average anytime", "of the tasks seen so far, mean over time", continual.average_anytime
    ),
)
