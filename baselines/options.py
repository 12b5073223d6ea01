"""What a stream's YAML may say about the strategies of this folder. No torch here.

First the networks, then the methods on hard sharing's network; at the end which of Avalanche's
plugins and memories cannot work here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from pmn_cl.strategy.training import NetworkOptions


class HeadsOptions(NetworkOptions):
    """Options of every network with a head per task; hard sharing has no others."""

    width: int | None = Field(default=None, ge=4)  # of every layer; None: as the size has it
    attention: int | None = Field(default=None, ge=1)  # in which soft attention compares
    # Tasks whose question's [b, r] is supervised, as PMN's query to M_rel is: an auxiliary head.
    supervise: list[str] = Field(default_factory=list)
    supervision: float = Field(default=0.5, ge=0)  # its weight in the loss


class ModulesOptions(HeadsOptions):
    """Options of hard sharing with PMN's base modules, which put no query to anybody."""

    @field_validator("supervise")
    @classmethod
    def _nobody_is_asked(cls, supervise: list[str]) -> list[str]:
        if supervise:
            raise ValueError("M_cnt0 and M_vqa0 put no query [b, r] that could be supervised")
        return supervise


class PnnOptions(HeadsOptions):
    """Options of Progressive Neural Networks, with a column per task."""

    adapters: bool = True  # eq. 2; without: eq. 1, a matrix from every earlier column
    alpha: float = Field(default=0.1, gt=0)  # where the adapters' scales start


class MultinetOptions(HeadsOptions):
    """Options of Multinet, where earlier tasks' outputs come back into the representation."""

    passes: int = Field(default=2, ge=0, le=10)  # times that they come back; 0: never


class EwcOptions(HeadsOptions):
    """Options of elastic weight consolidation."""

    strength: float = Field(default=100.0, ge=0)  # lambda, of the penalty in the loss


class SiOptions(HeadsOptions):
    """Options of synaptic intelligence."""

    strength: float = Field(default=10.0, ge=0)  # lambda, of the penalty in the loss


class MasOptions(HeadsOptions):
    """Options of memory aware synapses."""

    strength: float = Field(default=0.01, ge=0)  # lambda, of the penalty in the loss
    alpha: float = Field(default=0.5, ge=0, le=1)  # how much earlier importances weigh


class LwfOptions(HeadsOptions):
    """Options of learning without forgetting; the defaults are the paper's λ_o and T."""

    strength: float = Field(default=1.0, ge=0)  # λ_o, the weight of every old task's term
    temperature: float = Field(default=2.0, gt=0)  # T, above 1: small probabilities count for more


class GemOptions(HeadsOptions):
    """Options of gradient episodic memory."""

    patterns_per_experience: int = Field(default=64, ge=1)  # samples kept of each task
    memory_strength: float = Field(default=0.5, ge=0)  # γ: above 0, steps also serve old tasks


class AgemOptions(HeadsOptions):
    """Options of averaged gradient episodic memory."""

    patterns_per_experience: int = Field(default=200, ge=1)  # samples kept of each task
    sample_size: int = Field(default=64, ge=1)  # of them, for each step


class ReplayOptions(HeadsOptions):
    """Options of experience replay."""

    mem_size: int = Field(default=1000, ge=1)  # samples kept of all tasks
    storage: Literal["experience", "reservoir"] = "experience"  # each task alike, or each sample
    batch_size_mem: int | None = Field(default=None, ge=1)  # kept samples in a step; None: as new

    @field_validator("storage", mode="before")
    @classmethod
    def _why_not(cls, storage: object) -> object:
        reason = _BALANCED.get(str(storage).removesuffix("-balanced").removesuffix("_balanced"))
        if reason is not None:
            raise ValueError(f"storage by {storage} cannot work here: {reason}")
        return storage


class PluginOptions(HeadsOptions):
    """Options of any plugin of Avalanche's, or one written for it."""

    plugin: str = Field(pattern=r"^[\w.]+:\w+$")  # package.module:Class
    arguments: dict[str, JsonValue] = Field(default_factory=dict)  # of its constructor

    @model_validator(mode="after")
    def _can_work(self) -> PluginOptions:
        name = self.plugin.partition(":")[2]
        if name in REFUSED:
            raise ValueError(f"{name} cannot work here: {REFUSED[name]}")
        if name == "EWCPlugin" and self.arguments.get("mode") == "online":
            raise ValueError(
                "EWCPlugin's mode 'online' cannot work here: it needs new weights to come after "
                "all old ones, and readers of queries come before the heads"
            )
        return self


# What cannot work here, and why.

_CLASSES = "it counts classes, and most tasks here have none"
_GENERATES = "it needs a network that generates inputs"
_MIXES = "it mixes tasks in one batch: "

# Plugins of Avalanche's that cannot work with a head and a loss per task, by class.
REFUSED = {
    "AGEMPlugin": _MIXES + "use `agem`",
    "BiCPlugin": _CLASSES,
    "CWRStarPlugin": _CLASSES,
    "CheckpointPlugin": "a run keeps its own state",
    "CoPEPlugin": _CLASSES,
    "CurrentDataFeCAMUpdate": _CLASSES,
    "CurrentDataNCMUpdate": _CLASSES,
    "EarlyStoppingPlugin": "every method gets the same steps, and the best epoch is kept anyway",
    "FeCAMOracle": _CLASSES,
    "FeatureDistillationPlugin": "it expects a network that gives its features",
    "GDumbPlugin": _CLASSES,
    "GEMPlugin": _MIXES + "use `gem`",
    "GSS_greedyPlugin": "it keeps inputs of a single tensor",
    "GenerativeReplayPlugin": _GENERATES,
    "LFLPlugin": "it expects a network that gives its features",
    "LRSchedulerPlugin": "the learning rate of every step is the task's: set it in `training`",
    "LwFPlugin": "it distils class scores, and outputs differ from task to task: use `lwf`",
    "MASPlugin": "its importances are off where outputs have three dimensions: use `mas`",
    "MIRPlugin": _CLASSES,
    "MemoryFeCAMUpdate": _CLASSES,
    "MemoryNCMUpdate": _CLASSES,
    "NCMOracle": _CLASSES,
    "RARPlugin": _CLASSES,
    "RWalkPlugin": "it must know all weights before the first task, and the network grows",
    "ReplayPlugin": _MIXES + "use `replay`",
    "SynapticIntelligencePlugin": "it never remembers anything on a CPU: use `si`",
    "TrainGeneratorAfterExpPlugin": _GENERATES,
}

# Ways of sharing a replay memory that cannot work here.
_BALANCED = {
    "class": _CLASSES,
    "task": "it takes data sets of classes only; a task is an experience here: take 'experience'",
}
