"""Fractions: exact, nested, stratified, the same for everybody."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.data.samples import Samples, choose_fraction
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.objects import ObjectTask

PAPER = (1, 5, 10, 25, 50, 100)
kinds = st.lists(st.integers(0, 3), min_size=1, max_size=400).map(np.array)


@given(kinds, st.floats(1, 100), st.integers(0, 5))
def test_a_fraction_is_an_exact_count_of_distinct_samples(
    kinds: np.ndarray, percent: float, seed: int
) -> None:
    chosen = choose_fraction(kinds, percent, seed)
    assert len(chosen) == max(1, round(len(kinds) * percent / 100))
    assert len(set(chosen.tolist())) == len(chosen)
    assert chosen.tolist() == sorted(chosen.tolist())


@given(kinds, st.integers(0, 5))
def test_smaller_fractions_are_part_of_larger_ones(kinds: np.ndarray, seed: int) -> None:
    chosen = [set(choose_fraction(kinds, percent, seed).tolist()) for percent in PAPER]
    for smaller, larger in pairwise(chosen):
        assert smaller <= larger
    assert chosen[-1] == set(range(len(kinds)))


@given(kinds, st.floats(1, 100), st.integers(0, 5))
def test_every_kind_keeps_its_share_to_within_about_one_sample(
    kinds: np.ndarray, percent: float, seed: int
) -> None:
    chosen = choose_fraction(kinds, percent, seed)
    share = len(chosen) / len(kinds)
    kept, known = Counter(kinds[chosen].tolist()), Counter(kinds.tolist())
    # Up to any standing t, a kind of m has m·t ± ½ samples, so that n in k kinds have n·t ± k/2.
    for kind, count in known.items():
        bound = 0.5 + count * len(known) / (2 * len(kinds))
        assert abs(kept[kind] - share * count) <= bound + 1e-9


def test_the_seed_alone_decides() -> None:
    kinds = np.arange(1000) % 3
    assert (choose_fraction(kinds, 10, 7) == choose_fraction(kinds, 10, 7)).all()
    assert (choose_fraction(kinds, 10, 7) != choose_fraction(kinds, 10, 8)).any()


def test_a_small_kind_is_not_lost_in_a_middling_fraction() -> None:
    kinds = np.array([0] * 980 + [1] * 20)
    assert Counter(kinds[choose_fraction(kinds, 5, 0)].tolist()) == {0: 49, 1: 1}


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_an_impossible_fraction_is_refused(percent: float) -> None:
    with pytest.raises(UserError, match="fraction"):
        choose_fraction(np.zeros(10), percent, 0)


def test_samples_read_the_columns_of_their_rows(digits: Store) -> None:
    whole = Samples.whole(digits, "train", AnswerTask())
    tenth = whole.fraction(10, seed=3)
    assert len(whole) == 3000
    assert len(tenth) == 300
    assert (tenth.columns["scene"] == whole.columns["scene"][tenth.rows]).all()
    shares = [Counter(samples.columns["kind"].tolist()) for samples in (whole, tenth)]
    for kind, count in shares[0].items():
        assert abs(shares[1][kind] - count / 10) <= 1


def test_a_column_named_like_what_every_batch_has_is_refused(digits: Store) -> None:
    class Misfit(ObjectTask):
        target = ("label", "task")

    with pytest.raises(UserError, match="names a column task, which every batch has"):
        Samples.whole(digits, "train", Misfit())


def test_a_table_without_the_tasks_columns_is_refused(digits: Store) -> None:
    class Misfit(ObjectTask):
        target = ("label", "flavour")

    with pytest.raises(UserError, match="flavour"):
        Samples.whole(digits, "train", Misfit())


def test_samples_to_be_added_need_every_column_of_the_table(digits: Store) -> None:
    whole = Samples.whole(digits, "train", ObjectTask())
    two = {name: column[:2] for name, column in whole.columns.items()}
    both = whole.adding(two)
    assert len(both) == 302
    assert both.columns["scene"].tolist() == [*range(300), 0, 1]
    assert len(both.fraction(50, seed=0)) == 151
    del two["asked"]
    with pytest.raises(UserError, match=r"'obj' lack asked; .* every column of train/obj"):
        whole.adding(two)
