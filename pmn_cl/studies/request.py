"""What a command asks a study for: one typed object each. Cheap to import, for `--help`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pmn_cl.config.spec import BenchmarkSpec, Protocol
    from pmn_cl.runs.engines.base import Engine

OFF = "off"  # as a tracking URI: no mirror


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """Which runs of a stream, and how they are driven."""

    stream: str | Path | BenchmarkSpec
    seeds: tuple[int, ...] = ()  # none: those of the stream
    out: Path | None = None
    workers: int | None = None
    engine: Engine | None = None  # none: this machine
    device: str = "auto"
    dry_run: bool = False
    fresh: bool = False
    checkpoint_every: float = 60.0  # seconds
    tracking: str | None = None  # a URI, or off
    cache: Path | None = None


@dataclass(frozen=True, kw_only=True)
class RunRequest(StudyRequest):
    """A comparison of strategies."""

    strategies: tuple[str, ...] = ()  # none: those of the stream


@dataclass(frozen=True, kw_only=True)
class SweepRequest(StudyRequest):
    """One task learned from less and less data."""

    task: str = "vqa"
    fractions: tuple[float, ...] = ()  # none: the paper's
    strategies: tuple[str, ...] = ()  # none: PMN and its base


@dataclass(frozen=True, kw_only=True)
class AblationRequest(StudyRequest):
    """Modules with less and with more to call."""

    only: tuple[str, ...] = ()  # none: every rung


@dataclass(frozen=True, kw_only=True)
class TuningRequest:
    """A search of settings on validation."""

    stream: str
    strategies: tuple[str, ...] = ()
    out: Path | None = None
    workers: int | None = None
    protocol: Protocol = "another-world"
    save: Path | None = None
    cache: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ArrayRequest:
    """The runs of a stream as a list, or as a Slurm job array."""

    stream: str
    strategies: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    slurm: Path | None = None  # the script to write
    out: Path | None = None
    workers: int | None = None
    gpus: int = 0
    device: str = "auto"
    checkpoint_every: float = 60.0
    cache: Path | None = None
