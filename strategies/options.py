"""What a stream's YAML may say about the strategies of this folder. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pmn_cl import registry
from pmn_cl.data.world import World
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.modules.sizes import Departures, Gates, Sizes
from pmn_cl.strategy.base import Experience
from pmn_cl.strategy.training import NetworkOptions, TrainingSettings


class SizeChanges(BaseModel):
    """The widths of one task's module, where they are not those of its size."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    hidden: int | None = Field(default=None, ge=1)
    knowledge: int | None = Field(default=None, ge=1)
    attention: int | None = Field(default=None, ge=1)
    relation: int | None = Field(default=None, ge=1)
    relation_attention: int | None = Field(default=None, ge=1)
    caption: int | None = Field(default=None, ge=1)
    word: int | None = Field(default=None, ge=1)
    terminal: int | None = Field(default=None, ge=1)

    def of(self, usual: Sizes) -> Sizes:
        """Return the usual sizes with these changes."""
        return replace(usual, **self.model_dump(exclude_none=True))


class PmnOptions(NetworkOptions):
    """What a stream's YAML may say about PMN; the defaults are for the embedded world."""

    gates: Gates = Gates()
    gates_of: list[str] = Field(default_factory=list)  # tasks whose modules have them; []: all
    departures: Departures = Departures()  # what is not said here is as the size has it
    # How M_vqa comes by its question encoder, Ω and Q→rel: "copies" starts from M_cnt's and
    # leaves M_cnt as it is; "shared" uses M_cnt's own and trains them on, as the paper does.
    asking: Literal["own", "copies", "shared"] = "copies"
    finetune: list[str] = Field(default_factory=list)  # modules that M_vqa may change
    keep_old: bool = False  # keep the module of before beside a fine-tuned one
    supervise: list[str] = Field(
        default_factory=lambda: ["cnt"]
    )  # tasks whose query [b, r] to M_rel is supervised
    supervision: float = Field(default=0.5, ge=0)  # its weight in the loss
    modules: dict[str, str] = Field(default_factory=dict)  # package.module:Name, by task
    start_from: list[str] = Field(default_factory=list)  # files or folders of learned modules
    memory: bool = True  # keep what frozen modules compute for a scene
    widths: dict[str, SizeChanges] = Field(default_factory=dict)  # by task
    # Controls: how much of a caller's score is owed to what its callees have learned? Another one
    # is `gates: {kind: equal}`. Modules named here are never taken from `start_from`.
    untrained: list[str] = Field(default_factory=list)  # frozen as they were initialised
    # These learn each sample with the targets of another, up to the last epoch: to choose one on
    # true validation samples would be to learn from them. With `asking: copies`, M_vqa starts from
    # what M_cnt came to in this way; `own` keeps that out.
    shuffled: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _controls_agree(self) -> PmnOptions:
        for name in self.untrained:
            if name in self.shuffled:
                raise ValueError(
                    f"{name!r} is both `untrained` and `shuffled`: what is not trained needs no "
                    "targets; name it once"
                )
            if name in self.finetune or (name == "vqa" and self.finetune):
                raise ValueError(
                    f"`finetune` would train what `untrained` leaves as it is ({name!r}); leave "
                    "one of them out"
                )
        return self


class ExecutorOptions(PmnOptions):
    """What a stream's YAML may say about the executor; with `probe: modules`, also PMN's."""

    # Who says what regions show: `wide` a probe that is wider than any module and has settings of
    # its own, for a ceiling; `modules` M_obj and M_att, built and trained as PMN's.
    probe: Literal["wide", "modules"] = "wide"
    # Whose answers are taken where the program asks for a relation, or for a count: a diagnosis.
    ask: list[Literal["rel", "cnt"]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _of_the_probe(self) -> ExecutorOptions:
        if self.probe == "modules":
            return self
        if self.ask:
            raise ValueError(
                f"`ask: {self.ask}` takes the answers of modules: add `probe: modules`, or leave "
                "`ask` out"
            )
        others = sorted(self.model_fields_set - {"probe", "ask"})
        if others:
            raise ValueError(
                f"`{others[0]}` is an option of modules, which the wide probe has none of: add "
                f"`probe: modules`, or leave `{others[0]}` out"
            )
        return self

    @property
    def answered(self) -> tuple[str, ...]:
        """Return the tasks that are answered by what learned them, and not by programs."""
        return ("obj", "att", *self.ask)

    @property
    def learned(self) -> tuple[str, ...]:
        """Return the tasks that are learned: those, and what their modules call."""
        below = {"rel": ("rel",), "cnt": ("rel", "cnt")}  # M_cnt calls M_rel
        asked = [name for task in self.ask for name in below[task]]
        return tuple(dict.fromkeys(("obj", "att", *asked)))

    def settings(self) -> dict[str, TrainingSettings]:
        """Return those of the tasks that modules are trained for."""
        trained = self.learned if self.probe == "modules" else ()
        return {task: own for task, own in super().settings().items() if task in trained}

    def check_stream(self, world: type[World], tasks: Sequence[str]) -> None:
        """Refuse a world without programs, and a stream without what is looked at or asked."""
        world.executor()
        for task in self.answered:
            if task not in tasks:
                raise UserError(
                    f"the executor learns {task!r} to answer other tasks by, but the stream has "
                    f"only {', '.join(tasks)}; add {task!r} to its tasks"
                )


def refuse_unknown_tasks(
    options: Any, named: Iterable[str], experiences: Iterable[Experience]
) -> None:
    """Refuse options that name a task which is neither shipped nor in the stream."""
    own = (experience.task.name for experience in experiences)
    known = list(dict.fromkeys([*registry.TASKS, *own]))
    for option in named:
        for name in getattr(options, option):
            if name not in known:
                raise UserError(
                    f"{option}: unknown task {name!r}, expected one of {', '.join(known)}"
                    f"{did_you_mean(name, known)}"
                )
