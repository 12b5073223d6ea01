"""A picture of the world to look at: six scenes with boxes, truth, a caption and questions.

``panels`` decides what is shown and where on a scene; here it is drawn. Lengths are pixels of the
picture, which has 72 of them to the inch, so that font sizes are pixels too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from benchmarks.worlds.digit_scenes.concepts import COLOUR_NAMES, DIGITS, GROUNDS
from benchmarks.worlds.digit_scenes.layout import (
    FONT,
    LABEL_SIZE,
    SCALE,
    SIDE,
    Point,
    text_width,
    wrap,
)
from benchmarks.worlds.digit_scenes.panels import (
    BOLDER,
    TAG_WIDTH,
    TEXT_SIZE,
    AskedQuestion,
    Panel,
    choose_panels,
    lines_of,
)
from benchmarks.worlds.digit_scenes.phrasing import with_article
from benchmarks.worlds.digit_scenes.render import draw
from benchmarks.worlds.digit_scenes.scenes import BACKGROUND, Scene, overlap
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

_COLUMNS, _GAP = 3, 68
_WIDTH = _COLUMNS * (SIDE + _GAP) + _GAP
_LEADING, _SMALL = 23, 14
_DARK, _WHITE, _GREY, _ACCENT = "#1b1f27", "#ffffff", "#747a85", "#e0107f"
_OBJECT, _DUPLICATE, _EMPTY = "-", (0, (4, 2.5)), (0, (1, 1.8))  # line styles
_STAR, _TO = "\N{BLACK STAR}", "\N{RIGHTWARDS ARROW}"
_TITLE = "The digit world: scenes of real handwritten digits, and questions with exact answers"
_EXPLANATION = (
    "A detector proposes boxes; a model gets the place and the features of each box, never the "
    "picture. All labels, captions and answers are exact by construction."
)


def draw_preview(store: Store, path: Path) -> None:
    """Draw some scenes with their truth into a PNG file."""
    canvas: Any = FigureCanvasAgg(make_figure(store))  # matplotlib leaves it untyped
    try:
        canvas.print_png(path)  # savefig would obey the user's own settings
    except OSError as error:
        raise UserError(
            f"{path}: could not be written ({error}); name a file in a folder that exists "
            "and that you may write to"
        ) from error


def make_figure(store: Store) -> Figure:
    """Return the picture before it is saved; its one axes measures pixels from the top left."""
    figure = Figure(dpi=72, facecolor=_WHITE)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    bottom = _draw_heading(axes)
    panels = choose_panels(store)
    for first in range(0, len(panels), _COLUMNS):
        row = enumerate(panels[first : first + _COLUMNS])
        ends = [_draw_panel(axes, panel, _GAP + i * (SIDE + _GAP), bottom) for i, panel in row]
        bottom = max(ends) + 44
    figure.set_size_inches(_WIDTH / 72, bottom / 72)
    axes.set(xlim=(0, _WIDTH), ylim=(bottom, 0))
    return figure


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write one line or several, its (first) baseline at y."""
    usual = {"family": FONT, "size": TEXT_SIZE, "color": _DARK, "va": "baseline"}
    axes.text(x, y, text, **{**usual, **style})


def _draw_heading(axes: Axes) -> float:
    """Write the title and explain the lines; return where the scenes may begin."""
    _write(axes, _GAP, 74, _TITLE, size=37, weight="bold")
    _write(axes, _GAP, 114, _EXPLANATION, size=18, color=_GREY)
    x, y = float(_GAP), 156
    entries: tuple[tuple[Any, str], ...] = (
        (_OBJECT, "a box on an object, with its true label"),
        (_DUPLICATE, "another box on the same object"),
        (_EMPTY, "a box on nothing"),
        (None, "a relation, from the box given to the box sought"),
    )
    for style, text in entries:
        if style is None:
            _draw_arrow(axes, (x, y - 6), (x + 46, y - 6))
        else:
            colour = _GREY if style == _EMPTY else _DARK
            _draw_box(axes, (x, y - 20, x + 42, y + 7), style, colour)
        _write(axes, x + 56, y, text)
        x += 56 + text_width(text, TEXT_SIZE) + 48
    _write(axes, x, y, _STAR, size=20)
    _write(axes, x + 26, y, "never seen in training")
    return 196


def _draw_box(axes: Axes, box: tuple[float, ...], style: Any, colour: str) -> None:
    x1, y1, x2, y2 = box
    width = 2.0 if style == _EMPTY else 1.5
    axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, ec=colour, ls=style, lw=width))


def _draw_arrow(axes: Axes, start: Point, end: Point) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=18,
            lw=2.6,
            color=_ACCENT,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _draw_panel(axes: Axes, panel: Panel, x: float, y: float) -> float:
    """Draw a scene and write below it; return where that ends."""
    novel = _never_seen(panel.scene)
    heading = f"{_STAR} Never seen in training:" if novel else "Test scene"
    _write(axes, x, y + 18, heading, weight="bold")
    _write(axes, x + text_width(heading, TEXT_SIZE * BOLDER) + 4, y + 18, novel)
    y += 32
    axes.imshow(
        draw(panel.scene, SCALE),
        extent=(x, x + SIDE, y + SIDE, y),
        interpolation="nearest",
        aspect="auto",
    )
    _draw_truth(axes, panel, x, y)
    y += SIDE + 32
    for line in wrap(f"“{panel.caption}”", SIDE, TEXT_SIZE):
        _write(axes, x, y, line, style="italic")
        y += _LEADING
    y += 8
    for asked in panel.asked:
        drawn = asked.link is not None and panel.arrow is not None
        y = _draw_question(axes, asked, x, y, drawn=drawn)
    return y


def _never_seen(scene: Scene) -> str:
    """Return what in this scene training never shows, or nothing."""
    pairs = sorted({(t.digit, t.colour) for t in scene.things if t.novel})
    names = [with_article(f"{COLOUR_NAMES[c]} {DIGITS[d]}") for d, c in pairs]
    return ", ".join(names if len(names) < 3 else [*names[:2], "…"])


def _draw_truth(axes: Axes, panel: Panel, x: float, y: float) -> None:
    """Draw boxes, labels and the arrow onto a scene whose corner is at (x, y)."""
    scene = panel.scene
    dark_ground = sum(list(GROUNDS.values())[scene.ground]) < 3 * 128
    ink, paper = (_WHITE, _DARK) if dark_ground else (_DARK, _WHITE)
    best = _best_regions(scene)
    for region, (box, owner) in enumerate(zip(scene.regions, scene.owners, strict=True)):
        x1, y1, x2, y2 = (edge * SCALE for edge in box)
        style = _EMPTY if owner == BACKGROUND else _OBJECT if region in best else _DUPLICATE
        colour = ("#b4bac4" if dark_ground else _GREY) if owner == BACKGROUND else ink
        _draw_box(axes, (x + x1, y + y1, x + x2, y + y2), style, colour)
    if panel.arrow is not None:
        start, end = ((x + px, y + py) for px, py in panel.arrow)
        _draw_arrow(axes, start, end)
    for note in panel.notes:
        look: dict[str, Any] = {"color": ink}
        if note.thing is None:
            look = {"color": _WHITE, "weight": "bold", "bbox": _pill(_ACCENT)}
        elif scene.things[note.thing].novel:
            look = {"color": paper, "bbox": _pill(ink)}
        at = {"ha": "center", "va": "center", "linespacing": 1.15, "size": LABEL_SIZE}
        _write(axes, x + note.at[0], y + note.at[1], note.text, **at, **look)


def _pill(colour: str) -> dict[str, Any]:
    return {"boxstyle": "round,pad=0.2", "facecolor": colour, "edgecolor": "none"}


def _best_regions(scene: Scene) -> set[int]:
    """Return for each thing the box that fits it best; its others are duplicates."""

    def misses(region: int) -> int:
        box, true = scene.regions[region], scene.things[scene.owners[region]].box
        return overlap(box, box) + overlap(true, true) - 2 * overlap(box, true)

    return {min(scene.regions_of(thing), key=misses) for thing in range(len(scene.things))}


def _draw_question(axes: Axes, asked: AskedQuestion, x: float, y: float, *, drawn: bool) -> float:
    """Write a question and its answer; ``drawn`` marks the one that the arrow belongs to."""
    tag = f"{asked.kind} {_TO}" if drawn else asked.kind
    _write(axes, x, y, tag, size=_SMALL, color=_ACCENT if drawn else _GREY)
    _write(axes, x + SIDE, y, asked.answer, weight="bold", ha="right")
    for line in lines_of(asked):
        _write(axes, x + TAG_WIDTH, y, line)
        y += _LEADING
    if asked.never_asked:
        mark = f"{_STAR} never asked in training: {asked.never_asked}"
        _write(axes, x + TAG_WIDTH, y, mark, size=_SMALL)
        y += _LEADING
    return y + 7
