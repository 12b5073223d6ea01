"""What a stream's YAML may say about learning without forgetting. No torch here."""

from __future__ import annotations

from pydantic import Field

from baselines.options import HeadsOptions


class LwfOptions(HeadsOptions):
    """Of learning without forgetting; the defaults are the paper's λ_o and T."""

    strength: float = Field(default=1.0, ge=0)  # λ_o, the weight of every old task's term
    temperature: float = Field(default=2.0, gt=0)  # T, above 1: small chances count for more
