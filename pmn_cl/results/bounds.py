"""Floor and ceiling: what scores lie between, and the average that counts them as 0 and 1.

The floor of a task is the best constant answer. Its ceiling is the executor, which executes the
questions' programs on what a wide probe sees; a task that it does not do goes by joint training.
A mean over seeds has one unit: a task goes by the ceiling only where every seed has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum

from pmn_cl.results import scores
from pmn_cl.results.result import Bound, Result

JOINT = "hard_sharing_joint"
CEILING_MEANS = (
    "the ceiling executes the questions' programs, which no learner gets, on what a wide probe sees"
)
NORMALISED_MEANS = (
    "0 is the constant answer, 1 the ceiling, or joint training on a task that has none"
)

# By seed and data: what counts as 1 on each task.
Tops = Mapping[tuple[int, str], Mapping[str, float]]


def floor_to_ceiling(results: Iterable[Result]) -> list[Result]:
    """Return the floor first and the ceiling last, the others in their order between them."""
    places = {"floor": 0, None: 1, "ceiling": 3}
    return sorted(results, key=lambda r: places[r.bound] + (r.bound is None and not r.competes))


def with_bound(name: str, bound: Bound | None) -> str:
    """Return a name as tables show it: what is a floor or a ceiling is said to be one."""
    return f"{name} ({bound})" if bound else name


def tops(results: Iterable[Result], split: str) -> Tops:
    """Return what counts as 1 for each seed.

    It is what runs without a variant came to: those are the stream's own.
    """
    scored = [result for result in results if result.scores.get(split)]
    seeds = {_seed(result) for result in scored if result.competes}
    own = [result for result in scored if not result.variant]
    ceiling = {_seed(result): _last(result, split) for result in own if result.bound == "ceiling"}
    joint = {_seed(result): _last(result, split) for result in own if result.strategy == JOINT}
    known = {task for last in joint.values() for task in last}

    def by_ceiling(task: str) -> bool:
        return task not in known or all(task in ceiling.get(seed, {}) for seed in seeds)

    return {
        seed: joint.get(seed, {})
        | {task: score for task, score in ceiling.get(seed, {}).items() if by_ceiling(task)}
        for seed in seeds
    }


def has_top(result: Result, top: Tops) -> bool:
    """Whether there is something that counts as 1 on each of its tasks."""
    return top.get(_seed(result), {}).keys() >= {*result.tasks}


def top_of(result: Result, top: Tops) -> list[float]:
    """Return what counts as 1 on each of its tasks, where `has_top`."""
    return [top[_seed(result)][task] for task in result.tasks]


def normalised_scores(result: Result, split: str, top: Tops) -> list[float] | None:
    """Return (score - floor) / (top - floor) of each task after the whole stream; None with a gap.

    A task is a gap where there is no score, no top, or none above the floor.
    """
    if not has_top(result, top) or not result.scores.get(split):
        return None
    ones = top_of(result, top)
    shares = scores.normalised_per_task(result.matrix(split), result.constant[split], ones)
    known = [share for share in shares if share is not None]
    return known if len(known) == len(shares) else None


def normalised_average(result: Result, split: str, top: Tops) -> float | None:
    """Return the mean over tasks of the normalised scores."""
    shares = normalised_scores(result, split, top)
    return None if shares is None else fsum(shares) / len(shares)


def _seed(result: Result) -> tuple[int, str]:
    return result.seed, result.data


def _last(result: Result, split: str) -> dict[str, float]:
    """Return the last scores, of the tasks that have one above their floor."""
    rows = zip(result.tasks, result.scores[split][-1], result.constant[split], strict=True)
    return {t: s for t, s, floor in rows if s is not None and (floor is None or s > floor)}
