"""Measures on the score matrix against written-out calculations and Avalanche's metrics."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmn_cl.results import scores

quick = settings(deadline=None, max_examples=60)

# The example of this file. Task 0 rises to 0.9 before it falls to 0.6.
R = [
    [0.8, 0.2, 0.1],
    [0.9, 0.7, 0.3],
    [0.6, 0.5, 0.9],
]
CHANCE = [0.3, 0.1, 0.1]
SCRATCH = [0.8, 0.6, 0.6]
JOINT = [0.9, 0.9, 0.9]
# Joint training is measured once, at the end.
JOINT_RUN = [[None] * 3, [None] * 3, JOINT]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (scores.final_average(R), (0.6 + 0.5 + 0.9) / 3),
        (scores.learning_accuracy(R), (0.8 + 0.7 + 0.9) / 3),
        (scores.forgetting(R), ((0.9 - 0.6) + (0.7 - 0.5)) / 2),  # 0.25
        (scores.forgetting_first_last(R), ((0.8 - 0.6) + (0.7 - 0.5)) / 2),  # 0.20
        (scores.backward_transfer(R), ((0.6 - 0.8) + (0.5 - 0.7)) / 2),
        (scores.forward_transfer(R, CHANCE), ((0.2 - 0.1) + (0.3 - 0.1)) / 2),
        (scores.transfer_over_scratch(R, SCRATCH), (0.0 + 0.1 + 0.3) / 3),
        (scores.intransigence(R, JOINT), (0.1 + 0.2 + 0.0) / 3),
        (
            scores.climb_knowledge_transfer(R, SCRATCH, CHANCE),
            100 * (0.0 / 0.5 + 0.1 / 0.5 + 0.3 / 0.5) / 3,
        ),
        (scores.climb_forgetting(R, CHANCE), 100 * (0.2 / 0.5 + 0.2 / 0.6) / 2),
        (scores.climb_forgetting(R, CHANCE, after=1), 100 * (0.8 - 0.9) / (0.8 - 0.3)),
        (scores.normalised_average(R, CHANCE, JOINT), (0.3 / 0.6 + 0.4 / 0.8 + 0.8 / 0.8) / 3),
    ],
)
def test_means_by_hand(value: float, expected: float) -> None:
    assert value == pytest.approx(expected, abs=1e-12)
    assert type(value) is float


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (scores.forgetting_per_task(R), [0.3, 0.2, None]),
        (scores.forgetting_first_last_per_task(R), [0.2, 0.2, None]),
        (scores.backward_transfer_per_task(R), [-0.2, -0.2, None]),
        (scores.forward_transfer_per_task(R, CHANCE), [None, 0.1, 0.2]),
        (scores.transfer_over_scratch_per_task(R, SCRATCH), [0.0, 0.1, 0.3]),
        (scores.intransigence_per_task(R, JOINT), [0.1, 0.2, 0.0]),
        (scores.climb_knowledge_transfer_per_task(R, SCRATCH, CHANCE), [0.0, 20.0, 60.0]),
        (scores.climb_forgetting_per_task(R, CHANCE), [40.0, 100 / 3, None]),
        (scores.climb_forgetting_per_task(R, CHANCE, after=1), [-20.0, None, None]),
        (scores.normalised_per_task(R, CHANCE, JOINT), [0.5, 0.5, 1.0]),
    ],
)
def test_per_task_by_hand(values: scores.PerTask, expected: scores.PerTask) -> None:
    assert [v is None for v in values] == [e is None for e in expected]
    assert [v for v in values if v is not None] == pytest.approx(
        [e for e in expected if e is not None], abs=1e-12
    )


def test_joint_training_has_an_average_and_no_comparison_of_rows() -> None:
    assert scores.final_average(JOINT_RUN) == pytest.approx(0.9)
    assert scores.normalised_average(JOINT_RUN, CHANCE, JOINT) == pytest.approx(1)
    assert scores.learning_accuracy(JOINT_RUN) is None
    assert scores.forgetting(JOINT_RUN) is None
    assert scores.forgetting_first_last(JOINT_RUN) is None
    assert scores.backward_transfer(JOINT_RUN) is None
    assert scores.forward_transfer(JOINT_RUN, CHANCE) is None
    assert scores.climb_forgetting(JOINT_RUN, CHANCE) is None


def test_a_missing_entry_makes_the_mean_none_and_shows_per_task() -> None:
    no_zero_shot = [[0.8, None, None], [0.9, 0.7, None], [0.6, 0.5, 0.9]]
    assert scores.forward_transfer(no_zero_shot, CHANCE) is None
    assert scores.forgetting(no_zero_shot) == scores.forgetting(R)
    assert scores.backward_transfer(np.array(no_zero_shot, float)) == scores.backward_transfer(R)

    partly = [[0.8, 0.2, None], *R[1:]]
    assert scores.forward_transfer(partly, CHANCE) == scores.forward_transfer(R, CHANCE)

    hole = [R[0], [None, 0.7, 0.3], R[2]]  # the best score of task 0 may have been here
    assert scores.forgetting(hole) is None
    assert scores.forgetting_per_task(hole) == [None, pytest.approx(0.2), None]
    assert scores.forgetting_first_last(hole) == scores.forgetting_first_last(R)

    unknown = [0.9, None, 0.9]
    assert scores.intransigence(R, unknown) is None
    assert scores.intransigence_per_task(R, unknown) == [pytest.approx(0.1), None, 0.0]


def test_forgetting_is_negative_where_the_last_score_is_the_best() -> None:
    # Task 0 goes 0.5, 0.4, 0.7: the maximum before the end is 0.5, so -0.2 is forgotten.
    improving = [[0.5, 0.0, 0.0], [0.4, 0.6, 0.0], [0.7, 0.6, 0.8]]
    assert scores.forgetting_per_task(improving)[:-1] == pytest.approx([-0.2, 0.0])
    assert scores.forgetting(improving) == pytest.approx(-0.1)


def test_one_task_has_nothing_to_forget() -> None:
    assert scores.final_average([[0.5]]) == 0.5
    assert scores.learning_accuracy([[0.5]]) == 0.5
    assert scores.forgetting([[0.5]]) is None
    assert scores.backward_transfer([[0.5]]) is None
    assert scores.forward_transfer([[0.5]], [0.1]) is None
    assert scores.climb_forgetting([[0.5]], [0.1]) is None
    assert scores.forgetting_per_task([[0.5]]) == [None]
    assert scores.forward_transfer_per_task([[0.5]], [0.1]) == [None]


def test_no_unit_where_nothing_beats_the_constant_answer() -> None:
    for constant in (0.6, 0.65):  # task 1 learned alone reaches 0.6: as good, and worse
        chance = [0.3, constant, 0.1]
        per_task = scores.climb_knowledge_transfer_per_task(R, SCRATCH, chance)
        assert [v is None for v in per_task] == [False, True, False]
        assert scores.climb_knowledge_transfer(R, SCRATCH, chance) is None
    assert scores.normalised_average(R, JOINT, JOINT) is None
    assert scores.climb_forgetting(R, [0.8, 0.1, 0.1]) is None


# --- laws --------------------------------------------------------------------------------


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(2, 6))
    values = st.lists(st.integers(0, 64), min_size=size * size, max_size=size * size)
    return np.array(draw(values)).reshape(size, size) / 64  # exact in binary


@given(matrices())
@quick
def test_laws_of_forgetting_and_transfer(matrix: np.ndarray) -> None:
    first_last = scores.forgetting_first_last(matrix)
    forgotten, backward = scores.forgetting(matrix), scores.backward_transfer(matrix)
    assert first_last is not None and forgotten is not None and backward is not None
    assert backward == -first_last
    assert forgotten >= first_last
    learned, final = scores.learning_accuracy(matrix), scores.final_average(matrix)
    n = len(matrix)
    assert learned is not None and final is not None
    # What is left is what was learned, changed by the backward transfer of all but the last.
    assert final == pytest.approx(learned + backward * (n - 1) / n, abs=1e-12)
    # Against itself as joint model, a run is at 1 wherever it beats the constant answer.
    below = matrix[-1] - 1
    assert scores.normalised_average(matrix, below, matrix[-1]) == pytest.approx(1)


@given(matrices(), st.floats(0.1, 10), st.floats(-5, 5))
@quick
def test_normalised_measures_do_not_depend_on_the_unit(
    matrix: np.ndarray, scale: float, shift: float
) -> None:
    n = len(matrix)
    chance, scratch, joint = np.full(n, -0.5), np.full(n, 0.75), np.full(n, 1.25)

    def unit(values: np.ndarray) -> np.ndarray:
        return values * scale + shift

    assert scores.normalised_average(unit(matrix), unit(chance), unit(joint)) == pytest.approx(
        scores.normalised_average(matrix, chance, joint), abs=1e-9
    )
    assert scores.climb_knowledge_transfer(
        unit(matrix), unit(scratch), unit(chance)
    ) == pytest.approx(scores.climb_knowledge_transfer(matrix, scratch, chance), abs=1e-7)
    assert scores.climb_forgetting(unit(matrix), unit(chance)) == pytest.approx(
        scores.climb_forgetting(matrix, chance), abs=1e-7
    )


# --- Avalanche ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def avalanche_metric() -> Callable[[str, np.ndarray], dict[int, float]]:
    """Run one of Avalanche's standalone metrics over a matrix, row by row."""
    pytest.importorskip("torch")
    from pmn_cl.strategy.avalanche import import_avalanche

    import_avalanche()
    from avalanche.evaluation.metrics import forgetting_bwt

    def run(name: str, matrix: np.ndarray) -> dict[int, float]:
        metric = getattr(forgetting_bwt, name)()
        for experience, row in enumerate(matrix):
            for task in range(experience + 1):
                metric.update(task, float(row[task]), initial=task == experience)
        return metric.result()

    return run


@pytest.mark.parametrize("seed", range(5))
def test_first_minus_last_and_bwt_equal_avalanche(
    seed: int, avalanche_metric: Callable[[str, np.ndarray], dict[int, float]]
) -> None:
    matrix = np.random.default_rng(seed).random((seed + 2, seed + 2))
    theirs = avalanche_metric("Forgetting", matrix)
    assert sorted(theirs) == list(range(len(matrix) - 1))
    assert scores.forgetting_first_last(matrix) == pytest.approx(np.mean(list(theirs.values())))
    assert scores.forgetting_first_last_per_task(matrix)[:-1] == pytest.approx(
        [theirs[task] for task in sorted(theirs)]
    )
    bwt = avalanche_metric("BWT", matrix)
    assert scores.backward_transfer(matrix) == pytest.approx(np.mean(list(bwt.values())))


def test_max_minus_last_is_not_what_avalanche_calls_forgetting(
    avalanche_metric: Callable[[str, np.ndarray], dict[int, float]],
) -> None:
    # Task 0 goes 0.8, 0.9, 0.6: first - last is 0.2, max - last 0.3.
    theirs = avalanche_metric("Forgetting", np.array(R))
    assert theirs == pytest.approx({0: 0.2, 1: 0.2})
    assert scores.forgetting_per_task(R)[:-1] == pytest.approx([0.3, 0.2])


# --- learning curves ---------------------------------------------------------------------


def test_learning_curve_area_by_hand() -> None:
    assert scores.learning_curve_area([0.1, 0.5, 0.9]) == pytest.approx(1.5 / 3)
    assert scores.learning_curve_area([0.4]) == pytest.approx(0.4)
    # Trapezoids 10 * 0.3 and 90 * 0.7 over a width of 100.
    area = scores.learning_curve_area([0.1, 0.5, 0.9], x=[20, 30, 120])
    assert area == pytest.approx((10 * 0.3 + 90 * 0.7) / 100)
    assert scores.learning_curve_area([0.1, None, 0.9]) is None
    assert scores.learning_curve_area([0.1, None, 0.9], x=[0, 10, 100]) is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0.01, 100))
@quick
def test_learning_curve_area_lies_within_the_curve(curve: list[float], unit: float) -> None:
    x = np.arange(len(curve)) ** 2 * 1.0
    area = scores.learning_curve_area(curve, x)
    assert area is not None
    assert min(curve) - 1e-9 <= area <= max(curve) + 1e-9
    assert scores.learning_curve_area(curve, x * unit) == pytest.approx(area, abs=1e-9)


# --- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scores.final_average([[0.1, 0.2]]), r"shape \(1, 2\)"),
        (lambda: scores.final_average([]), "row per experience"),
        (lambda: scores.forgetting([[0.1], [0.2, 0.3]]), "same length"),
        (lambda: scores.forward_transfer(R, [0.1]), r"chance must .* 3 tasks, not shape \(1,\)"),
        (lambda: scores.intransigence(R, [0.1] * 4), "joint must hold"),
        (lambda: scores.climb_forgetting(R, CHANCE, after=3), "after is 3, .* 0 to 2"),
        (lambda: scores.climb_forgetting(R, CHANCE, after=-1), "after is -1"),
        (lambda: scores.learning_curve_area([]), "at least one score"),
        (lambda: scores.learning_curve_area([0.1, 0.2], x=[1, 1]), "increase strictly"),
        (lambda: scores.learning_curve_area([0.1, 0.2], x=[1, 2, 3]), "match the curve"),
        (lambda: scores.learning_curve_area([0.1], x=[1]), "at least two points"),
    ],
)
def test_refusals_say_what_came(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_scores_import_only_numpy_and_the_standard_library() -> None:
    tree = ast.parse(Path(scores.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "numpy" in imported
    assert imported - {"numpy"} <= set(sys.stdlib_module_names)
