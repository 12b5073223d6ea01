"""Attention on the regions that questions are about: pure functions of maps and truth. No torch.

Arrays have a row for each question and a column for each region, padding included, which gets no
attention. ``about`` marks the regions that one has to look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Marks = NDArray[np.bool_]


def attention_mass(attention: Floats, about: Marks) -> Floats:
    """Return how much of the attention (n, N) is on the regions meant, for each question."""
    found: Floats = (attention * about).sum(1) / attention.sum(1)
    return found


def share_of(about: Marks, mask: Marks) -> Floats:
    """Return what looking anywhere would come to: the share of the regions meant."""
    return np.asarray((about & mask).sum(1) / mask.sum(1))


def mean_of_asked(values: Floats, about: Marks, families: Mapping[str, Marks]) -> dict[str, float]:
    """Return the mean by family, over its questions that are about any region at all."""
    asked = {name: chosen & about.any(1) for name, chosen in families.items()}
    return {name: float(values[some].mean()) for name, some in asked.items() if some.any()}
