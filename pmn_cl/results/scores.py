"""What a stream of scores says: pure functions of the score matrix R.

R[i][j] is the primary metric of task j on test after experience i, higher is better; rows and
columns follow the stream, and an entry that was not measured is None or nan. T is the number
of tasks, j counts from 0. Not for single tasks (`metrics`) nor for statistics over seeds.

One rule for gaps: a mean is None as soon as one entry that it needs is missing. It is never
taken over fewer tasks in silence, and never 0. Joint training, which has only a last row, has
a final average and nothing that compares two rows. The functions named `*_per_task` return one
value per task, None where there is none, so that the gap can be seen.

Tasks have different units (accuracy, mAP, CIDEr-D). Raw means mix them; `normalised_average`
and the two `climb_*` measures do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Values: TypeAlias = Sequence[float | None] | Floats
Matrix: TypeAlias = Sequence[Sequence[float | None]] | Floats
PerTask: TypeAlias = list[float | None]

# --- levels ------------------------------------------------------------------------------


def final_average(matrix: Matrix) -> float | None:
    """Mean over j of R[T-1][j] (Lopez-Paz & Ranzato 2017). Higher is better."""
    return _mean(_square(matrix)[-1])


def learning_accuracy(matrix: Matrix) -> float | None:
    """Mean over j of R[j][j], each task just after it was learned (Riemer et al. 2019).

    Higher is better. It says nothing of forgetting.
    """
    return _mean(np.diagonal(_square(matrix)))


def normalised_per_task(matrix: Matrix, chance: Values, joint: Values) -> PerTask:
    """Per task (R[T-1][j] - b_j) / (J_j - b_j): 0 is the constant answer, 1 the best known.

    b_j is the constant answer's score, J_j the ceiling's, or the joint model's (``bounds``). Higher
    is better. None where that does not beat the constant answer: there is then no unit.
    """
    r, b, top = _with_values(matrix, chance=chance, joint=joint)
    return shares(r[-1:], b, top)[0]


def shares(rows: Matrix, floor: Values, top: Values) -> list[PerTask]:
    """Of each row (score - floor) / (top - floor) per task.

    None without a score, or where the top is not above the floor.
    """
    r, b, one = (np.asarray(values, dtype=np.float64) for values in (rows, floor, top))
    part = r - b
    return [_listed(row) for row in _share(part, np.broadcast_to(one - b, part.shape))]


def normalised_average(matrix: Matrix, chance: Values, joint: Values) -> float | None:
    """Mean over j of (R[T-1][j] - b_j) / (J_j - b_j), see `normalised_per_task`.

    Higher is better. The average to use over tasks with different units.
    """
    return _mean(normalised_per_task(matrix, chance, joint))


# --- what later tasks do to earlier ones -------------------------------------------------


def forgetting_per_task(matrix: Matrix) -> PerTask:
    """Max over j <= l < T-1 of R[l][j], minus R[T-1][j] (after Chaudhry et al. 2018).

    Lower is better; negative where the last score is the best. The last task has none. The paper
    also looks at rows l < j; what was not yet learned cannot be forgotten, so they are left out.
    """
    r = _square(matrix)
    last = len(r) - 1
    best = np.array([r[j:last, j].max() for j in range(last)])  # a nan on the way stays nan
    return _listed(best - r[-1, :last], length=len(r))


def forgetting(matrix: Matrix) -> float | None:
    """Mean over j < T-1 of (max over j <= l < T-1 of R[l][j]) - R[T-1][j].

    After Chaudhry et al. 2018, see `forgetting_per_task`; max - last. Lower is better.
    """
    return _mean(forgetting_per_task(matrix)[:-1])


def forgetting_first_last_per_task(matrix: Matrix) -> PerTask:
    """R[j][j] - R[T-1][j], what Avalanche calls forgetting. Lower is better.

    The last task has none.
    """
    r = _square(matrix)
    return _listed((np.diagonal(r) - r[-1])[:-1], length=len(r))


def forgetting_first_last(matrix: Matrix) -> float | None:
    """Mean over j < T-1 of R[j][j] - R[T-1][j]; first - last, as in Avalanche.

    Lower is better. Equal to minus the backward transfer, and never above `forgetting`.
    """
    return _mean(forgetting_first_last_per_task(matrix)[:-1])


def backward_transfer_per_task(matrix: Matrix) -> PerTask:
    """R[T-1][j] - R[j][j] (Lopez-Paz & Ranzato 2017). Higher is better.

    The last task has none.
    """
    r = _square(matrix)
    return _listed((r[-1] - np.diagonal(r))[:-1], length=len(r))


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT: mean over j < T-1 of R[T-1][j] - R[j][j] (Lopez-Paz & Ranzato 2017).

    Higher is better; below 0 is forgetting. Other libraries average over all pairs of rows.
    """
    return _mean(backward_transfer_per_task(matrix)[:-1])


def climb_forgetting_per_task(
    matrix: Matrix, chance: Values, *, after: int | None = None
) -> PerTask:
    """100 (R[j][j] - R[i][j]) / (R[j][j] - b_j) for j < i = `after` (Srinivasan et al. 2022).

    In percent of what was learned above the constant answer b_j: 100 is all forgotten. Lower is
    better. `after` is an experience, the last one by default; tasks from it on have none, nor
    has a task that never beat the constant answer.
    """
    r, b = _with_values(matrix, chance=chance)
    i = _experience(after, len(r))
    learned = np.diagonal(r)
    return _listed(100 * _share(learned - r[i], learned - b)[:i], length=len(r))


def climb_forgetting(matrix: Matrix, chance: Values, *, after: int | None = None) -> float | None:
    """Mean over j < i = `after` of 100 (R[j][j] - R[i][j]) / (R[j][j] - b_j), in percent.

    Srinivasan et al. 2022 (CLiMB), see `climb_forgetting_per_task`. Lower is better.
    """
    values = climb_forgetting_per_task(matrix, chance, after=after)
    return _mean(values[: _experience(after, len(values))])


# --- what earlier tasks do for later ones ------------------------------------------------


def forward_transfer_per_task(matrix: Matrix, chance: Values) -> PerTask:
    """R[j-1][j] - b_j, the score before learning above the constant answer's b_j.

    Lopez-Paz & Ranzato 2017. Higher is better. The first task has none; None also where the
    method cannot answer a task that it has not learned.
    """
    r, b = _with_values(matrix, chance=chance)
    return [None, *_listed(np.diagonal(r, offset=1) - b[1:])]


def forward_transfer(matrix: Matrix, chance: Values) -> float | None:
    """FWT: mean over j > 0 of R[j-1][j] - b_j (Lopez-Paz & Ranzato 2017). Higher is better."""
    return _mean(forward_transfer_per_task(matrix, chance)[1:])


def transfer_over_scratch_per_task(matrix: Matrix, scratch: Values) -> PerTask:
    """R[j][j] - S_j, S_j the score of task j learned alone. Higher is better.

    The numerator of CLiMB's knowledge transfer (Srinivasan et al. 2022), in the task's unit.
    """
    r, s = _with_values(matrix, scratch=scratch)
    return _listed(np.diagonal(r) - s)


def transfer_over_scratch(matrix: Matrix, scratch: Values) -> float | None:
    """Mean over j of R[j][j] - S_j, S_j the score of task j learned alone. Higher is better."""
    return _mean(transfer_over_scratch_per_task(matrix, scratch))


def climb_knowledge_transfer_per_task(matrix: Matrix, scratch: Values, chance: Values) -> PerTask:
    """100 (R[j][j] - S_j) / (S_j - b_j), in percent (Srinivasan et al. 2022, CLiMB).

    S_j is the score of task j learned alone, b_j the constant answer's. Higher is better. None
    where the task learned alone does not beat the constant answer.
    """
    r, s, b = _with_values(matrix, scratch=scratch, chance=chance)
    return _listed(100 * _share(np.diagonal(r) - s, s - b))


def climb_knowledge_transfer(matrix: Matrix, scratch: Values, chance: Values) -> float | None:
    """Mean over j of 100 (R[j][j] - S_j) / (S_j - b_j), in percent. Higher is better.

    Srinivasan et al. 2022 (CLiMB), see `climb_knowledge_transfer_per_task`.
    """
    return _mean(climb_knowledge_transfer_per_task(matrix, scratch, chance))


def intransigence_per_task(matrix: Matrix, joint: Values) -> PerTask:
    """J_j - R[j][j], J_j the joint model's score (after Chaudhry et al. 2018). Lower is better.

    The paper trains one joint model per j, on the tasks up to j; here it is one on all tasks.
    """
    r, top = _with_values(matrix, joint=joint)
    return _listed(top - np.diagonal(r))


def intransigence(matrix: Matrix, joint: Values) -> float | None:
    """Mean over j of J_j - R[j][j], how far learning stays behind joint training.

    After Chaudhry et al. 2018, see `intransigence_per_task`. Lower is better.
    """
    return _mean(intransigence_per_task(matrix, joint))


# --- how fast a task is learned ----------------------------------------------------------


def learning_curve_area(curve: Values, x: Sequence[float] | Floats | None = None) -> float | None:
    """Mean height of a learning curve Z_0..Z_B; in the unit of the score. Higher is better.

    Without `x`: LCA_B = 1 / (B + 1) * sum over b of Z_b, Z_b the score after b mini-batches, Z_0
    before the first (Chaudhry et al. 2019, A-GEM). With `x`, increasing (samples seen, or shares
    of the data): the trapezoid area of Z over x divided by x_B - x_0, so that points may lie
    unevenly and the unit of x does not matter. None where a point of the curve is missing.
    """
    z = np.asarray(curve, dtype=np.float64)
    if z.ndim != 1 or z.size == 0:
        raise ValueError(f"a learning curve is a list of at least one score, not shape {z.shape}")
    if x is None:
        return _mean(z)
    at = np.asarray(x, dtype=np.float64)
    if at.shape != z.shape or z.size < 2 or not (np.diff(at) > 0).all():
        raise ValueError(
            f"x must increase strictly and match the curve, at least two points; x is {at.tolist()}"
            f" for a curve of {z.size}"
        )
    area = float(np.sum(np.diff(at) * (z[1:] + z[:-1]) / 2) / (at[-1] - at[0]))
    return None if np.isnan(area) else area


# --- shared ------------------------------------------------------------------------------


def _square(matrix: Matrix) -> Floats:
    try:
        r = np.asarray(matrix, dtype=np.float64)  # None becomes nan
    except ValueError as error:
        raise ValueError("the rows of a score matrix must have the same length") from error
    if r.ndim != 2 or r.shape[0] != r.shape[1] or r.size == 0:
        raise ValueError(
            f"a score matrix has a row per experience and as many tasks, not shape {r.shape};"
            " rows that were not measured are filled with None"
        )
    return r


def _with_values(matrix: Matrix, **values: Values) -> list[Floats]:
    r = _square(matrix)
    arrays = [np.asarray(value, dtype=np.float64) for value in values.values()]
    for name, array in zip(values, arrays, strict=True):
        if array.shape != (len(r),):
            raise ValueError(
                f"{name} must hold one score for each of the {len(r)} tasks,"
                f" not shape {array.shape}"
            )
    return [r, *arrays]


def _experience(after: int | None, length: int) -> int:
    if after is None:
        return length - 1
    if not 0 <= after < length:
        raise ValueError(f"after is {after}, but the experiences are 0 to {length - 1}")
    return after


def _share(part: Floats, whole: Floats) -> Floats:
    # A whole of 0 or less is no unit: dividing by it would turn a gain into a loss.
    shares = np.full(part.shape, np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def _listed(values: Floats, *, length: int = 0) -> PerTask:
    listed: PerTask = [None if np.isnan(value) else float(value) for value in values]
    return listed + [None] * (length - len(listed))


def _mean(values: Values) -> float | None:
    array = np.asarray(values, dtype=np.float64)
    return None if array.size == 0 or np.isnan(array).any() else float(array.mean())
