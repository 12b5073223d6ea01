"""What a stream's YAML may say about the strategies of this folder. No torch here."""

from __future__ import annotations

from pydantic import Field

from pmn_cl.training import NetworkOptions


class HeadsOptions(NetworkOptions):
    """Of a network with a head per task."""

    width: int | None = Field(default=None, ge=4)  # of every layer; None: as the size has it
    attention: int | None = Field(default=None, ge=1)  # in which soft attention compares
