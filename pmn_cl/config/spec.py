"""A stream.yaml and the runs that it asks for, as typed data: their keys are named here alone.

Plain data: nothing here knows whether a name stands for anything. A result keeps its ``RunSpec``
whole, and must be readable without the code that made it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from pmn_cl.errors import UserError

Split = Literal["val", "test", "novel"]
SPLITS: tuple[Split, ...] = ("test", "novel")  # that results are about, usually
EVERY = 250  # steps, between evaluations inside tasks
PROBE = "probe"  # the split of a stream that is evaluated inside its tasks, too

Study = Literal["run", "ablate", "sweep", "tune", "orders"]
# How settings are searched: on another world than the one that is judged, after the whole stream;
# by the first task of the stream alone; or on the judged world itself, after the whole stream.
Protocol = Literal["another-world", "first-task", "end-of-stream"]


_PERCENT: dict[str, JsonValue] = {"unit": "percent"}


class _Spec(BaseModel):
    """A part of a spec. What stands below its fields describes them in the schema of results."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class WorldSpec(_Spec):
    """A world by its name, with options that its own class checks."""

    name: str
    """Of the world."""
    options: dict[str, Any] = Field(default_factory=dict)
    """As given."""


class StageSpec(_Spec):
    """A part of a task's training that leaves out what is hard."""

    until: float = Field(gt=0, lt=100, json_schema_extra=_PERCENT)
    """Percent of the task's steps at which it ends."""
    without: list[str] = Field(default_factory=list)
    """Question families that are left out."""
    most_operations: int | None = Field(None, ge=1)
    """Questions whose programs are longer are left out."""
    most_objects: int | None = Field(None, ge=1)
    """Scenes with more objects are left out."""

    @model_validator(mode="after")
    def _leaves_something_out(self) -> StageSpec:
        if not self.without and self.most_operations is None and self.most_objects is None:
            raise ValueError(
                "a stage of a curriculum leaves something out: name `without` (question "
                "families), `most_operations` or `most_objects`"
            )
        return self


class TaskSpec(_Spec):
    """One experience of the stream: a task, what its module may call, how much data it has."""

    task: str
    """Its name."""
    calls: list[str] | None = None
    """The tasks whose modules its module may call, in order; null where it is not resolved yet."""
    fraction: float | None = Field(None, ge=1, le=100, json_schema_extra=_PERCENT)
    """Percent of its training samples; null: as the stream has it."""
    extra: str | None = None
    """A task whose training samples the world makes into more of this one."""
    curriculum: list[StageSpec] = Field(default_factory=list)
    """What is left out of its training at first, in stages that end one after another."""

    @field_validator("curriculum")
    @classmethod
    def _stages_rise(cls, stages: list[StageSpec]) -> list[StageSpec]:
        ends = [stage.until for stage in stages]
        if ends != sorted(set(ends)):
            raise ValueError(f"the stages end at {ends} percent: let each end after the one before")
        return stages


class EvaluateSpec(_Spec):
    """How often all tasks seen so far are scored while a task is learned, and on how many samples.

    Also after 1, 4, 16, … steps, since most is lost in the first ones.
    """

    steps: int | None = Field(None, ge=1)
    """Of training between two evaluations; null: 250, unless `seconds` say how often."""
    seconds: float | None = Field(None, gt=0)
    """Of learning between two evaluations, instead of steps: the machine says where they fall."""
    probe: int = Field(256, ge=1)
    """Samples of each task, out of its validation samples, which lose them: half at most."""

    @model_validator(mode="after")
    def _by_one_of_them(self) -> EvaluateSpec:
        if self.seconds is not None and self.steps is not None:
            raise ValueError("evaluate by `steps` or by `seconds`: leave one of them out")
        return self

    @property
    def interval(self) -> int | None:
        """Return the steps between two evaluations; None where seconds decide."""
        return None if self.seconds is not None else self.steps or EVERY


class TunedSpec(_Spec):
    """How the options of a strategy were found, where a search has found them."""

    protocol: Protocol
    """Of the search."""
    method: str
    """Whose search it was: its own, or that of what it builds on."""
    trials: int = Field(ge=1)
    """That the method had."""
    chosen: dict[str, Any]
    """Options of the best trial."""
    at_edge: bool = False
    """Whether the rate chosen is the lowest or the highest that was tried."""


class StrategySpec(_Spec):
    """A way of learning the stream, with options that its own class checks."""

    name: str
    """Of the strategy."""
    variant: str = ""
    """A label that tells settings of one strategy apart, and nothing else."""
    matched_to: str | None = None
    """The strategy that it gets as much of something as."""
    matched_by: Literal["parameters", "bytes", "flops"] = "parameters"
    """Of what: parameters, bytes of all that is kept, or operations of learning the stream."""
    options: dict[str, Any] = Field(default_factory=dict)
    """As given: a default that is spelt out may mean something else."""
    tuned: TunedSpec | None = None
    """The search that some of the options come from."""

    @property
    def label(self) -> str:
        """Return the name with the variant, as tables show it."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


class StreamSpec(_Spec):
    """What is learned: tasks on a world, and how much of their data and training."""

    name: str = Field(min_length=1)
    """Of the stream."""
    world: WorldSpec
    """Where its samples come from."""
    tasks: list[TaskSpec] = Field(min_length=1)
    """In the order in which they are learned."""
    fraction: float = Field(100, ge=1, le=100, json_schema_extra=_PERCENT)
    """Percent of the training samples, for tasks that do not say their own."""
    budget: float = Field(100, gt=0, le=1000, json_schema_extra=_PERCENT)
    """Percent of the usual training, for all tasks."""
    threads: int = Field(1, ge=1, le=1024)
    """Of torch in each run; another number gives other last digits."""
    evaluate_every: EvaluateSpec | None = None
    """How often runs are evaluated inside a task, too; null: between tasks alone."""
    primary: list[str] = Field(default_factory=list)
    """Claims that were named before any run: p-values are corrected over these alone."""
    measures: list[str] = Field(default_factory=list)
    """Measures of one's own, as `module:name`, that tables show beside those there are."""


class BenchmarkSpec(StreamSpec):
    """A whole stream.yaml: the stream, and who learns it."""

    strategies: list[StrategySpec] = Field(min_length=1)
    """Each of which learns the stream."""
    seeds: list[int] = Field(min_length=1)
    """With each of which it does."""
    splits: list[Split] = Field(default_factory=lambda: list(SPLITS), min_length=1)
    """That runs are evaluated on; `[val]` keeps test closed while settings are chosen."""
    orders: Literal["all"] | int = 1
    """In how many orders of its tasks the stream is learned: its own, and others that are valid."""
    tuned: str | None = None
    """A file of `pmn-bench tune --save`, beside the stream: options not said here come from it."""

    @field_validator("orders", mode="before")
    @classmethod
    def _some_orders(cls, orders: Any) -> Any:
        if orders != "all" and (type(orders) is not int or orders < 1):
            raise ValueError(f"found {orders!r}, expected `all` or how many orders, from 1")
        return orders

    @property
    def stream(self) -> StreamSpec:
        """Return the stream alone."""
        return StreamSpec.model_construct(**{n: getattr(self, n) for n in StreamSpec.model_fields})

    def plain(self, name: str) -> StrategySpec | None:
        """Return what is said of a strategy that is no variant, if anything is."""
        return next((s for s in self.strategies if s.name == name and not s.variant), None)

    def of_study(self, name: str) -> StrategySpec:
        """Return a strategy as a study of the stream has it: with its usual options if unnamed."""
        found = self.plain(name)
        if found is None and self.tuned is not None:
            raise UserError(
                f"the stream {self.name!r} gives others what was searched (`tuned:`), but does not "
                f"name {name!r}: add it to `strategies`, so that it gets that, too"
            )
        return found or StrategySpec(name=name)


# Names, what is claimed of results, and how options were found: they decide no result.
_SAYS_NOTHING: Any = {
    "stream": {"name", "primary", "measures"},
    "strategy": {"tuned"},
    "matched": {"tuned"},
}


class RunSpec(_Spec):
    """One strategy with one seed on a stream, and all else that decides the result but the code."""

    stream: StreamSpec
    """What is learned."""
    strategy: StrategySpec
    """How it is learned."""
    seed: int
    """Of all randomness in the run."""
    study: Study = "run"
    """The command that asked for it."""
    rung: str | None = None
    """Of an ablation: which module, with what to call."""
    matched: StrategySpec | None = None
    """What the stream says of the strategy that this one is matched to."""
    splits: list[str] = Field(default_factory=lambda: list[str](SPLITS))
    """That it is evaluated on, as far as the world has them."""
    evaluate_at_end: bool = False
    """Whether it is evaluated after the whole stream alone."""
    # A folder of modules that other runs have learned or will: it changes costs, but no score.
    reuse: str | None = Field(default=None, exclude=True)

    @property
    def key(self) -> str:
        """Return a name for the run that says what it is, and changes with all that matters."""
        name = "-".join(filter(None, (self.strategy.name, self.strategy.variant)))
        readable = re.sub(r"[^\w.]+", "-", name).strip("-")
        return f"{readable}-seed{self.seed}-{self.digest[:8]}"

    def settings(self) -> dict[str, Any]:
        """Return all that decides the result but seed, label, options and code."""
        plain = self.model_dump(mode="json", exclude={**_SAYS_NOTHING, "seed": True})
        del plain["strategy"]["variant"], plain["strategy"]["options"]
        return plain

    @property
    def digest(self) -> str:
        """Return a digest of all that decides the result, but for the code."""
        # Without defaults, so that a field added later does not make old runs unknown.
        plain = self.model_dump(exclude=_SAYS_NOTHING, exclude_defaults=True)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
