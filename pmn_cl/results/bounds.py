"""Floor and ceiling: what scores lie between, and the average that counts them as 0 and 1.

The floor of a task is the best constant answer. Its ceiling is the executor, which executes the
questions' programs on what a wide probe sees; a task that it does not do goes by joint training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """Return what counts as 1 by the same seed: the ceiling, else joint training."""
    found: dict[tuple[int, str], dict[str, float]] = {}
    known = [r for r in results if r.scores.get(split) and (r.bound == "ceiling" or _joint(r))]
    for result in sorted(known, key=_joint):  # the ceiling comes first, and stays
        last = zip(result.tasks, result.scores[split][-1], strict=True)
        known_here = found.setdefault((result.seed, result.data), {})
        for task, score in last:
            if score is not None:
                known_here.setdefault(task, score)
    return found


def has_top(result: Result, top: Tops) -> bool:
    """Whether there is something that counts as 1 on each of its tasks."""
    return top.get((result.seed, result.data), {}).keys() >= {*result.tasks}


def normalised_average(result: Result, split: str, top: Tops) -> float | None:
    """Return the mean over tasks of (score - floor) / (top - floor) after the whole stream."""
    if not has_top(result, top) or not result.scores.get(split):
        return None
    mine = top[result.seed, result.data]
    ones = [mine[task] for task in result.tasks]
    return scores.normalised_average(result.matrix(split), result.constant[split], ones)


def _joint(result: Result) -> bool:
    return result.strategy == JOINT
