"""What a stream's YAML may say about Multinet. No torch here."""

from __future__ import annotations

from pydantic import Field

from baselines.options import HeadsOptions


class MultinetOptions(HeadsOptions):
    """Of a network whose earlier tasks' outputs come back into its representation."""

    passes: int = Field(default=2, ge=0, le=10)  # times that they come back; 0: never
