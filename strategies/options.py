"""What a stream's YAML may say about the strategies of this folder. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pmn_cl.modules.sizes import Departures, Gates
from pmn_cl.training import NetworkOptions


class PmnOptions(NetworkOptions):
    """What a stream's YAML may say about PMN; the defaults are for the embedded world."""

    gates: Gates = Gates()
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
    memory: bool = True  # keep what frozen modules find out about a scene
