"""The record of faithfulness in its file, and what several runs come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.faithfulness import (
    FAITHFULNESS,
    Faithfulness,
    Measured,
    MeasureRow,
    read_faithfulness,
    summarise,
    verdict,
    write_faithfulness,
)
from pmn_cl.results.statistics import Interval


def record(
    strategy: str, seed: int, split: str = "test", weights: str = "w", **values: float
) -> Faithfulness:
    measured = Measured(
        questions=10, values=values, chance={"a": 0.25}, measured="2026-01-02T03:04:05+00:00"
    )
    run = f"{strategy}-seed{seed}"
    return Faithfulness(
        run=run, strategy=strategy, seed=seed, weights=weights, splits={split: measured}
    )


def test_a_record_is_read_back_and_other_splits_stay(tmp_path: Path) -> None:
    assert read_faithfulness(tmp_path) is None
    write_faithfulness(tmp_path, record("pmn", 0, a=0.5))
    write_faithfulness(tmp_path, record("pmn", 0, "novel", a=0.4))
    found = read_faithfulness(tmp_path)
    assert found is not None
    assert {split: some.values for split, some in found.splits.items()} == {
        "test": {"a": 0.5},
        "novel": {"a": 0.4},
    }


def test_what_was_measured_of_other_weights_goes(tmp_path: Path) -> None:
    write_faithfulness(tmp_path, record("pmn", 0, a=0.5))
    write_faithfulness(tmp_path, record("pmn", 0, "novel", "others", a=0.4))
    found = read_faithfulness(tmp_path)
    assert found is not None
    assert list(found.splits) == ["novel"]


def test_a_broken_file_is_named_and_measuring_replaces_it(tmp_path: Path) -> None:
    (tmp_path / FAITHFULNESS).write_text("{", "utf-8")
    with pytest.raises(UserError, match=r"faithfulness.json: is no record .* measures it again"):
        read_faithfulness(tmp_path)
    write_faithfulness(tmp_path, record("pmn", 0, a=0.5))
    assert json.loads((tmp_path / FAITHFULNESS).read_text("utf-8"))["seed"] == 0


def test_means_intervals_and_paired_differences_by_hand() -> None:
    records = [
        *(record("pmn", 0, a=0.6, b=1.0), record("pmn", 1, a=0.8)),
        *(record("independent", 0, a=0.5), record("independent", 1, a=0.3)),
    ]
    of_a, of_b = summarise(records, "test")
    assert (of_a.measure, of_a.chance) == ("a", 0.25)
    # Two values, 0.2 apart: half the interval is t(0.975, 1 degree) = 12.706 times 0.1.
    pmn = of_a.by_strategy["pmn"]
    assert pmn == pytest.approx((0.7, 0.7 - 1.2706, 0.7 + 1.2706), abs=1e-4)
    assert of_a.difference is not None
    assert of_a.difference.difference.mean == pytest.approx((0.1 + 0.5) / 2)
    assert of_a.difference.seeds == 2
    assert list(of_b.by_strategy) == ["pmn"]
    assert of_b.difference is None
    assert of_b.by_strategy["pmn"].low is None  # one seed has no interval


def test_a_split_that_was_not_measured_has_no_lines() -> None:
    assert summarise([record("pmn", 0, a=0.6)], "novel") == []


def test_the_verdict_says_where_it_is_better_and_where_worse_than_chance() -> None:
    def row(measure: str, chance: float | None, low: float, high: float) -> MeasureRow:
        return MeasureRow(measure, chance, {"pmn": Interval((low + high) / 2, low, high)}, None)

    lines = [
        row("attention mass", 0.25, 0.4, 0.6),
        row("pointing", 0.5, 0.45, 0.6),
        row("gate cap AUC", 0.5, 0.2, 0.4),
        row("without", None, 0.0, 1.0),
    ]
    assert verdict(lines, "pmn").split("\n  ") == [
        *("pmn:", "above chance: attention mass (2.0 times)", "as by chance: pointing"),
        "worse than chance: gate cap AUC",
    ]
    alone = [MeasureRow("pointing", 0.5, {"pmn": Interval(0.6, None, None)}, None)]
    assert verdict(alone, "pmn") == "pmn:\n  above chance: pointing\n  one seed: no interval"
    assert "nothing that has a value by chance" in verdict(alone, "independent")
