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


def test_comparison_and_claims_count_alike() -> None:
    """Of two seeds, one with a ceiling and one with joint training alone."""
    runs = [HALF, CEILING, JOINT, changed(HALF, seed=1), changed(JOINT, seed=1)]
    by_hand = {0: 0.5, 1: (0.35 / 0.6 + 0.4 / 0.5) / 2}
    assert average("pmn").values(Evidence(runs), "test") == pytest.approx(by_hand)
    [line] = [line for line in compare(runs).lines if line.name == "pmn"]
    found = line.measures["normalised average"]
    assert found is not None and found.mean == pytest.approx(sum(by_hand.values()) / 2)
