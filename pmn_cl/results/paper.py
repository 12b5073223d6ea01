"""The paper's own numbers."""

from __future__ import annotations

from typing import NamedTuple

# The paper's: accuracy in % (of M_rel by object and by subject), of M_cap CIDEr; M_vqa's on the
# validation set.
RUNGS = {
    **{"M_rel0": "51.0, 55.9", "M_rel1": "53.4, 57.8", "M_cap0": "108", "M_cap1": "109"},
    **{"M_cnt0": "45.4", "M_cnt1": "47.4", "M_cnt2": "50.0"},
    **{"M_vqa0": "62.05", "M_vqa1": "63.38", "M_vqa2": "63.64", "M_vqa3": "64.06"},
    **{"M_vqa4": "64.36", "M_vqa5": "64.68", "M_vqa0 matched": "62.0"},
    **{"M_vqa1 extra data": "63.05", "M_vqa5 equal gates": "63.65"},
}

# What M_vqa gains over its base at so many percent of the data (Table 6).
FRACTIONS = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0)
GAINS = (-0.0049, 0.0221, 0.0401, 0.0266, 0.0179, 0.0204)


class PublishedGrades(NamedTuple):
    """A row of Table 5: the mean grades of explanations, for so many questions."""

    questions: int
    pmn: float
    baseline: float


# Table 5, by who was right.
ALL = "all"
GRADES = {
    "both right": PublishedGrades(715, 3.13, 2.86),
    "pmn right": PublishedGrades(584, 2.78, 1.40),
    "baseline right": PublishedGrades(162, 1.73, 2.47),
    "both wrong": PublishedGrades(139, 1.95, 1.66),
    ALL: PublishedGrades(1600, 2.54, 2.24),
}
