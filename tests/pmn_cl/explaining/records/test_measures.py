"""Measures of faithfulness on attention and gates made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from pmn_cl.explaining.records import measures

ATTENTION = np.array([[0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.5, 0.0]])
ABOUT = np.array([[True, False, True, False], [True, True, False, False]])
MASK = np.array([[True, True, True, False], [True, True, True, True]])


def test_the_most_attended_region_is_one_that_is_asked_about() -> None:
    assert measures.points_at(ATTENTION, ABOUT).tolist() == [True, False]


def test_what_was_asked_is_that_of_the_widest_step() -> None:
    gate = np.array([[0.1, 0.9], [0.6, 0.4]])
    values = np.arange(2 * 2 * 3).reshape(2, 2, 3)
    assert measures.at_widest(values, gate).tolist() == [[3, 4, 5], [6, 7, 8]]


@given(
    arrays(float, 20, elements=st.sampled_from([0.0, 0.1, 0.2, 0.3])),
    arrays(bool, 20).filter(lambda marks: 0 < marks.sum() < 20),
)
def test_auc_is_that_of_scikit_learn(values: np.ndarray, positive: np.ndarray) -> None:
    assert measures.auc(values, positive) == pytest.approx(roc_auc_score(positive, values))


def test_auc_needs_both_kinds() -> None:
    assert measures.auc(np.array([0.1, 0.2]), np.array([True, True])) is None


def test_half_of_the_attention_by_hand() -> None:
    assert measures.half_of(ATTENTION).tolist() == [
        [True, False, False, False],
        [False, False, True, False],  # exactly a half is enough
    ]
    spread = np.array([[0.4, 0.3, 0.2, 0.1]])
    assert measures.half_of(spread).tolist() == [[True, True, False, False]]


weights = arrays(float, (3, 6), elements=st.floats(0.01, 1))


@given(weights)
def test_half_of_the_attention_is_enough_and_not_one_region_more(attention: np.ndarray) -> None:
    marks = measures.half_of(attention)
    for shares, marked in zip(attention, marks, strict=True):
        half = shares.sum() / 2
        assert shares[marked].sum() >= half - 1e-9
        assert shares[marked].sum() - shares[marked].min() < half + 1e-9
        if not marked.all():
            assert shares[marked].min() >= shares[~marked].max()


@given(arrays(bool, (4, 7)), arrays(bool, (4, 7)), st.integers(0, 9))
def test_others_are_as_many_and_others(marked: np.ndarray, mask: np.ndarray, seed: int) -> None:
    marked = marked & mask
    others = measures.as_many_others(marked, mask, np.random.default_rng(seed))
    assert not (others & marked).any()
    assert not (others & ~mask).any()
    free = (mask & ~marked).sum(1)
    assert others.sum(1).tolist() == np.minimum(marked.sum(1), free).tolist()


def test_others_are_drawn_and_not_the_first_ones() -> None:
    marked = np.tile([True, False, False, False], (400, 1))
    drawn = measures.as_many_others(marked, np.ones_like(marked), np.random.default_rng(0))
    assert drawn.mean(0) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3], abs=0.08)


def test_removing_the_named_module_against_removing_another() -> None:
    gates = {
        **{"Ω": np.array([0.9, 0.2]), "rel": np.array([0.1, 0.8])},
        **{"obj": np.array([0.5, 0.2]), "att": np.array([0.3, 0.3]), "cap": np.array([0.2, 0.5])},
    }
    effect = {
        **{"Ω": np.array([1.0, 0.0]), "rel": np.array([0.0, 0.4])},
        **{"obj": np.array([0.8, 0.1]), "att": np.array([0.2, 0.3]), "cap": np.array([0.4, 0.6])},
    }
    named, others = measures.named_and_others(gates, [["Ω", "rel"], ["obj", "att", "cap"]], effect)
    # First question: Ω and obj are named; second: rel and cap.
    assert named == pytest.approx([(1.0 + 0.8) / 2, (0.4 + 0.6) / 2])
    assert others == pytest.approx([(0.0 + 0.3) / 2, (0.0 + 0.2) / 2])


def test_a_group_of_one_has_nothing_to_compare() -> None:
    one = {"Ω": np.array([1.0]), "obj": np.array([0.9]), "att": np.array([0.1])}
    named, others = measures.named_and_others(one, [["Ω"], ["obj", "att"]], one)
    assert (named, others) == (pytest.approx([0.9]), pytest.approx([0.1]))


def test_every_measure_is_explained() -> None:
    assert all(text for text in measures.MEASURES.values())
    assert measures.mean(np.array([])) is None
