"""What a stream's YAML may say about Progressive Neural Networks. No torch here."""

from __future__ import annotations

from pydantic import Field

from baselines.options import HeadsOptions


class PnnOptions(HeadsOptions):
    """Of a network with a column per task."""

    adapters: bool = True  # eq. 2; without: eq. 1, a matrix from every earlier column
    alpha: float = Field(default=0.1, gt=0)  # where the adapters' scales start
