"""Which engine a name stands for."""

from __future__ import annotations

from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.runs.engines.base import Engine
from pmn_cl.runs.engines.local import LocalEngine

ENGINES = ("local", "ray")


def make_engine(
    name: str, *, address: str | None = None, gpus: float = 0.0, patience: float = 120.0
) -> Engine:
    """Return the engine of a name; the rest is about Ray."""
    if name == "local":
        return LocalEngine()
    if name != "ray":
        known = ", ".join(ENGINES)
        raise UserError(f"engine {name!r}, expected one of {known}{did_you_mean(name, ENGINES)}")
    try:
        from pmn_cl.runs.engines.ray import RayEngine
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UserError(
            "engine 'ray': Ray is not installed; pip install 'pmn-cl[ray]', or leave --engine out"
        ) from None
    return RayEngine(address, gpus=gpus, patience=patience)
