"""Scores by question family, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_results import result

from pmn_cl.cli.main import main
from pmn_cl.results.families.table import FLOOR, family_tables
from pmn_cl.results.result import Result, write_result

FLOORS = {"b": {"scores": {"test": {"exist": 0.5, "count": 0.14}}, "mass": {}}}


def answered(strategy: str, seed: int, exist: float, count: float, **changes: Any) -> Result:
    """A run whose second task has two question families, and first two relations."""
    first = {"m": 0.5, "relation nearest": 0.6}
    second = {"m": 0.4, "family exist": exist, "family count": count, "gate Ω": 0.7}
    given = {"secondary": {"test": [{"a": first}, {"a": first, "b": second}]}, "floors": FLOORS}
    return result(strategy, seed, [[0.5, None], [0.5, 0.4]], **{**given, **changes})


RUNS = [
    answered("executor", 0, 0.95, 0.93),
    answered("pmn", 0, 0.7, 0.5),
    answered("pmn", 1, 0.8, 0.5),
]


def test_the_tables_by_hand() -> None:
    first, second = family_tables(RUNS)
    assert (first.task, first.kind, first.families) == ("a", "relation", ["nearest"])
    assert first.floor == {} and [row[0] for row in first.rows()] == ["pmn", "executor"]
    assert (second.task, second.kind, second.families) == ("b", "family", ["exist", "count"])
    # Two seeds: t(0.975, 1) = 12.7062; standard error of 0.7 and 0.8 is 0.05.
    assert second.lines["pmn"]["exist"].mean == pytest.approx(0.75)
    assert second.lines["pmn"]["exist"].high == pytest.approx(0.75 + 12.7062 * 0.05, abs=1e-4)
    assert second.rows() == [
        [FLOOR, "0.500", "0.140"],
        ["pmn", "0.750 ± 0.635", "0.500 ± 0.000"],
        ["executor", "0.950", "0.930"],  # the ceiling
    ]


def test_what_failed_or_is_older_has_no_table() -> None:
    assert family_tables([answered("pmn", 0, 0.7, 0.5, status="failed")]) == []
    assert family_tables([answered("pmn", 0, 0.7, 0.5, secondary={})]) == []


def test_compare_shows_them_where_it_is_asked_to(tmp_path: Path) -> None:
    for one in RUNS:
        (tmp_path / one.key).mkdir()
        write_result(one, tmp_path / one.key)
    compare = ["compare", str(tmp_path)]
    assert "by family" not in CliRunner().invoke(main, compare).stdout
    shown = CliRunner().invoke(main, [*compare, "--by", "family"])
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["b", "by", "family,", "test"] in lines and ["strategy", "exist", "count"] in lines
    assert ["pmn", "0.750", "±", "0.635", "0.500", "±", "0.000"] in lines


def test_compare_says_where_there_are_none(tmp_path: Path) -> None:
    one = answered("pmn", 0, 0.7, 0.5, secondary={})
    (tmp_path / one.key).mkdir()
    write_result(one, tmp_path / one.key)
    shown = CliRunner().invoke(main, ["compare", str(tmp_path), "--by", "family"])
    assert "no scores by question family" in shown.stdout
