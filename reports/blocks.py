"""What a section of the report is made of; the page's template defines how each looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from pmn_cl.results.statistics import Interval
from reports.svg import PlotPanel, Point, Series, SeriesStyle


@dataclass(frozen=True)
class Row:
    """A line of a table; where a strategy is hidden, so are its lines."""

    cells: Sequence[str]
    strategy: int | None = None
    marks: Mapping[int, str] = field(default_factory=dict)  # of cells: "best" or "tie"


@dataclass(frozen=True)
class Table:
    """A table that can be sorted, filtered and downloaded."""

    kind: ClassVar[str] = "table"

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    headed: int = 1  # so many cells of a row are its heading


@dataclass(frozen=True)
class Figure:
    """Panels under one caption, with the numbers that they show and the commands behind them."""

    kind: ClassVar[str] = "figure"

    caption: str
    panels: Sequence[PlotPanel]
    data: Table
    commands: Sequence[str]
    note: str = ""
    legend: PlotPanel | None = None
    key: Sequence[
        tuple[SeriesStyle, bool]
    ] = ()  # what is drawn; whether it is hidden with a strategy


@dataclass(frozen=True)
class Missing:
    """What there are no results for, and the commands that make them."""

    kind: ClassVar[str] = "missing"

    text: str
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Text:
    """A paragraph; ``lead`` is read before all others."""

    kind: ClassVar[str] = "text"

    text: str
    lead: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for."""

    kind: ClassVar[str] = "facts"

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Commands:
    """Lines to type, each with what it does."""

    kind: ClassVar[str] = "commands"

    lines: Sequence[tuple[str, str]]


# Stands below figures: with two or three seeds, an interval may dwarf all that it is about.
CUT = " Intervals that leave a panel are cut off at its edge; the numbers have them in full."

Block: TypeAlias = Table | Figure | Missing | Text | Facts | Commands


@dataclass(frozen=True)
class Section:
    """A part of the page, with an entry in its contents."""

    name: str  # for links
    title: str
    blocks: Sequence[Block] = field(default_factory=list)


# --- numbers -----------------------------------------------------------------------------


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number for a table; nothing where there is none."""
    return "" if value is None else format(value, form)


def keys(*series: Series) -> list[tuple[SeriesStyle, bool]]:
    """Return what a figure's key has to name: each thing once."""
    return list(dict.fromkeys((one.look, one.strategy) for one in series))


def last_values(series: Iterable[Series]) -> str:
    """Return where each line ends."""
    return "; ".join(f"{s.look.label} {s.points[-1].y:.3f}" for s in series if s.points)


def point(found: Interval, x: float = 0.0) -> Point:
    """Return a mean and its interval for a panel."""
    return Point(found.mean, found.low, found.high, x)
