"""The picture of an explanation: everything is on it, nothing beyond its edges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_explanations import baseline, call, relational
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.explanation import Explanation, Message
from reports.explanation import ExplanationView
from reports.explanation_picture import draw, make_figure

SCENE = np.full((40, 40, 3), 200, dtype=np.uint8)
NASTY = [
    "<script>alert(1)</script> $\\frac{1}{2$ & %",
    "מה הצבע של \u202eשבע",
    "word" * 2_500,
    "a\nb",
]


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def extents(figure: Figure) -> tuple[list[Any], Any]:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    return [t.get_window_extent(renderer) for t in figure.axes[0].texts], figure.bbox


def nasty(text: str) -> Explanation:
    said = Message(words=text, chances={text: 0.9})
    return relational(
        **{"question": text, "answer": text, "truth": text, "runners_up": [(text, 0.1)]},
        **{"regions": [text] * 3, "caption": [text, "ring"], "unknown_words": [text]},
        **{"run": text, "strategy": text},
        calls=[call(1, "att", 1, 0.6, query=said, reply=said)],
    )


def test_all_parts_are_on_the_picture() -> None:
    found = " ".join(written(make_figure(ExplanationView(relational(), baseline(), SCENE))))
    for expected in (
        "what colour is the symbol left of the red seven?",
        "look 1: 0.81, 2: 0.81 · box 1",
        "asked 0.90 · box 0",
        "M_rel 0.90 · box 1",
        "the box it gave to M_rel",
        "step 1",
        "step 2",
        "3–4",
        "green ✓",
        "red ✗",
        "ring",
        "pmn says",
        "independent says",
    ):
        assert expected in found
    sentence = relational().sentence
    assert sentence in found.replace("” ", "”").replace("“I", "I") or sentence[:60] in found


def test_without_a_baseline_there_is_nothing_of_it() -> None:
    found = " ".join(written(make_figure(ExplanationView(relational(), None, SCENE))))
    assert "independent" not in found


def test_another_trace_is_another_picture() -> None:
    steps = [
        s.model_copy(update={"gates": {**s.gates, "rel": 0.1, "Ω": 0.9}})
        for s in relational().steps
    ]
    found = " ".join(written(make_figure(ExplanationView(relational(steps=steps), None, SCENE))))
    assert "asked 0.90" not in found
    assert "I looked at the red seven" in found


@pytest.mark.parametrize("text", NASTY, ids=["script", "right to left", "long", "lines"])
def test_nothing_leaves_the_picture_whatever_the_words(text: str) -> None:
    figure = make_figure(ExplanationView(nasty(text), nasty(text), SCENE))
    boxes, page = extents(figure)
    for box in boxes:
        assert box.x0 >= -1 and box.x1 <= page.x1 + 1
        assert box.y0 >= -1 and box.y1 <= page.y1 + 1
    assert any(text[:5].replace("\n", " ") in said for said in written(figure))


def test_labels_do_not_cover_each_other() -> None:
    figure = make_figure(ExplanationView(relational(), None, SCENE))
    boxes, _ = extents(figure)
    labels = [
        box
        for box, text in zip(boxes, figure.axes[0].texts, strict=True)
        if "· box" in text.get_text()
    ]
    assert len(labels) == 3
    for number, one in enumerate(labels):
        assert not any(one.overlaps(other) for other in labels[:number])


def test_files_are_what_their_names_say(tmp_path: Path) -> None:
    shown = ExplanationView(nasty(NASTY[0]), baseline(), SCENE)
    draw(shown, tmp_path / "a.png")
    draw(shown, tmp_path / "a.svg")
    assert imread(tmp_path / "a.png").shape[1] == 2800
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert re.search(r"<svg [^>]*width=\"1400pt\"", svg)
    assert "<script" not in svg
    draw(shown, tmp_path / "again.svg")
    with pytest.raises(UserError, match=r"a.png: cannot be written"):
        draw(shown, tmp_path / "none" / "a.png")
