"""A small plotting kit: panels of SVG that one style sheet colours. It is not about results.

What belongs to a strategy carries its number (``data-s``), so that a page can hide it everywhere
at once, and its looks: a colour (class ``c0`` to ``c7``), a marker and dashes, so that no two look
alike to people who do not see colours. Values that no axis can have are not drawn.

Ours and not a library's: for one panel matplotlib takes 60 times as long and 2.5 times the bytes,
with every colour in its element, where no theme reaches it; pygal puts a style sheet and a script
from the net into each and has no heat map; Altair brings 90 MB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

COLOURS, SHADES = 8, 10  # how many of each the style sheet has
_LONGEST = 2000  # characters of a text alternative
SPREADS = 10  # lines of a panel: the intervals of more would cover them
_MARKERS = (
    "M0-4A4 4 0 1 1 0 4A4 4 0 1 1 0-4Z",  # circle
    "M-3.5-3.5H3.5V3.5H-3.5Z",  # square
    "M0-5L5 0 0 5-5 0Z",  # diamond
    "M0-4.6L4.6 3.6H-4.6Z",  # triangle
    "M0 4.6L4.6-3.6H-4.6Z",  # triangle, point down
    "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",  # plus
    "M-5 0L-2-4.2H2L5 0 2 4.2H-2Z",  # hexagon
    "M0-5L1.4-1.4 5 0 1.4 1.4 0 5-1.4 1.4-5 0-1.4-1.4Z",  # star
)
_DASHES = ("", "7 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class SeriesStyle:
    """How something differs from what is drawn beside it."""

    number: int
    label: str

    @property
    def colour(self) -> str:
        """Return the class of its colour."""
        return f"c{self.number % COLOURS}"

    @property
    def marker(self) -> str:
        """Return the path of its marker; those of one colour have different ones."""
        return _MARKERS[(self.number + self.number // COLOURS) % len(_MARKERS)]

    @property
    def dashes(self) -> str:
        """Return its ``stroke-dasharray``."""
        return _DASHES[(self.number + self.number // COLOURS) % len(_DASHES)]


class Point(NamedTuple):
    """A value with its interval, where it has one; ``x`` counts where there is such an axis."""

    y: float
    low: float | None = None
    high: float | None = None
    x: float = 0.0


@dataclass(frozen=True)
class PlotPanel:
    """A drawing with its text alternative."""

    title: str
    description: str
    width: float
    height: float
    body: str
    strategy: int | None = None  # the only one that it is about

    def svg(self, name: str) -> Markup:
        """Return it as an element of a page; ``name`` is for its ids."""
        return Markup(
            f'<svg role="img" aria-labelledby="{name}-t {name}-d" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}">'
            f'<title id="{name}-t">{escape(clipped(self.title, _LONGEST))}</title>'
            f'<desc id="{name}-d">{escape(clipped(self.description, _LONGEST))}</desc>'
            f"{self.body}</svg>"
        )


def _sane(value: float) -> bool:
    """Return whether a value is a number that can be drawn: not nan, nor beyond all bounds."""
    return abs(value) < 1e100


class Axis:
    """Maps values to pixels, and names some of them."""

    def __init__(
        self,
        values: Iterable[float],
        start: float,
        end: float,
        *,
        log: bool = False,
        ticks: Sequence[float] = (),
        most: int = 7,
    ) -> None:
        self.log, self.start, self.end = log, start, end
        known = [v for v in values if self.has(v)] or [1.0]
        low, high = self._scaled(min(known)), self._scaled(max(known))
        margin = 0.05 * (high - low) or abs(high) * 0.1 or 0.5
        self.low, self.high = low - margin, high + margin
        self.ticks = list(ticks) or self._nice(most)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    @property
    def names(self) -> list[str]:
        """Return the ticks as text, with no more digits than it takes to distinguish them."""
        large = self.log or max(map(abs, self.ticks), default=0) >= 1e5
        names = [short(tick) for tick in self.ticks] if large else []
        if names and len({*names}) == len(names):
            return names
        digits = next((d for d in range(9) if self._exact(d)), 9)
        return [f"{tick:.{digits}f}" for tick in self.ticks]

    def _exact(self, digits: int) -> bool:
        near = (self.high - self.low) / 1000
        return all(abs(round(tick, digits) - tick) < near for tick in self.ticks)

    def _nice(self, most: int) -> list[float]:
        """Return some round values inside."""
        if self.log:
            tens = range(math.floor(self.low), math.ceil(self.high) + 1)
            for steps in ((1,), (1, 2, 5), (1, 2, 3, 5, 7), range(1, 10)):
                round_ones = [step * 10.0**ten for ten in tens for step in steps]
                inside = [v for v in round_ones if self.low <= math.log10(v) <= self.high]
                if len(inside) > 2:
                    break
            return inside
        raw = (self.high - self.low) / most
        ten = 10 ** math.floor(math.log10(raw))
        step = next(s * ten for s in (1, 2, 2.5, 5, 10) if s * ten >= raw * 0.999)
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step) + 1)]

    def __call__(self, value: float) -> float:
        """Return where a value is; what leaves the axis is cut off at its end."""
        scaled = self._scaled(value) if self.has(value) else self.low
        share = (scaled - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def has(self, value: float) -> bool:
        """Return whether a value can be placed on it."""
        return _sane(value) and (value > 1e-100 or not self.log)


def short(value: float) -> str:
    """Return a number for an axis."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if abs(value) > 1e-12 else "0"


def _around(points: Iterable[Point], *more: float) -> list[float]:
    """Return what an axis has to show: all values, and intervals unless they dwarf the values.

    With two seeds an interval is a dozen times the difference: it would flatten everything else.
    """
    known = [p for p in points if _sane(p.y)]
    values = [*(p.y for p in known), *more]
    if not values:
        return []
    span = max(values) - min(values) or abs(max(values)) * 0.2 or 1.0
    low, high = min(values) - span / 2, max(values) + span / 2
    ends = [end for p in known for end in (p.low, p.high) if end is not None]
    return values + [min(high, max(low, end)) for end in ends]


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    classes = f' class="{kind}"' if kind else ""
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{classes}{anchored}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def mark(x: float, y: float, look: SeriesStyle, *, hollow: bool = False, title: str = "") -> str:
    """Return a marker; ``title`` is shown where the mouse points at it."""
    shown = f"<title>{escape(clipped(title, 120))}</title>" if title else ""
    kind = "hollow" if hollow else "mark"
    place = f'transform="translate({x:.1f} {y:.1f})"'
    return f'<path class="{kind} {look.colour}" {place} d="{look.marker}">{shown}</path>'


def _of(look: SeriesStyle, body: Iterable[str]) -> str:
    return f'<g data-s="{look.number}">{"".join(body)}</g>'


def clipped(text: str, length: int) -> str:
    """Return a text that is no longer than this."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


# --- panels ------------------------------------------------------------------------------

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 24.0, 36.0
_LETTER = 6.6  # how wide a letter of a name is, in a wide typeface


def _plane(
    title: str, x: Axis, y: Axis, x_label: str, y_label: str, *, named: Sequence[str] = ()
) -> list[str]:
    """Return title, grid and labels of a panel with two axes; ``named`` are the ticks of x."""
    body = [_text(_LEFT, 14, clipped(title, 52), "heading")]
    for tick, name in zip(y.ticks, y.names, strict=True):
        body.append(_line(x.start, y(tick), x.end, y(tick), "grid"))
        body.append(_text(x.start - 5, y(tick) + 4, name, anchor="end"))
    for tick, name in zip(x.ticks, named or x.names, strict=True):
        body.append(_line(x(tick), y.start, x(tick), y.start + 4, "axis"))
        body.append(_text(x(tick), y.start + 15, clipped(name, 12), anchor="middle"))
    body.append(_line(x.start, y.start, x.end, y.start, "axis"))
    if y.low < 0 < y.high:
        body.append(_line(x.start, y(0), x.end, y(0), "axis"))
    body.append(_text((x.start + x.end) / 2, y.start + 31, clipped(x_label, 50), anchor="middle"))
    upright = f'transform="rotate(-90 10 {(y.start + y.end) / 2:.0f})"'
    middle = f'x="10" y="{(y.start + y.end) / 2:.0f}" text-anchor="middle"'
    return [*body, f"<text {middle} {upright}>{escape(clipped(y_label, 30))}</text>"]


class Series(NamedTuple):
    """A line of a panel."""

    look: SeriesStyle
    points: Sequence[Point]
    strategy: bool = True  # False: stays where strategies are hidden, like the paper's


def lines(
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    band: bool = False,
    log: bool = False,
    names: Sequence[str] = (),
    ticks: Sequence[float] = (),
    origin: bool = False,
) -> PlotPanel:
    """Draw lines with intervals as bars or as a band.

    ``names`` are those of x = 0, 1, …; with ``origin``, x begins at 0.
    """
    width, height = 336.0, 240.0
    points = [p for one in series for p in one.points if _sane(p.y)]
    ticks = [float(n) for n in range(len(names))] if names else ticks
    at = [*(p.x for p in points), *ticks, *([0.0] if origin else [])]
    x = Axis(at, _LEFT, width - _RIGHT, log=log, ticks=ticks, most=5)
    sure = len(series) <= SPREADS
    y = Axis(_around(points if sure else [Point(p.y) for p in points]), height - _BOTTOM, _TOP)
    body = _plane(title, x, y, x_label, y_label, named=names)
    for look, given, strategy in series:
        known = [p for p in given if y.has(p.y) and x.has(p.x)]
        drawn = _curve(known, x, y, look, band=band, sure=sure)
        body.append(_of(look, drawn) if strategy else "".join(drawn))
    return PlotPanel(title, description, width, height, "".join(body))


def _curve(
    points: Sequence[Point], x: Axis, y: Axis, look: SeriesStyle, *, band: bool, sure: bool
) -> list[str]:
    if not points:
        return []
    drawn = []
    spreads = [(x(p.x), *ends) for p in points if sure and (ends := _ends(p, y))]
    if band and len(spreads) > 1:
        there = [f"{at:.1f} {high:.1f}" for at, _, high in spreads]
        back = [f"{at:.1f} {low:.1f}" for at, low, _ in reversed(spreads)]
        drawn.append(f'<path class="band {look.colour}" d="M{"L".join(there + back)}Z"/>')
    else:
        drawn += [_line(at, low, at, high, f"bar {look.colour}") for at, low, high in spreads]
    way = "L".join(f"{x(p.x):.1f} {y(p.y):.1f}" for p in points)
    drawn.append(f'<path class="line {look.colour}" stroke-dasharray="{look.dashes}" d="M{way}"/>')
    marked = points if len(points) <= 12 else points[:: max(1, len(points) // 6)]
    drawn += [mark(x(p.x), y(p.y), look, title=f"{look.label}: {p.y:.3f}") for p in marked]
    return drawn


def _ends(p: Point, axis: Axis) -> tuple[float, float] | None:
    """Return where an interval ends; None where there is none."""
    if p.low is None or p.high is None or not _sane(p.low + p.high):
        return None
    return axis(p.low), axis(p.high)


def scatter(
    title: str, description: str, series: Sequence[Series], *, x_label: str, y_label: str
) -> PlotPanel:
    """Draw points over an x that grows by factors, their names in a column at the right."""
    points = [p for one in series for p in one.points if _sane(p.y)]
    width, height, step = 510.0, max(320.0, 70.0 + 13 * len(points)), 13.0
    right = width - 138
    x = Axis((p.x for p in points), _LEFT, right, log=True)
    y = Axis(_around(points), height - _BOTTOM, _TOP)
    body = _plane(title, x, y, x_label, y_label)
    placed = [(one.look, p) for one in series for p in one.points if y.has(p.y) and x.has(p.x)]
    placed.sort(key=lambda pair: -pair[1].y)
    wanted = [y(p.y) for _, p in placed]
    for (look, p), named in zip(placed, _apart(wanted, step, _TOP, height - _BOTTOM), strict=True):
        at, above = x(p.x), y(p.y)
        ends = _ends(p, y)
        bar = [_line(at, ends[0], at, ends[1], f"bar {look.colour}")] if ends else []
        drawn = [_line(at, above, right + 14, named, "leader"), *bar]
        drawn.append(mark(at, above, look, title=f"{look.label}: {p.y:.3f} at {short(p.x)}"))
        drawn.append(_text(right + 18, named + 4, clipped(look.label, 21)))
        body.append(_of(look, drawn))
    return PlotPanel(title, description, width, height, "".join(body))


def _apart(wanted: Sequence[float], step: float, top: float, bottom: float) -> list[float]:
    """Return places as near to those that are wanted, in order, as names do not overlap."""
    found: list[float] = []
    for place in wanted:
        found.append(max(place, found[-1] + step if found else top))
    limit = bottom
    for number in reversed(range(len(found))):
        found[number] = min(found[number], limit)
        limit = found[number] - step
    return found


class DotRow(NamedTuple):
    """A row of a dot plot: one value, or two of which the second is hollow."""

    look: SeriesStyle
    points: Sequence[Point | None]
    strategy: bool = True


def dots(
    title: str,
    description: str,
    rows: Sequence[DotRow],
    *,
    x_label: str,
    zero: bool = False,
    bounds: Sequence[float] = (),
) -> PlotPanel:
    """Draw a row for each name, its values from left to right with their intervals.

    ``bounds`` are values that all others lie between, or should: lines from top to bottom.
    """
    names = [clipped(row.look.label, 32) for row in rows]
    left = max(138.0, 12 + _LETTER * max(map(len, names), default=0))
    width, step = left + 198.0, 17.0
    height = _TOP + step * len(rows) + _BOTTOM
    points = [p for row in rows for p in row.points if p is not None and _sane(p.y)]
    x = Axis(_around(points, *bounds, *([0.0] if zero else [])), left, width - 14, most=4)
    bottom = height - _BOTTOM
    body = [_text(4, 14, clipped(title, 56), "heading")]
    for tick, name in zip(x.ticks, x.names, strict=True):
        kind = "axis" if zero and abs(tick) < 1e-12 else "grid"
        body.append(_line(x(tick), _TOP, x(tick), bottom, kind))
        body.append(_text(x(tick), bottom + 15, name, anchor="middle"))
    body += [_line(x(bound), _TOP, x(bound), bottom, "bound") for bound in bounds if x.has(bound)]
    body.append(_text(width / 2, bottom + 31, clipped(x_label, 64), anchor="middle"))
    for number, row in enumerate(rows):
        at = _TOP + step * (number + 0.5)
        drawn = [_text(left - 8, at + 4, names[number], anchor="end")]
        known = [p for p in row.points if p is not None and x.has(p.y)]
        if len(known) > 1:
            first, last = x(known[0].y), x(known[-1].y)
            drawn.append(_line(first, at, last, at, f"link {row.look.colour}"))
        for place, p in enumerate(row.points):
            if p is None or not x.has(p.y):
                continue
            if ends := _ends(p, x):
                drawn.append(_line(ends[0], at, ends[1], at, f"bar {row.look.colour}"))
            value = f"{row.look.label}: {p.y:.3f}"
            drawn.append(mark(x(p.y), at, row.look, hollow=place > 0, title=value))
        body.append(_of(row.look, drawn) if row.strategy else "".join(drawn))
    return PlotPanel(title, description, width, height, "".join(body))


def heat(
    title: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    shares: Sequence[Sequence[float | None]],
    *,
    strategy: int | None = None,
    form: str = ".2f",
) -> PlotPanel:
    """Draw a matrix: numbers are the values, shades their shares of what can be (0 to 1)."""
    left, top, cell, tall = 84.0, 40.0, 41.0, 24.0
    width = left + cell * len(columns) + 4
    body = [_text(4, 14, clipped(title, max(16, int(width / 6.4))), "heading")]
    for j, name in enumerate(columns):
        body.append(_text(left + cell * (j + 0.5), 34, clipped(name, 7), anchor="middle"))
    for i, name in enumerate(rows):
        down = top + tall * i
        body.append(_text(left - 6, down + 16, clipped(name, 14), anchor="end"))
        for j, (value, share) in enumerate(zip(values[i], shares[i], strict=True)):
            across = left + cell * j
            known = value is not None and share is not None and _sane(value * share)
            box = f'x="{across + 0.5:g}" y="{down + 0.5:g}" width="{cell - 1:g}" height="23"'
            shade = f"h{shade_of(share or 0.0)}" if known else "none"
            body.append(f'<rect class="{shade}" {box}/>')
            if known:
                said = format(value, form)
                body.append(_text(across + cell / 2, down + 16, said, f"on-{shade}", "middle"))
    height = top + tall * len(rows) + 4
    return PlotPanel(title, description, width, height, "".join(body), strategy)


def shade_of(share: float) -> int:
    """Return the shade for a share of 0 to 1."""
    return min(SHADES - 1, max(0, int(share * SHADES)))


def scale(title: str, low: str, high: str) -> PlotPanel:
    """Draw the legend of heat maps."""
    boxes = "".join(
        f'<rect class="h{n}" x="{30 * n}" y="0" width="30" height="14"/>' for n in range(SHADES)
    )
    wide = 30 * SHADES
    words = _text(0, 28, low) + _text(wide, 28, high, anchor="end")
    return PlotPanel(title, f"From {low} to {high}.", wide, 32, boxes + words)
