"""What a stream's YAML may say about gradient episodic memory. No torch here."""

from __future__ import annotations

from pydantic import Field

from baselines.options import HeadsOptions


class GemOptions(HeadsOptions):
    """Of gradient episodic memory."""

    patterns_per_experience: int = Field(default=64, ge=1)  # samples kept of each task
    memory_strength: float = Field(default=0.5, ge=0)  # γ: above 0, steps also serve old tasks
