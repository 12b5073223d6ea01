"""How a question was answered, as one picture, after the paper's Figure 2 and its appendix.

Lengths are pixels of a page 1400 wide, from the top left; font sizes are pixels, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from numpy.typing import NDArray

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.explanation import Explanation
from reports.explanation import (
    KINDS,
    ExplanationView,
    Kind,
    Mark,
    TextLine,
    answers,
    lines,
    marks,
    place,
    printable,
    unknown,
    verdict,
)

FORMATS = (".png", ".svg")
_WIDTH, _MARGIN, _GAP = 1400.0, 36.0, 32.0
_SCENE, _SMALL_SCENE, _RIGHT = 410.0, 292.0, 292.0
_FONT = "DejaVu Sans"
_INK, _GREY, _PALE, _PAPER = "#1b1f27", "#6b7280", "#d6dae1", "#ffffff"
_NAMED, _UNNAMED = "#3b4cc0", "#aab2c0"  # gate bars
_GOOD, _BAD = "#1a7f37", "#b42318"
_BY_DEPTH = ("#ffffff", "#f0f1f4", "#e1e4ea", "#d2d6de")
# Different in colour, line and label: readable in grey, and to all eyes.
_STYLES: dict[Kind, tuple[str, Any]] = {
    "looked": ("#d1480b", "-"),
    "asked": ("#0a62b8", (0, (5, 2.2))),
    "shown": ("#0b7a54", (0, (7, 2, 1.5, 2))),
}
_LONGEST = 600  # letters of a text that are looked at, however long it is


def draw(shown: ExplanationView, path: Path) -> None:
    """Draw a question into a file, by its suffix: .png or .svg."""
    figure = make_figure(shown)
    try:
        if path.suffix.lower() == ".svg":
            canvas: Any = FigureCanvasSVG(figure)  # matplotlib leaves them untyped
            canvas.print_svg(path, metadata={"Date": None})
        else:
            figure.set_dpi(144)
            canvas = FigureCanvasAgg(figure)
            canvas.print_png(path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); name a file in a folder that is there"
        ) from None


def make_figure(shown: ExplanationView) -> Figure:
    """Return the picture before it is saved; its one axes measures pixels from the top left."""
    figure = Figure(dpi=72, facecolor=_PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    explanation, baseline = shown.explanation, shown.baseline
    top = _draw_question(axes, explanation)
    left = _draw_left(axes, shown, _MARGIN, top)
    middle = _MARGIN + _SCENE + _GAP
    width = _WIDTH - middle - _GAP - _RIGHT - _MARGIN
    centre = _draw_calls(axes, explanation, middle, top, width)
    right = _draw_right(axes, shown, _WIDTH - _MARGIN - _RIGHT, top)
    bottom = max(left, centre, right) + 18
    for one in filter(None, (explanation, baseline)):
        bottom = _draw_sentence(axes, one, bottom)
    bottom += 18
    figure.set_size_inches(_WIDTH / 72, bottom / 72)
    axes.set(xlim=(0, _WIDTH), ylim=(bottom, 0))
    return figure


# --- words -------------------------------------------------------------------------------


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write a line with its baseline at y; what comes from data is no formula."""
    usual = {"family": _FONT, "size": 15, "color": _INK, "va": "baseline", "parse_math": False}
    axes.text(x, y, printable(text), **{**usual, **style})


@lru_cache(maxsize=4096)
def _width(text: str, size: float, weight: str = "normal") -> float:
    font = get_font(findfont(FontProperties(family=_FONT, weight=weight)))
    font.set_size(size, 72)
    font.set_text(printable(text))
    return float(font.get_width_height()[0]) / 64


def _fitting(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return as much of a text as there is room for, and an ellipsis where that is not all."""
    kept = text[:_LONGEST]
    while kept and _width(f"{kept}…" if kept != text else kept, size, weight) > width:
        excess = _width(kept, size, weight) / max(width, 1.0)
        kept = kept[: min(len(kept) - 1, int(len(kept) / excess) + 1)]
    return kept if kept == text else f"{kept}…"


def _wrapped(text: str, width: float, size: float, most: int, weight: str = "normal") -> list[str]:
    """Return a text in lines of this width, at most so many."""
    found, words = [""], text[: most * _LONGEST].split()
    while words:
        line = f"{found[-1]} {words[0]}".strip()
        if len(found) == most:  # what is left goes here, as far as it does
            found[-1] = _fitting(" ".join([line, *words[1:]]), width, size, weight)
            return found
        if not found[-1] or _width(line, size, weight) <= width:
            found[-1] = line
            words.pop(0)
        else:
            found.append("")
    return [_fitting(line, width, size, weight) for line in found]


# --- the parts ---------------------------------------------------------------------------


def _draw_question(axes: Axes, explanation: Explanation) -> float:
    y = 60.0
    for line in _wrapped(explanation.question, _WIDTH - 2 * _MARGIN, 30, 2, "bold"):
        _write(axes, _MARGIN, y, line, size=30, weight="bold")
        y += 38
    about = [place(explanation), f"{explanation.strategy}, run {explanation.run}"]
    if explanation.truth is not None:
        about.append(f"truth: {explanation.truth}")
    about.append(unknown(explanation))
    said = _fitting(" · ".join(filter(None, about)), _WIDTH - 2 * _MARGIN, 16)
    _write(axes, _MARGIN, y - 6, said, size=16, color=_GREY)
    return y + 24


def _heading(axes: Axes, x: float, y: float, text: str, width: float) -> float:
    _write(axes, x, y + 14, _fitting(text, width, 16, "bold"), size=16, weight="bold")
    axes.plot([x, x + width], [y + 23, y + 23], color=_PALE, lw=1)
    return y + 36


def _draw_left(axes: Axes, shown: ExplanationView, x: float, y: float) -> float:
    """Draw the scene with its boxes, what their lines mean, and the caption."""
    explanation = shown.explanation
    _draw_scene(axes, shown.scene, explanation, x, y, _SCENE)
    y += _SCENE + 26
    kinds = dict.fromkeys(mark.kind for mark in marks(explanation))
    for kind in kinds:
        colour, style = _STYLES[kind]
        axes.add_patch(Rectangle((x + 1, y - 13), 34, 16, fill=False, ec=colour, ls=style, lw=2.6))
        _write(axes, x + 46, y, KINDS[kind], size=14)
        y += 25
    if explanation.caption:
        y = _draw_caption(axes, explanation, x, y + 2, _SCENE)
    return y


def _draw_scene(
    axes: Axes, pixels: NDArray[Any], explanation: Explanation, x: float, y: float, side: float
) -> None:
    axes.imshow(pixels, extent=(x, x + side, y + side, y), interpolation="nearest", aspect="auto")
    light = float(pixels.mean()) > 128
    for box in explanation.boxes:
        _box(axes, box, x, y, side, ec="#00000055" if light else "#ffffff66", lw=0.8)
    for box, share in zip(explanation.boxes, explanation.attended, strict=True):
        _box(axes, box, x, y, side, fc=_STYLES["looked"][0], alpha=0.45 * min(share, 1), lw=0)
    drawn = marks(explanation)
    placed: list[_Area] = []
    for number, mark in enumerate(drawn):
        colour, style = _STYLES[mark.kind]
        # Several lines about one box stand around each other.
        wider = 3.5 * sum(other.box == mark.box for other in drawn[:number])
        box = explanation.boxes[mark.box]
        _box(axes, box, x, y, side, wider=wider, ec=_PAPER, lw=4.6)
        _box(axes, box, x, y, side, wider=wider, ec=colour, ls=style, lw=2.6)
    for mark in drawn:
        placed.append(_draw_label(axes, mark, explanation, placed, x, y, side))


def _box(
    axes: Axes,
    box: Sequence[float],
    x: float,
    y: float,
    side: float,
    *,
    wider: float = 0.0,
    fc: str = "none",
    ec: str = "none",
    **style: Any,
) -> None:
    x1, y1, x2, y2 = (edge * side for edge in box)
    corner = (x + x1 - wider, y + y1 - wider)
    size = (x2 - x1 + 2 * wider, y2 - y1 + 2 * wider)
    axes.add_patch(Rectangle(corner, *size, facecolor=fc, edgecolor=ec, **style))


class _Area(NamedTuple):
    x1: float
    y1: float
    x2: float
    y2: float

    def meets(self, other: _Area) -> bool:
        apart = self.x2 < other.x1 or other.x2 < self.x1 or self.y2 < other.y1 or other.y2 < self.y1
        return not apart


def _draw_label(
    axes: Axes,
    mark: Mark,
    explanation: Explanation,
    placed: Sequence[_Area],
    x: float,
    y: float,
    side: float,
) -> _Area:
    """Write a mark's label beside its box, where nothing else is; return what it covers."""
    size, high = (13.0, 19.0) if side > _SMALL_SCENE else (11.5, 17.0)
    text = f"{mark.label} · box {mark.box}"
    wide = _width(text, size, "bold") + 10
    x1, y1, x2, y2 = (edge * side for edge in explanation.boxes[mark.box])
    rows = [y1 - high - 8, y2 + 8, y1 - 2 * high - 10, y2 + high + 10, y1 - 3 * high - 12]
    corners = [(left, row) for row in rows for left in (x1, x2 - wide)]
    boxes = (explanation.boxes[other.box] for other in marks(explanation))
    marked = [_Area(x + a * side, y + b * side, x + c * side, y + d * side) for a, b, c, d in boxes]
    areas = []
    for left, row in [*corners, (x2 + 8, y1), (x1 - wide - 8, y1)]:
        left = min(max(left, 2), side - wide - 2)
        row = min(max(row, 2), side - high - 2)
        areas.append(_Area(x + left, y + row, x + left + wide, y + row + high))
    free = [area for area in areas if not any(area.meets(other) for other in placed)]
    best = [area for area in free if not any(area.meets(box) for box in marked)]
    area = (best or free or areas)[0]
    axes.add_patch(
        FancyBboxPatch(
            (area.x1, area.y1), wide, high, boxstyle="round,pad=0,rounding_size=3",
            facecolor=_STYLES[mark.kind][0], edgecolor=_PAPER, lw=1,
        )
    )  # fmt: skip
    _write(axes, area.x1 + 5, area.y2 - 5, text, size=size, weight="bold", color=_PAPER)
    return area


def _draw_caption(axes: Axes, explanation: Explanation, x: float, y: float, width: float) -> float:
    """Write M_cap's words, each on a ground as strong as its attention."""
    y = _heading(axes, x, y, "M_cap's caption, by attention", width) + 12
    attention = explanation.caption_attention or [0.0] * len(explanation.caption)
    at = x
    for word, share in zip(explanation.caption, attention, strict=True):
        fitting = _fitting(word, width - 10, 16)
        wide = _width(fitting, 16) + 8
        if at + wide > x + width:
            at, y = x, y + 27
        axes.add_patch(
            Rectangle((at, y - 17), wide, 23, facecolor="#c81e1e", alpha=0.75 * share, lw=0)
        )
        _write(axes, at + 4, y, fitting, size=16, color=_PAPER if share > 0.6 else _INK)
        at += wide + 2
    return y + 22


def _draw_calls(axes: Axes, explanation: Explanation, x: float, y: float, width: float) -> float:
    """Write the calls in order, deeper ones on a darker ground."""
    y = _heading(axes, x, y, "calls, gates (blue: named below), scratch pad: query → reply", width)
    step = 0
    for line in lines(explanation):
        if line.depth == 0 and line.step > step:
            step = line.step
            _write(axes, x, y + 15, f"step {step}", size=14, weight="bold", color=_GREY)
            y += 24
        y = _draw_call(axes, line, x, y, width)
    return y + 4


def _draw_call(axes: Axes, line: TextLine, x: float, y: float, width: float) -> float:
    indent = 22.0 * line.depth
    words = x + indent + 216
    room = x + width - words - 6
    parts = [t for t in (line.query, f"→ {line.reply}" if line.reply else "") if t]
    joined = " ".join(parts)
    if line.reply and line.query in ("where to look", "the region looked at", "the question"):
        joined = f"→ {line.reply}"
    fits = _width(joined, 13.5) <= room
    texts = [joined] if fits else [row for t in parts for row in _wrapped(t, room, 13.5, 2)]
    high = 27.0 + 18 * (len(texts) - 1)
    ground = _BY_DEPTH[min(line.depth, len(_BY_DEPTH) - 1)]
    axes.add_patch(Rectangle((x + indent, y), width - indent, high - 2, facecolor=ground, lw=0))
    _draw_number(axes, line.numbers, x + indent + 16, y + 12.5)
    weight = "bold" if line.named else "normal"
    callee = _fitting(line.callee, 58 if line.gate is not None else 170, 15, weight)
    _write(axes, x + indent + 36, y + 18, callee, size=15, weight=weight)
    if line.gate is not None:
        _draw_bar(axes, line.gate, x + indent + 96, y + 6, 66, _NAMED if line.named else _UNNAMED)
        _write(axes, x + indent + 170, y + 18, f"{line.gate:.2f}", size=14, weight=weight)
    for number, text in enumerate(texts):
        fitting = _fitting(text, room, 13.5)
        _write(axes, words, y + 17.5 + 18 * number, fitting, size=13.5, color=_INK)
    return y + high


def _draw_number(axes: Axes, numbers: str, x: float, y: float) -> None:
    if "–" in numbers:
        _write(axes, x, y + 4, numbers, size=11, ha="center", color=_GREY)
        return
    axes.add_patch(Circle((x, y), 10.5, facecolor=_PAPER, edgecolor=_INK, lw=1.1))
    _write(axes, x, y + 4.3, numbers, size=12, ha="center")


def _draw_bar(axes: Axes, share: float, x: float, y: float, width: float, colour: str) -> None:
    axes.add_patch(Rectangle((x, y), width, 13, facecolor="#e9ebf0", lw=0))
    filled = width * min(max(share, 0.0), 1.0)
    axes.add_patch(Rectangle((x, y), filled, 13, facecolor=colour, lw=0))


def _draw_right(axes: Axes, shown: ExplanationView, x: float, y: float) -> float:
    """Draw the answer with its runners-up, and the baseline's attention and answer."""
    y = _draw_answers(axes, shown.explanation, x, y)
    if shown.baseline is None:
        return y
    y = _heading(axes, x, y + 10, f"beside it: {shown.baseline.strategy}", _RIGHT)
    _draw_scene(axes, shown.scene, shown.baseline, x, y, _SMALL_SCENE)
    return _draw_answers(axes, shown.baseline, x, y + _SMALL_SCENE + 14)


def _draw_answers(axes: Axes, explanation: Explanation, x: float, y: float) -> float:
    right = verdict(explanation).partition(",")[0] or "answer"
    y = _heading(axes, x, y, f"{explanation.strategy}: {right}", _RIGHT)
    for number, (answer, probability) in enumerate(answers(explanation)):
        true = answer == explanation.truth
        given = number == 0
        weight = "bold" if given else "normal"
        mark = " ✓" if true else " ✗" if given and explanation.right is False else ""
        colour = _GOOD if true else _BAD if mark else _INK
        fitting = _fitting(answer, 104 - _width(mark, 15, weight), 15, weight)
        _write(axes, x, y + 14, f"{fitting}{mark}", weight=weight, color=colour)
        _draw_bar(axes, probability, x + 116, y + 2, 124, _NAMED if given else _UNNAMED)
        _write(axes, x + _RIGHT, y + 14, f"{probability:.2f}", ha="right", weight=weight)
        y += 25
    return y + 4


def _draw_sentence(axes: Axes, explanation: Explanation, y: float) -> float:
    """Write the sentence over the whole width."""
    width = _WIDTH - 2 * _MARGIN - 24
    rows = _wrapped(f"“{explanation.sentence}”", width, 17, 6)
    high = 34 + 25 * len(rows)
    axes.add_patch(Rectangle((_MARGIN, y), _WIDTH - 2 * _MARGIN, high, facecolor="#f5f6f8", lw=0))
    axes.add_patch(Rectangle((_MARGIN, y), 5, high, facecolor=_NAMED, lw=0))
    speaker = _fitting(f"{explanation.strategy} says", width, 14)
    _write(axes, _MARGIN + 20, y + 22, speaker, size=14, color=_GREY)
    for number, line in enumerate(rows):
        _write(axes, _MARGIN + 20, y + 46 + 25 * number, line, size=17)
    return y + high + 12
