"""What counts as 0 and as 1: by hand. The constant answer scores 0.2 and 0.1 in these results."""

from __future__ import annotations

import pytest
from made_results import changed, result

from pmn_cl.claims.evidence import Evidence, average
from pmn_cl.results.bounds import has_top, normalised_average, tops
from pmn_cl.results.compare import compare

HALF = result("pmn", 0, [[0.55, None], [0.55, 0.5]])
CEILING = result("executor", 0, [[0.9, None], [0.9, 0.9]])
OF_ONE = result("executor", 0, [[0.9, None], [0.9, None]])
JOINT = result("hard_sharing_joint", 0, [[0.8, 0.6]])


def test_the_ceiling_is_1_and_joint_training_where_there_is_none() -> None:
    for order in ([CEILING, JOINT], [JOINT, CEILING]):
        top = tops([HALF, *order], "test")
        assert normalised_average(HALF, "test", top) == pytest.approx((0.5 + 0.5) / 2)
    top = tops([JOINT, OF_ONE], "test")
    assert normalised_average(HALF, "test", top) == pytest.approx((0.35 / 0.7 + 0.4 / 0.5) / 2)
    top = tops([JOINT], "test")
    assert normalised_average(HALF, "test", top) == pytest.approx((0.35 / 0.6 + 0.4 / 0.5) / 2)


def test_a_task_without_a_top_leaves_no_average() -> None:
    for there in ([], [OF_ONE], [changed(CEILING, seed=1)], [changed(CEILING, data="other")]):
        top = tops([HALF, *there], "test")
        assert not has_top(HALF, top)
        assert normalised_average(HALF, "test", top) is None
    assert normalised_average(HALF, "novel", tops([CEILING], "novel")) is None


def test_programs_on_modules_are_no_ceiling() -> None:
    modules = changed(CEILING, options={"probe": "modules"})
    assert not has_top(HALF, tops([HALF, modules], "test"))


def test_a_mean_over_seeds_has_one_unit() -> None:
    """A ceiling for one seed of two: both go by joint training; without that, one has a share."""
    other, its_joint = changed(HALF, seed=1), changed(JOINT, seed=1)
    top = tops([HALF, other, CEILING, JOINT, its_joint], "test")
    by_joint = (0.35 / 0.6 + 0.4 / 0.5) / 2
    assert normalised_average(HALF, "test", top) == pytest.approx(by_joint)
    assert normalised_average(other, "test", top) == pytest.approx(by_joint)
    top = tops([HALF, other, CEILING], "test")
    assert normalised_average(HALF, "test", top) == pytest.approx(0.5)
    assert normalised_average(other, "test", top) is None


def test_a_variant_is_no_reference() -> None:
    weak = changed(JOINT, variant="weak", scores={"test": [[0.3, 0.2]]})
    tuned = changed(CEILING, variant="tuned", scores={"test": [[1.0, None], [1.0, 1.0]]})
    for some in ([weak, tuned, JOINT, CEILING], [JOINT, CEILING, weak, tuned]):
        assert normalised_average(HALF, "test", tops([HALF, *some], "test")) == pytest.approx(0.5)
    assert not has_top(HALF, tops([HALF, weak, tuned], "test"))


def test_a_ceiling_below_the_floor_is_none() -> None:
    low = result("executor", 0, [[0.9, None], [0.9, 0.1]])
    top = tops([HALF, JOINT, low], "test")
    assert normalised_average(HALF, "test", top) == pytest.approx((0.35 / 0.7 + 0.4 / 0.5) / 2)


@pytest.mark.parametrize("ceilings", [0, 1, 2])
def test_comparison_and_claims_count_alike(ceilings: int) -> None:
    runs = [
        changed(run, seed=seed)
        for seed in (0, 1)
        for run in (HALF, JOINT, *([CEILING] if seed < ceilings else []))
    ]
    expected = 0.5 if ceilings == 2 else (0.35 / 0.6 + 0.4 / 0.5) / 2
    claimed = average("pmn", False).values(Evidence(runs), "test")
    assert claimed == pytest.approx({0: expected, 1: expected})
    [line] = [line for line in compare(runs).lines if line.name == "pmn"]
    found = line.measures["normalised average"]
    assert found is not None and found.mean == pytest.approx(expected)
