"""Which families were not learned: the rule, by hand, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from made_results import result

from pmn_cl.results.families.at_floor import at_floor, families_at_floor, said_at_floor
from pmn_cl.results.result import Epoch, Result

HALF = {"same": 0.5}


def curve(*scores: float, every: int = 10) -> list[Epoch]:
    """Validations of one family after every so many steps."""
    return [
        Epoch(step=every * n, loss=1.0, score=0.6, families={"same": score}, mass={"same": 0.12})
        for n, score in enumerate(scores, start=1)
    ]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((0.50, 0.51, 0.53), True),
        ((0.50, 0.51, 0.54), False),  # above it by more than three points in the end
        ((0.50, 0.54, 0.50), False),  # on the way
        ((0.60, 0.51, 0.50), False),  # the first of three ends a third of training
        ((0.60, 0.51, 0.50, 0.50), True),  # the first of four is before that
        ((0.30, 0.20, 0.10), True),  # worse than the constant is no better
        ((0.50,), True),
    ],
)
def test_the_rule(scores: tuple[float, ...], expected: bool) -> None:
    assert families_at_floor(curve(*scores), HALF) == (["same"] if expected else [])


def test_nothing_is_said_of_what_was_not_seen() -> None:
    assert families_at_floor([], HALF) == []
    assert families_at_floor(curve(0.5), {}) == []
    some = [Epoch(step=10, loss=1.0, score=0.5), *curve(0.5)]
    assert families_at_floor([some[0]], HALF) == []


def run(*scores: float, test: float = 0.5, later: float = 0.5, **changes: Any) -> Result:
    """A run whose first task has a family with these validations."""
    floors = {"a": {"scores": {"val": HALF, "test": {"same": 0.48}}, "mass": {"same": 0.31}}}
    rows = [{"a": {"family same": score}} for score in (test, later)]
    given = {"floors": floors, "secondary": {"test": rows}, "curves": {"a": curve(*scores)}}
    return result("pmn", 0, [[0.5, None], [0.5, 0.4]], **{**given, **changes})


def test_a_family_at_its_floor_is_said_with_what_attention_does() -> None:
    [line] = said_at_floor([run(0.5, 0.5, 0.51)])
    assert line == (
        "pmn, seed 0: a family 'same' is at its floor (0.51; constant 0.50): "
        "attention on what it asks about 0.12, uniform 0.31"
    )


def test_what_test_shows_to_be_learned_is_not_said_nor_what_was_forgotten_later() -> None:
    assert at_floor(run(0.5, test=0.52), "a") == []  # 0.48 and three points: 0.51
    assert at_floor(run(0.5, 0.9, test=0.9, later=0.48), "a") == []
    [found] = at_floor(run(0.5, test=0.51, later=0.9), "a")
    assert found.family == "same"


def test_older_records_and_runs_without_attention() -> None:
    assert list(said_at_floor([run(0.5, floors={}), run(0.5, curves={})])) == []
    blind = [epoch.model_copy(update={"mass": {}}) for epoch in curve(0.5)]
    [line] = said_at_floor([run(curves={"a": blind})])
    assert line.endswith("is at its floor (0.50; constant 0.50)")


def test_what_is_worse_than_the_constant_is_said_to_be_below() -> None:
    [line] = said_at_floor([run(0.46)])
    assert "is below its floor (0.46; constant 0.50)" in line


def test_a_relation_is_called_so() -> None:
    rows = [{"a": {"relation same": 0.5}}]
    [line] = said_at_floor([run(0.5, secondary={"test": rows})])
    assert "a relation 'same' is at its floor" in line


def test_many_lines_end_in_how_many_more_there_are() -> None:
    lines = list(said_at_floor([run(0.5)] * 15))
    assert len(lines) == 13 and lines[-1].startswith("… and 3 more: `pmn-bench report`")
    assert len(list(said_at_floor([run(0.5)] * 15, None))) == 15


def test_many_families_of_a_task_share_a_line() -> None:
    names = ("exist", "verify", "same", "more")
    seen = {"families": dict.fromkeys(names, 0.51), "mass": dict.fromkeys(names[1:], 0.2)}
    epoch = Epoch(step=10, loss=1.0, score=0.5, **seen)
    floor = {"val": dict.fromkeys(names, 0.5)}
    floors = {"a": {"scores": floor, "mass": dict.fromkeys(names[1:], 0.3)}}
    [line] = said_at_floor([run(curves={"a": [epoch]}, floors=floors, secondary={})])
    assert line.startswith("pmn, seed 0: a has 4 families at their floor or below, each with its")
    assert line.endswith(
        "exist 0.51 (0.50), verify 0.51 (0.50; 0.20, 0.30), "
        "same 0.51 (0.50; 0.20, 0.30), more 0.51 (0.50; 0.20, 0.30)"
    )
