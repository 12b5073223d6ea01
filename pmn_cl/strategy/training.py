"""How a task is trained: the settings, and nothing that trains. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import StrategyOptions
from pmn_cl.tasks.base import LossTerms


class TrainingSettings(BaseModel):
    """Adam's settings for one task, and for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    least_steps: int = Field(default=0, ge=0)  # small fractions get more epochs, up to this
    patience: int = Field(default=0, ge=0)  # validations in a row without a gain; 0: go on
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)  # steps
    clip: float | None = Field(default=None, gt=0)  # the gradient's norm
    beta2: float = Field(default=0.999, gt=0, lt=1)  # of Adam: how long squares are remembered
    by_scene: bool = False  # samples of a scene come together in a batch
    # The part of a network that has learned before rests for a share of the task's steps, then
    # starts with a share of the learning rate, rising to all of it: what is new must first learn
    # what to make of it.
    carried_rest: float = Field(default=0.0, ge=0, lt=1)
    carried_lr: float = Field(default=1.0, gt=0, le=1)
    loss: LossTerms = LossTerms()

    def steps(self, per_epoch: int, budget: float = 100.0) -> int:
        """Return how many batches to learn from: so many percent of all epochs."""
        return max(1, round(self.epochs * per_epoch * budget / 100), self.least_steps)

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, of which there are so many, from 0."""
        rate = self.learning_rate * min(1.0, (step + 1) / (self.warmup + 1))
        if self.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * step / steps))
        return rate

    def carried_at(self, step: int, steps: int) -> float:
        """Return the share of the learning rate at which a carried part learns at a step."""
        learning = (step / steps - self.carried_rest) / (1 - self.carried_rest)
        return self.carried_lr + (1 - self.carried_lr) * learning if learning >= 0 else 0.0


class TrainingChanges(BaseModel):
    """What a stream's YAML changes about a task's settings; all that a new task needs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    learning_rate: float | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    epochs: int | None = Field(default=None, ge=1)
    least_steps: int | None = Field(default=None, ge=0)
    patience: int | None = Field(default=None, ge=0)
    schedule: Literal["constant", "cosine"] | None = None
    warmup: int | None = Field(default=None, ge=0)
    clip: float | None = Field(default=None, gt=0)
    beta2: float | None = Field(default=None, gt=0, lt=1)
    by_scene: bool | None = None
    carried_rest: float | None = Field(default=None, ge=0, lt=1)
    carried_lr: float | None = Field(default=None, gt=0, le=1)
    loss: LossTerms | None = None


def _settings(
    tasks: Mapping[str, tuple[float, int, int, int]], **common: Any
) -> dict[str, TrainingSettings]:
    return {
        task: TrainingSettings(
            **common, learning_rate=rate, batch_size=batch, epochs=epochs, warmup=warmup
        )
        for task, (rate, batch, epochs, warmup) in tasks.items()
    }


# By task: learning rate, batch size, epochs, steps of warm-up.
TRAINING = {
    # The paper's, appendix B.2.
    "paper": _settings(
        {
            "obj": (5e-4, 32, 20, 0),
            "att": (5e-4, 32, 20, 0),
            "rel": (5e-4, 128, 20, 0),
            "cap": (5e-4, 64, 20, 0),
            "cnt": (1e-4, 128, 20, 0),
            "vqa": (5e-4, 128, 7, 0),
        }
    ),
    # Chosen on the validation split of the digit world with development seeds. M_rel finds out what
    # "same digit" asks for only where the learning rate rises slowly.
    "small": _settings(
        {
            "obj": (6e-3, 32, 10, 50),
            "att": (6e-3, 32, 10, 50),
            "rel": (4e-3, 256, 8, 600),
            "cap": (3e-3, 128, 2, 50),
            "cnt": (8e-3, 256, 10, 50),
            "vqa": (6e-3, 260, 12, 100),
        },
        schedule="cosine",
        clip=5.0,
        beta2=0.98,
        by_scene=True,
        carried_rest=0.1,
        carried_lr=0.2,
        loss=LossTerms(every_box=3.0, count_distance=1.0, soft_count=1.0, one_answer=True),
    ),
}


class NetworkOptions(StrategyOptions):
    """What a stream's YAML may say about any strategy that trains a network."""

    size: Literal["small", "paper"] = "small"
    training: dict[str, TrainingChanges] = Field(default_factory=dict)  # by task
    lr_scale: float = Field(default=1.0, gt=0)  # times the learning rate of every task

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        if isinstance(given, dict) and "rate" in given and "rate" not in cls.model_fields:
            raise ValueError(
                "`rate` is called `lr_scale` now, times the learning rate of every task: write "
                f"`lr_scale: {given['rate']}`"
            )
        return given

    def settings(self) -> dict[str, TrainingSettings]:
        """Return the size's settings with the changes asked for."""
        settings = dict(TRAINING[self.size])
        for task, changes in self.training.items():
            usual = settings[task].model_dump() if task in settings else {}
            changed = {**usual, **changes.model_dump(exclude_unset=True)}
            if changes.loss is not None:
                changed["loss"] = {**usual.get("loss", {}), **changed["loss"]}
            try:
                settings[task] = TrainingSettings.model_validate(changed)
            except ValidationError as error:
                missing = ", ".join(str(item["loc"][0]) for item in error.errors())
                raise UserError(f"training of the new task {task!r} needs {missing}") from None
        return {
            task: usual.model_copy(update={"learning_rate": self.lr_scale * usual.learning_rate})
            for task, usual in settings.items()
        }
