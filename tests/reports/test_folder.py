"""What a folder holds: read, sorted by use, named so that nothing is averaged that must not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_folder import NASTY, ablated, made, measured, nasty, plain, swept, trouble, write

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.faithfulness import FAITHFULNESS, write_faithfulness
from pmn_cl.results.result import Result
from reports.folder import Gathered, mean, mean_matrix, read_folder, told_apart

HERE = Path("runs/claims")


def gathered(*results: Result) -> Gathered:
    return Gathered(HERE, results)


def test_results_are_sorted_by_the_command_that_made_them() -> None:
    found = gathered(*ablated(), *swept(), *trouble(), *plain())
    assert len(found.results) == 35 and len(found.done) == 33
    assert len(found.field) == 12 and found.left_out == 0
    assert len(found.sweep) == 12 and len(found.ablation) == 9
    assert list(found.by_name) == ["pmn", "hard_sharing", "independent", "hard_sharing_joint"]


def test_pmn_and_its_variants_come_first() -> None:
    found = gathered(made("agem", 0, 0.5), made("pmn", 0, 0.5, variant="x"), made("pmn", 1, 0.5))
    assert list(found.looks) == ["pmn", "pmn (x)", "agem"]


@pytest.mark.parametrize(
    "other",
    [{"data": "e"}, {"budget": 10}, {"fraction": 50}, {"tasks": ["obj", "att"]}],
    ids=lambda other: next(iter(other)),
)
def test_runs_are_compared_with_those_that_have_most_in_common(other: dict[str, object]) -> None:
    odd = made("pnn", 0, 0.9, **other)
    found = gathered(odd, *plain())
    assert odd not in found.field and len(found.field) == 12
    assert found.left_out == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"scores": {}},
        {"scores": {"test": []}},
        {"scores": {"test": [[0.5, 0.5]]}},
        {"scores": {"test": [[0.5] * 6] * 3}},
        {"constant": {}},
        {"tasks": [], "metrics": []},
        {"status": "interrupted"},
        {"parameters": {"total": [], "trainable": []}},
    ],
    ids=str,
)
def test_records_that_lack_something_are_not_compared(broken: dict[str, object]) -> None:
    assert gathered(made("pmn", 0, 0.5).model_copy(update=broken)).field == []


def test_further_settings_of_a_name_get_a_variant_of_their_own() -> None:
    rate = {"lr_scale": 3.0}
    same = [made("pmn", 0, 0.5), made("pmn", 1, 0.5)]
    other = [made("pmn", 0, 0.6, options=rate), made("pmn", 1, 0.6, options=rate)]
    names = [result.name for result in told_apart([*same, *other])]
    assert names == ["pmn", "pmn", "pmn (settings 2)", "pmn (settings 2)"]
    again = [result.name for result in told_apart([*same, same[0]])]
    assert again == ["pmn", "pmn", "pmn (settings 2)"]
    comparison = gathered(*same, *other).comparison("test")
    assert comparison and [line.seeds for line in comparison.lines] == [[0, 1], [0, 1]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_no_name_has_two_settings_or_one_seed_twice(runs: list[tuple[int, int]]) -> None:
    results = [made("pmn", seed, 0.5, options={"lr_scale": rate}) for rate, seed in runs]
    told = list(told_apart(results))
    assert len({(r.name, r.seed) for r in told}) == len(results)
    for name in {r.name for r in told}:
        assert len({r.options["lr_scale"] for r in told if r.name == name}) == 1


def test_labels_are_short_and_differ() -> None:
    long = ["x" * 100 + end for end in "abc"]
    found = gathered(*(made(name, 0, 0.5) for name in long))
    labels = [found.label(name) for name in long]
    assert len(set(labels)) == 3 and max(map(len, labels)) < 50
    assert found.shortened(f"best {long[1]}.") == f"best {labels[1]}."


def test_figures_show_forty_strategies_and_say_how_many_more() -> None:
    found = gathered(*(made(f"s{n}", 0, 0.5) for n in range(42)))
    assert len(found.drawn) == 40
    assert "2 more strategies" in found.not_drawn
    assert gathered(*plain()).not_drawn == ""


def test_commands_name_stream_and_folder_as_a_shell_takes_them() -> None:
    found = Gathered(Path("my runs"), [made("pmn", 0, 0.5, stream="a'b")])
    assert found.commands("sweep") == [
        """pmn-bench sweep 'a'"'"'b.yaml' --out 'my runs'""",
        "pmn-bench report 'my runs'",
    ]


def test_means_are_none_as_soon_as_one_value_is_missing() -> None:
    found = mean([0.1, 0.2, 0.3])
    assert found is not None and found.mean == pytest.approx(0.2)
    assert found.high == pytest.approx(0.2 + 4.302653 * 0.1 / 3**0.5)  # t with 2 degrees
    assert mean([0.1, None]) is None and mean([]) is None


def test_the_mean_matrix_by_hand() -> None:
    matrix = mean_matrix([made("a", 0, 0.5, lost=0.1), made("a", 2, 0.5, lost=0.1)])
    first, last = matrix[0][0], matrix[5][0]
    assert first is not None and first.mean == pytest.approx(0.51)
    assert last is not None and last.mean == pytest.approx(0.01)
    assert matrix[0][1] is None


# --- from disk ----------------------------------------------------------------------------


def test_a_folder_is_read_with_the_folders_of_several_commands_inside(tmp_path: Path) -> None:
    write(plain(), tmp_path)
    write(swept(), tmp_path / "sweep")
    steps: list[tuple[int, int]] = []
    found = read_folder(tmp_path, lambda done, total: steps.append((done, total)))
    assert len(found.results) == 24 and not found.problems
    assert steps == [(n, 24) for n in range(1, 25)]


def test_what_cannot_be_read_is_named_and_what_is_under_way_is_counted(tmp_path: Path) -> None:
    write(plain(), tmp_path)
    for name, file in (("half", "result.json"), ("going", "journal.jsonl")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text('{"version": 1')
    (tmp_path / "judgements.json").write_text("{}")
    found = read_folder(tmp_path)
    assert len(found.results) == 12 and found.under_way == 1
    assert "half" in found.problems[0] and "judgements.json" in found.problems[1]


def test_faithfulness_is_read_where_it_is_of_what_a_run_has_learned(tmp_path: Path) -> None:
    results = [made("pmn", seed, 0.5, weights=["before", f"w{seed}"]) for seed in range(4)]
    write(results, tmp_path)
    first, older, broken, _ = results
    write_faithfulness(tmp_path / first.key, measured(first, pointing=0.5))
    before = measured(older, pointing=0.5).model_copy(update={"weights": "before"})
    write_faithfulness(tmp_path / older.key, before)
    (tmp_path / broken.key / FAITHFULNESS).write_text("{")
    found = read_folder(tmp_path)
    assert found.faithfulness == {first.key: measured(first, pointing=0.5)}
    assert len(found.results) == 4 and len(found.problems) == 1
    assert f"{broken.key}/faithfulness.json: is no record" in found.problems[0]


def test_no_folder_and_no_results_are_mistakes_that_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder of results"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no results in this folder"):
        read_folder(tmp_path)


def test_nasty_names_have_looks_like_any_other() -> None:
    found = gathered(*nasty())
    numbers = [look.number for look in found.looks.values()]
    assert numbers == list(range(numbers[0], numbers[0] + len(NASTY)))


def test_a_strategy_looks_the_same_whatever_is_beside_it() -> None:
    alone = gathered(made("hard_sharing_joint", 0, 0.5)).looks["hard_sharing_joint"]
    beside = gathered(*nasty(), made("hard_sharing_joint", 0, 0.5)).looks["hard_sharing_joint"]
    assert alone.number == beside.number and alone.marker == beside.marker
