"""The closing table: what stands where."""

from __future__ import annotations

from made_results import FIELD, changed, learned, result
from rich.console import Console

from pmn_cl.results.result import REUSED, REUSED_CPU, Result, Work, leading_split
from pmn_cl.results.summary import meaning
from pmn_cl.results.table import (
    answer_table,
    closing_table,
    said_of_matching,
    said_of_reuse,
    said_of_units,
)


def lines(results: list[Result]) -> list[list[str]]:
    """Return the rows of the table, without its titles."""
    console = Console(width=200)
    with console.capture() as shown:
        console.print(closing_table(results))
    return [line.split() for line in shown.get().splitlines()[2:]]


def test_the_constant_answer_is_shown_without_a_run_of_it() -> None:
    first, *others = lines(FIELD)
    assert first == ["constant", "(floor)", "0.000", "0.200", "0.100"]
    assert [row[0] for row in others] == [r.name for r in FIELD]


def test_floor_first_and_ceiling_last() -> None:
    ceiling, floor = learned("executor", 0, 0.9, 0.9, 0.95), learned("constant", 0, 0.2, 0.2, 0.1)
    shown = lines([ceiling, *FIELD, floor])
    assert shown[0][:2] == ["constant", "(floor)"] and shown[-1][:2] == ["executor", "(ceiling)"]
    assert len(shown) == len(FIELD) + 2


def test_a_task_that_is_not_done_is_not_in_an_average() -> None:
    done = result("executor", 0, [[0.9, None], [0.9, None]])
    assert lines([done])[-1][3:6] == ["-", "0.900", "-"]


def test_results_without_test_are_shown_on_what_they_have() -> None:
    kept = [
        changed(r, scores={"val": r.scores["test"]}, constant={"val": r.constant["test"]})
        for r in FIELD
    ]
    assert lines(kept) == lines(FIELD)
    assert closing_table(kept).title == "val, after the whole stream"
    assert list(meaning(kept)) == list(meaning(FIELD))
    assert leading_split([*kept, FIELD[0]]) == "test" == leading_split([])


def test_other_data_have_another_floor() -> None:
    other = changed(learned("pmn", 0, 1, 1, 1), data="other")
    assert all("(floor)" not in row for row in lines([*FIELD, other]))
    assert lines([]) == []


def test_what_was_spent_is_what_counts_without_what_others_had_learned() -> None:
    first = learned("independent", 0, 0.5, 0.5, 0.5)  # two tasks, 2 CPU-s each
    second = changed(first, strategy="parameter_matched", details={REUSED: 1.0, REUSED_CPU: 1.5})
    assert said_of_reuse([first]) == "2 modules or tasks learned, 0 reused, 4 CPU-s"
    assert said_of_reuse([first, second]) == (
        "3 modules or tasks learned, 1 reused, 6 CPU-s spent (8 with each run counted alone)"
    )


HALF = changed(
    result("pmn", 0, [[0.55, None], [0.45, 0.5]]),
    secondary={"test": [{}, {"vqa": {"yes/no": 0.6, "number": 0.3, "accuracy": 0.5}}]},
)


def of_pmn(results: list[Result], *columns: str) -> list[str]:
    table = closing_table(results)
    found = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    return [found[name][found["strategy"].index("pmn")] for name in columns]


def test_between_floor_and_ceiling_by_hand() -> None:
    """The constant answer scores 0.2 and 0.1. A task without a ceiling goes by joint training."""
    ceiling = result("executor", 0, [[0.9, None], [0.9, 0.9]])
    without = result("executor", 0, [[0.9, None], [0.9, None]])
    joint = result("hard_sharing_joint", 0, [[0.8, 0.6]])
    other_seed = result("executor", 1, [[0.3, None], [0.3, 0.3]])
    shown = ("normalised", "forgetting")
    # (0.45 - 0.2) / 0.7 and 0.5; it was 0.5 of the way on the first task before.
    assert of_pmn([HALF, ceiling, other_seed], *shown) == ["0.429", "0.143"]
    assert of_pmn([HALF, without, joint], *shown) == ["0.579", "0.143"]  # 0.357 and 0.8
    for unknown in ([HALF, without], [HALF]):
        assert of_pmn(unknown, "average", "forgetting") == ["0.475", "0.100"]
        assert said_of_units(unknown) is None
    said = said_of_units([HALF, ceiling])
    assert said is not None and "0 is the constant answer, 1 the ceiling" in said


def test_half_way_is_said_where_it_can_be_known() -> None:
    curve = [{"step": 1, "loss": 1.0, "score": 0.3}, {"step": 2, "loss": 1.0, "score": 0.6}]
    fast = result("pmn", 0, [[0.55, None], [0.45, 0.5]], curves={"b": curve})
    slow = result("pmn", 0, [[0.55, None], [0.45, 0.5]], curves={"b": curve[:1]})
    ceiling = result("executor", 0, [[0.9, None], [0.9, 0.9]])
    assert of_pmn([fast, ceiling], "half-way CPU-s") == ["1"]  # one of two seconds was learning
    assert of_pmn([slow, ceiling], "half-way CPU-s") == ["never"]
    assert of_pmn([HALF, ceiling], "half-way CPU-s") == [""] == of_pmn([HALF], "half-way CPU-s")


def test_how_near_a_match_came_is_said_once() -> None:
    matched = [changed(HALF, seed=seed, work=Work(matched=1.004)) for seed in (0, 1)]
    far = changed(HALF, strategy="pnn", work=Work(matched=1.5))
    assert said_of_matching([*matched, far, *FIELD]) == [
        "pmn: 1.004 of the parameters of pmn",
        "pnn: 1.500 of the parameters of pmn: no width comes nearer",
    ]


def test_answers_by_type() -> None:
    table = answer_table([HALF, *FIELD])
    assert table is not None
    assert [[str(c.header), *map(str, c.cells)] for c in table.columns] == [
        *(["strategy", "pmn"], ["seed", "0"], ["yes/no", "0.600"], ["number", "0.300"])
    ]
    assert answer_table(FIELD) is None
