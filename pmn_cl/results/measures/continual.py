"""What happens between the tasks: measures of scores that are taken while learning goes on.

Continual evaluation (De Lange et al., ICLR 2023): pure functions of *moments*, in their order. A
moment has a row of scores, one for each task, None where a task was not scored; its phase is the
experience that was being learned, whose last moment is the one after it. Task j is learned in
phase j. Scores are in units that can be averaged over tasks (``bounds``), T is the number of tasks.

A mean is None as soon as a task that it needs was never scored in the time that it is about.
Avalanche 0.6 has none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import NamedTuple

from pmn_cl.results.result import Row

WINDOW = 10  # evaluations
RECOVERED = 0.01  # so near to where it was a score counts as being there again


class Moment(NamedTuple):
    """The scores of all tasks at one moment of a run."""

    phase: int  # that was being learned, from 0
    step: int  # of that phase, from 1
    scores: Row


class Gap(NamedTuple):
    """How deep a task's score fell while another was learned, and how soon it was back."""

    task: int
    phase: int
    depth: float
    steps: int | None  # of the phase, from its lowest moment on; None: it never came back in it


def minimum_accuracy(moments: Sequence[Moment]) -> float | None:
    """min-ACC: mean over j < T-1 of the lowest score of j in phases after j. Higher is better."""
    return _mean(
        min((_score(m, j) for m in _known(moments, j) if m.phase > j), default=None)
        for j in range(_tasks(moments) - 1)
    )


def worst_case_accuracy(moments: Sequence[Moment]) -> float | None:
    """WC-ACC: score of the last task / T + (1 - 1/T) · min-ACC. Higher is better.

    What a learner gives at least, whenever it is asked, about all that it has learned.
    """
    count = _tasks(moments)
    last = moments[-1].scores[-1] if count else None
    lowest = minimum_accuracy(moments) if count > 1 else 0.0
    if last is None or lowest is None:
        return None
    return last / count + (1 - 1 / count) * lowest


def stability_gaps(moments: Sequence[Moment]) -> list[Gap]:
    """Return for every task and every phase after it how deep its score fell there.

    From where it stood after the phase before to the lowest moment; 0 where it never fell. Steps
    count from that moment to the first one at which the score is back to within ``RECOVERED``.
    """
    found = []
    for j in range(_tasks(moments)):
        known = _known(moments, j)
        for phase in range(j + 1, moments[-1].phase + 1):
            before = [m for m in known if m.phase == phase - 1]
            during = [m for m in known if m.phase == phase]
            if before and during:
                found.append(_gap(j, phase, _score(before[-1], j), during))
    return found


def _gap(j: int, phase: int, start: float, during: Sequence[Moment]) -> Gap:
    lowest = min(during, key=lambda m: _score(m, j))
    depth = max(0.0, start - _score(lowest, j))
    back = [m.step for m in during if m.step >= lowest.step and _score(m, j) >= start - RECOVERED]
    return Gap(j, phase, depth, back[0] - lowest.step if back else None)


def stability_gap(moments: Sequence[Moment]) -> float | None:
    """Mean over j < T-1 of the deepest fall of j within one phase. Lower is better."""
    gaps = stability_gaps(moments)
    count = _tasks(moments)
    return _mean(
        max((g.depth for g in gaps if g.task == j), default=None) for j in range(count - 1)
    )


def steps_to_recover(moments: Sequence[Moment]) -> float | None:
    """Mean over j < T-1 of the steps after its deepest fall until j was back. Lower is better.

    None as soon as one never came back within the phase in which it fell.
    """
    found, gaps = [], stability_gaps(moments)
    for j in range(_tasks(moments) - 1):
        deepest = max((g for g in gaps if g.task == j), key=lambda gap: gap.depth, default=None)
        found.append(None if deepest is None else deepest.steps)
    return _mean(found)


def windowed_forgetting(moments: Sequence[Moment], window: int = WINDOW) -> float | None:
    """WF: mean over j < T-1 of the largest fall of j within so many moments in a row.

    That is the largest a - b of scores a before b, since j was learned. Lower is better.
    """
    return _windowed(moments, window, falls=True)


def windowed_plasticity(moments: Sequence[Moment], window: int = WINDOW) -> float | None:
    """WP: mean over j of the largest rise of j within so many moments in a row, from phase j on.

    Higher is better: how fast a task can be learned.
    """
    return _windowed(moments, window, falls=False)


def _windowed(moments: Sequence[Moment], window: int, *, falls: bool) -> float | None:
    largest = []
    for j in range(_tasks(moments) - falls):
        known = _known(moments, j)
        if falls:  # a score can only be forgotten once its own phase is over
            known = [m for m in known if m.phase > j or m is _last_of(moments, j)]
        values = [_score(m, j) for m in known]
        changes = [
            a - b if falls else b - a
            for place, a in enumerate(values)
            for b in values[place + 1 : place + window]
        ]
        largest.append(max(0.0, *changes) if changes else None)
    return _mean(largest)


def average_anytime(moments: Sequence[Moment]) -> float | None:
    """Mean over phases of the mean score of the tasks seen by then, while the phase is learned.

    Average anytime accuracy (Caccia et al. 2022), where each moment stands for the steps since the
    one before: moments need not be evenly spaced. Higher is better.
    """
    by_phase = []
    for phase in range(moments[-1].phase + 1 if moments else 0):
        during = [m for m in moments if m.phase == phase]
        weights, sums, before = [], [], 0
        for moment in during:
            known = [score for score in moment.scores if score is not None]
            if known and moment.step > before:
                weights.append(moment.step - before)
                sums.append((moment.step - before) * fsum(known) / len(known))
                before = moment.step
        by_phase.append(fsum(sums) / sum(weights) if weights else None)
    return _mean(by_phase)


def _tasks(moments: Sequence[Moment]) -> int:
    return len(moments[0].scores) if moments else 0


def _known(moments: Sequence[Moment], j: int) -> list[Moment]:
    """Return the moments at which a task was scored, from the phase that it is learned in on."""
    return [m for m in moments if m.scores[j] is not None and m.phase >= j]


def _last_of(moments: Sequence[Moment], phase: int) -> Moment | None:
    return next((m for m in reversed(moments) if m.phase == phase), None)


def _score(moment: Moment, j: int) -> float:
    score = moment.scores[j]
    assert score is not None
    return score


def _mean(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return fsum(known) / len(known) if known and len(known) == len(listed) else None
