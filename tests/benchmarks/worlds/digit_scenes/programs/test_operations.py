"""Programs as text and back: all that a world wrote, all that could be written, and none else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.worlds.digit_scenes.concepts import RELATIONS
from benchmarks.worlds.digit_scenes.descriptions import PROPERTIES, VALUES, Description
from benchmarks.worlds.digit_scenes.programs.operations import (
    Arrangement,
    Count,
    Exist,
    Filter,
    Find,
    Ground,
    Majority,
    More,
    Program,
    Query,
    Relate,
    Same,
    Unique,
    Verify,
    parse,
)
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

descriptions = st.builds(
    Description, **{p: st.none() | st.integers(0, len(VALUES[p]) - 1) for p in PROPERTIES}
)
finds = st.builds(Find, descriptions)
relates = st.builds(Relate, st.integers(0, len(RELATIONS) - 1), st.builds(Unique, finds))
uniques = st.builds(Unique, finds | relates)
props = st.sampled_from(PROPERTIES)
programs = st.one_of(
    st.builds(Exist, finds | st.builds(Filter, descriptions, relates)),
    props.flatmap(
        lambda p: st.builds(Verify, st.just(p), st.integers(0, len(VALUES[p]) - 1), uniques)
    ),
    st.builds(Same, props, uniques, uniques),
    st.builds(More, finds, finds),
    st.builds(Count, finds | relates),
    st.builds(Query, props, uniques),
    st.builds(Majority, props),
    st.just(Arrangement()),
    st.just(Ground()),
)


@given(programs)
def test_what_is_written_is_read_again(program: Program) -> None:
    assert parse(str(program)) == program


def test_every_program_of_a_world_is_read_and_written_again(digits: Store) -> None:
    for split in digits.splits:
        for task in ("cnt", "vqa"):
            texts = [t.decode() for t in digits.table(split, task)["program"].load().tolist()]
            assert [str(parse(text)) for text in texts] == texts


def test_a_program_by_hand() -> None:
    large_seven = Description(size=1, digit=7)
    of_seven = Relate(RELATIONS.index("same colour"), Unique(Find(large_seven)))
    text = "query(texture, unique(relate(same colour, unique(large seven))))"
    assert parse(text) == Query("texture", Unique(of_seven))
    assert parse("exist(find(dotted orange symbol))") == Exist(
        Find(Description(texture=2, colour=5))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected name"),
        ("count(find(red symbol)", "expected name"),
        ("guess(find(red symbol))", "'guess.*expected a question"),
        ("count(red symbol)", "'red symbol', expected name"),
        ("count(find(red symbol), find(seven))", "expected a question"),
        ("count(find(red red symbol))", "expected a description"),
        ("count(find(pink symbol))", "'pink symbol', expected a description"),
        ("count(relate(beside, unique(seven)))", "'beside', expected one of left, right"),
        ("count(relate(left, find(seven)))", r"expected unique\("),
        ("verify(colour, large, unique(seven))", "'large', expected one of red, green"),
        ("query(shape, unique(seven))", "'shape', expected one of size"),
    ],
)
def test_what_is_no_program_is_refused(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        parse(text)
