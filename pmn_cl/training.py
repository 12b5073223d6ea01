"""How a task is trained: the settings, and nothing that trains. No torch here."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class TrainingSettings(BaseModel):
    """Adam's settings for one task, and for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    least_steps: int = Field(default=0, ge=0)  # small fractions get more epochs, up to this
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)  # steps
    clip: float | None = Field(default=None, gt=0)  # the gradient's norm

    def epochs_for(self, samples: int) -> int:
        """Return how often to go through so many samples."""
        steps = math.ceil(samples / self.batch_size)
        return max(self.epochs, math.ceil(self.least_steps / steps))

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, of which there are so many, from 0."""
        rate = self.learning_rate * min(1.0, (step + 1) / (self.warmup + 1))
        if self.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * step / steps))
        return rate


class TrainingChanges(BaseModel):
    """What a stream's YAML changes about a task's settings; all that a new task needs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    learning_rate: float | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    epochs: int | None = Field(default=None, ge=1)
    least_steps: int | None = Field(default=None, ge=0)
    schedule: Literal["constant", "cosine"] | None = None
    warmup: int | None = Field(default=None, ge=0)
    clip: float | None = Field(default=None, gt=0)


def _settings(**common: Any) -> dict[str, TrainingSettings]:
    tasks = {name: common.pop(name) for name in ("obj", "att", "rel", "cap", "cnt", "vqa")}
    return {
        name: TrainingSettings(**common, learning_rate=rate, batch_size=batch, epochs=epochs)
        for name, (rate, batch, epochs) in tasks.items()
    }


# By task: learning rate, batch size, epochs.
TRAINING = {
    # The paper's, appendix B.2.
    "paper": _settings(
        obj=(5e-4, 32, 20),
        att=(5e-4, 32, 20),
        rel=(5e-4, 128, 20),
        cap=(5e-4, 64, 20),
        cnt=(1e-4, 128, 20),
        vqa=(5e-4, 128, 7),
    ),
    # Chosen on the validation split of the digit world with development seed 100, then frozen.
    "small": _settings(
        schedule="cosine",
        warmup=50,
        clip=5.0,
        obj=(3e-3, 32, 16),
        att=(3e-3, 32, 10),
        rel=(1e-3, 64, 8),
        cap=(3e-3, 128, 2),
        cnt=(4e-3, 64, 8),
        vqa=(3e-3, 64, 5),
    ),
}
