"""The plotting kit: scales by hand, drawings as XML."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_folder import NASTY
from matplotlib.font_manager import findfont
from PIL import ImageFont

import reports
from pmn_cl.studies.ablation import RUNGS
from reports.svg import (
    SHADES,
    Axis,
    DotRow,
    PlotPanel,
    Point,
    Series,
    SeriesStyle,
    _apart,
    dots,
    heat,
    lines,
    scatter,
    shade_of,
    short,
)

SPACE = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)
anything = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, -1.0]))


def parsed(panel: PlotPanel) -> ElementTree.Element:
    text = str(panel.svg("p")).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(text)


def texts(panel: PlotPanel) -> list[str]:
    return ["".join(element.itertext()) for element in parsed(panel).iter(f"{SPACE}text")]


def one(y: float, **more: float) -> list[Series]:
    return [Series(SeriesStyle(0, "pmn"), [Point(y, **more)])]


def test_an_axis_has_a_margin_of_a_twentieth_on_both_sides() -> None:
    axis = Axis([0, 10], 0, 110)
    assert (axis.low, axis.high) == (-0.5, 10.5)
    assert axis(0) == pytest.approx(5)
    assert axis(10) == pytest.approx(105)
    assert axis(-100) == 0 and axis(100) == 110  # cut off at its ends
    assert axis.ticks == pytest.approx([0, 2, 4, 6, 8, 10])
    assert axis.names == ["0", "2", "4", "6", "8", "10"]


def test_a_logarithmic_axis_grows_by_factors() -> None:
    axis = Axis([1, 100], 0, 100, log=True)
    assert axis(10) == pytest.approx(50)
    assert axis.ticks == [1, 10, 100]
    assert not axis.has(0) and axis.has(1)


@pytest.mark.parametrize(
    ("low", "high", "names"),
    [
        (0.0, 0.03, ["0.000", "0.005", "0.010", "0.015", "0.020", "0.025", "0.030"]),
        (62.0, 62.1, ["62.00", "62.02", "62.04", "62.06", "62.08", "62.10"]),
        (0.0, 300_000.0, ["0", "50k", "100k", "150k", "200k", "250k", "300k"]),
    ],
)
def test_ticks_are_named_with_as_many_digits_as_tell_them_apart(
    low: float, high: float, names: list[str]
) -> None:
    assert Axis([low, high], 0, 100).names == names


@given(st.lists(numbers, min_size=1, max_size=5))
def test_values_keep_their_order_and_ticks_lie_inside(values: list[float]) -> None:
    axis = Axis(values, 50, 300)
    places = [axis(v) for v in sorted(values)]
    assert places == sorted(places)
    assert all(50 < place < 300 for place in places)
    assert 1 <= len(axis.ticks) <= 9
    assert all(axis.low - 1e-9 <= tick <= axis.high + 1e-9 for tick in axis.ticks)
    assert len(set(axis.names)) == len(axis.ticks)


def test_short_numbers() -> None:
    assert [short(v) for v in (0, 0.25, 999, 1500, 2.5e6, 3e9)] == [
        *("0", "0.25", "999", "1.5k", "2.5M", "3G")
    ]


def test_looks_differ_in_more_than_colour() -> None:
    looks = [SeriesStyle(n, "") for n in range(64)]
    assert len({(look.colour, look.marker) for look in looks}) == 64
    assert len({look.marker for look in looks[:8]}) == 8
    assert len({look.dashes for look in looks[:4]}) == 4


def test_an_interval_is_drawn_from_end_to_end() -> None:
    rows = [
        DotRow(SeriesStyle(0, "a"), [Point(0.0, -1.0, 1.0)]),
        DotRow(SeriesStyle(1, "b"), [Point(4.0)]),
    ]
    panel = dots("t", "d", rows, x_label="x")
    x = Axis([0, 4, -1, 1], 138, 322)
    [bar] = [p for p in parsed(panel).iter(f"{SPACE}path") if p.get("class") == "bar c0"]
    ends = [float(v) for v in re.findall(r"[ML]([\d.]+)", bar.get("d", ""))]
    assert ends == pytest.approx([x(-1), x(1)], abs=0.06)


@pytest.mark.parametrize("name", [*RUNGS, "hard_sharing_cumulative matched"])
def test_a_name_before_a_row_has_room(name: str) -> None:
    panel = dots("t", "d", [DotRow(SeriesStyle(0, name), [Point(0.1)])], x_label="x")
    [text] = [t for t in parsed(panel).iter(f"{SPACE}text") if t.text == name]  # all of it
    wide = ImageFont.truetype(findfont("DejaVu Sans"), 11)  # wider than what most systems have
    assert text.get("text-anchor") == "end" and wide.getlength(name) <= float(text.get("x", 0))


def test_the_second_value_of_a_row_is_hollow() -> None:
    panel = dots("t", "d", [DotRow(SeriesStyle(2, "a"), [Point(0.1), Point(0.3)])], x_label="x")
    marks = [p.get("class") for p in parsed(panel).iter(f"{SPACE}path")]
    assert marks.count("mark c2") == 1 and marks.count("hollow c2") == 1


def test_many_lines_are_drawn_without_their_intervals() -> None:
    def bands(count: int) -> int:
        points = [Point(0.1, 0.0, 0.2, 0), Point(0.2, 0.1, 0.3, 1)]
        series = [Series(SeriesStyle(n, str(n)), points) for n in range(count)]
        return lines("t", "d", series, x_label="x", y_label="y", band=True).body.count('"band')

    assert bands(10) == 10
    assert bands(11) == 0


def test_shades_and_numbers_of_a_heat_map() -> None:
    panel = heat("t", "d", ["r0", "r1"], ["a", "b"], [[0.5, None], [1, 2]], [[0.25, None], [1, 0]])
    rects = [rect.get("class") for rect in parsed(panel).iter(f"{SPACE}rect")]
    assert rects == ["h2", "none", f"h{SHADES - 1}", "h0"]
    assert texts(panel) == ["t", "a", "b", "r0", "0.50", "r1", "1.00", "2.00"]


def test_shades_go_from_first_to_last() -> None:
    assert [shade_of(v) for v in (-1, 0, 0.09, 0.11, 0.999, 1, 7)] == [0, 0, 0, 1, 9, 9, 9]


@pytest.mark.parametrize("name", NASTY.values(), ids=NASTY)
def test_names_stay_text(name: str) -> None:
    series = [Series(SeriesStyle(0, name), [Point(0.1, x=1.0), Point(0.2, x=2.0)])]
    drawn = [
        lines(name, name, series, x_label=name, y_label=name, names=[name, name, name]),
        scatter(name, name, series, x_label=name, y_label=name),
        dots(name, name, [DotRow(SeriesStyle(0, name), [Point(0.1)])], x_label=name),
        heat(name, name, [name], [name], [[0.1]], [[0.1]]),
    ]
    for panel in drawn:
        root = parsed(panel)
        known = {"title", "desc", "text", "path", "g", "rect"}
        assert {element.tag.removeprefix(SPACE) for element in root.iter()} - {"svg"} <= known
        assert (root.findtext(f"{SPACE}title") or "")[:1999] == name[:1999]
        assert (root.findtext(f"{SPACE}desc") or "")[:1999] == name[:1999]
        assert len(panel.svg("p")) < 20_000


@given(st.lists(st.builds(Point, anything, anything, anything, anything), max_size=4))
def test_what_is_not_finite_is_not_drawn(points: list[Point]) -> None:
    series = [Series(SeriesStyle(0, "a"), points)]
    for panel in (
        lines("t", "d", series, x_label="x", y_label="y"),
        lines("t", "d", series, x_label="x", y_label="y", band=True, origin=True),
        lines("t", "d", series, x_label="x", y_label="y", log=True, ticks=(1, 10)),
        scatter("t", "d", series, x_label="x", y_label="y"),
        dots("t", "d", [DotRow(SeriesStyle(0, "a"), points)], x_label="x", zero=True),
        heat("t", "d", ["r"], ["c"] * len(points), [[p.y for p in points]], [[1.0] * len(points)]),
    ):
        drawn = " ".join(
            value
            for element in parsed(panel).iter()
            for name, value in element.attrib.items()
            if name not in ("class", "role", "aria-labelledby", "id")
        )
        assert not re.search("nan|inf", drawn)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8).map(sorted))
def test_names_beside_points_do_not_overlap(wanted: list[float]) -> None:
    placed = _apart(wanted, 12.5, 0, 100)
    assert all(b - a >= 12.5 - 1e-9 for a, b in pairwise(placed))
    assert all(-1e-9 <= place <= 100 for place in placed)
    if all(b - a >= 12.5 for a, b in pairwise(wanted)):
        assert placed == pytest.approx(wanted)


# --- colours ------------------------------------------------------------------------------

STYLE = (Path(reports.__file__).parent / "drawing.css").read_text("utf-8")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", STYLE)
}


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_formula() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WCAG's own example


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read_in_both_themes(theme: int) -> None:
    of = {name: both[theme] for name, both in COLOURS.items()}
    for text in ("text", "soft", "link", "good", "bad"):
        for back in ("back", "raised"):
            assert contrast(of[text], of[back]) >= 4.5, (text, back)
    for n in range(8):
        assert contrast(of[f"c{n}"], of["back"]) >= 3, f"c{n}"
    for n in range(SHADES):
        on = of["on-low"] if n < 6 else of["on-high"]
        assert contrast(of[f"h{n}"], on) >= 4.5, f"h{n}"
