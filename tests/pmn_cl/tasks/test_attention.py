"""Attention on what questions are about, on maps made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pmn_cl.tasks.attention import attention_mass, mean_of_asked, share_of

ATTENTION = np.array([[0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.5, 0.0]])
ABOUT = np.array([[True, False, True, False], [True, True, False, False]])
MASK = np.array([[True, True, True, False], [True, True, True, True]])


def test_attention_on_what_is_asked_about() -> None:
    assert attention_mass(ATTENTION, ABOUT) == pytest.approx([0.8, 0.5])
    assert share_of(ABOUT, MASK) == pytest.approx([2 / 3, 2 / 4])


def test_attention_need_not_sum_to_one() -> None:
    assert attention_mass(3 * ATTENTION, ABOUT) == pytest.approx([0.8, 0.5])


def test_questions_about_nothing_do_not_count() -> None:
    about = np.array([[True, False], [False, False], [True, True], [False, False]])
    families = {
        "same": np.array([True, True, True, False]),
        "none": np.array([False, False, False, True]),
    }
    assert mean_of_asked(np.array([0.2, 0.9, 0.6, 0.9]), about, families) == {
        "same": pytest.approx(0.4)
    }
