"""How a question was answered, for people: as text, and as a page.

All that is shown follows from the ``Explanation``; pixels of the scene are only drawn upon. Words
of the data are shown as they are, and never taken for markup.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from pmn_cl.explaining.records.explanation import (
    ATTEND,
    CAPTION,
    RELATION,
    RESIDUAL,
    Box,
    CallRecord,
    Explanation,
)
from pmn_cl.explaining.records.sentence import call_of, named, place_of

Kind = Literal["asked", "shown", "looked"]
KINDS: dict[Kind, str] = {
    "looked": "where it looked, by step",
    "asked": "the box it gave to M_rel",
    "shown": "the box M_rel replied with",
}
ANSWERS = 5  # shown, the one given included
_BAR = 10  # letters
_AROUND = 0.012  # of a scene's side
_FAINT = 0.02  # a share below which a box is not shaded


class ExplanationView(NamedTuple):
    """A question with what there is to see: its scene, and the baseline beside it."""

    explanation: Explanation
    baseline: Explanation | None
    scene: NDArray[Any]  # (H, W, 3)


class Mark(NamedTuple):
    """A box with a label."""

    kind: Kind
    box: int
    label: str


class TextLine(NamedTuple):
    """One call, or several that are alike."""

    numbers: str
    depth: int
    step: int
    callee: str
    gate: float | None
    named: bool  # by the sentence
    query: str
    reply: str


# --- what is shown -----------------------------------------------------------------------


def title(module: str) -> str:
    """Return a module's name as the paper writes it."""
    return module if module in (ATTEND, RESIDUAL) else f"M_{module}"


def marks(explanation: Explanation) -> list[Mark]:
    """Return the boxes to be drawn: where it looked, and what passed between it and M_rel."""
    looked: dict[int, list[str]] = {}
    for number, step in enumerate(explanation.steps, start=1):
        place = place_of(explanation, step.attended)
        looked.setdefault(place.boxes[0], []).append(f"{number}: {place.share:.2f}")
    found = [Mark("looked", box, f"look {', '.join(shares)}") for box, shares in looked.items()]
    for part in named(explanation):
        call = call_of(explanation, part.callee, part.step)
        if part.callee == RELATION and call is not None and call.query.boxes:
            given = place_of(explanation, call.query.boxes)
            reply = place_of(explanation, call.reply.boxes)
            found.append(Mark("asked", given.boxes[0], f"asked {given.share:.2f}"))
            found.append(Mark("shown", reply.boxes[0], f"M_rel {reply.share:.2f}"))
    return found


def lines(explanation: Explanation) -> list[TextLine]:
    """Return the calls in their order; repeated calls of a callee are one line."""
    wanted = {(part.callee, part.step) for part in named(explanation)}
    found = []
    for _, some in itertools.groupby(explanation.calls, _alike):
        first, *others = some
        numbers = f"{first.number}–{others[-1].number}" if others else str(first.number)
        callees = dict.fromkeys(title(call.callee) for call in (first, *others))
        query, reply = first.query.words, first.reply.words
        if others and first.caller == CAPTION:
            query, reply = f"for each of its {len(explanation.caption)} words", ""
        elif others:
            reply = ""
        elif first.callee == CAPTION:
            reply = "its caption"
        found.append(
            TextLine(
                numbers,
                first.depth,
                first.step,
                ", ".join(callees),
                first.gate if not others else None,
                first.depth == 0 and (first.callee, first.step) in wanted,
                query,
                reply,
            )
        )
    return found


def _alike(call: CallRecord) -> tuple[Any, ...]:
    """Return what calls have in common that share a line."""
    together = call.depth > 0 and (call.gate is None or call.caller == CAPTION)
    return (call.depth, call.caller) if together else (call.number,)


def answers(explanation: Explanation) -> list[tuple[str, float]]:
    """Return the likeliest answers with their probabilities, the one given first."""
    given = (explanation.answer, explanation.confidence)
    return [given, *explanation.runners_up][:ANSWERS]


def verdict(explanation: Explanation) -> str:
    """Return whether the answer is right, in words, where that is known."""
    if explanation.right is None:
        return ""
    return "right" if explanation.right else f"wrong, the truth is {explanation.truth}"


def place(explanation: Explanation) -> str:
    """Return which question this is."""
    number = explanation.question_id
    which = "a question of yours" if number is None else f"question {number}"
    return f"{which}, scene {explanation.scene} of {explanation.split}"


def unknown(explanation: Explanation) -> str:
    """Return which words were left out."""
    words = ", ".join(f"“{word}”" for word in explanation.unknown_words)
    return f"left out, for it never learned them: {words}" if words else ""


def printable(text: str) -> str:
    """Return a text in one line, without characters that would control a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


# --- text --------------------------------------------------------------------------------


def as_text(explanation: Explanation, baseline: Explanation | None = None) -> str:
    """Return an execution for a terminal."""
    found = [f"{explanation.question}", f"  ({place(explanation)})"]
    if explanation.unknown_words:
        found.append(f"  {unknown(explanation)}")
    found += ["", f"{explanation.strategy} [{explanation.run}]", *_execution(explanation)]
    found += ["", *_conclusion(explanation)]
    if baseline is not None:
        found += ["", f"beside it, {baseline.strategy} [{baseline.run}]", *_conclusion(baseline)]
    return "\n".join(map(printable, found))


def _execution(explanation: Explanation) -> Iterator[str]:
    width = max((len(line.numbers) for line in lines(explanation)), default=1)
    for line in lines(explanation):
        gate = " " * (_BAR + 5)
        if line.gate is not None:
            gate = f"{line.gate:.2f} {_bar(line.gate)}"
        callee = f"{'  ' * line.depth}{line.callee}{'*' if line.named else ''}"
        passed = f"{line.query} → {line.reply}" if line.reply else line.query
        step = f"step {line.step}" if line.depth == 0 else ""
        yield f"  {line.numbers:>{width}}  {step:<6}  {callee:<18}  {gate}  {passed}"
    yield f"  {'':>{width}}  * named below: its gate is at least an even share"
    attention = explanation.caption_attention
    if explanation.caption:
        words = [
            f"{word} [{share:.2f}]" if share >= 1.5 / max(len(attention), 1) else word
            for word, share in itertools.zip_longest(explanation.caption, attention, fillvalue=0.0)
            if isinstance(word, str) and isinstance(share, float)
        ]
        yield f"  caption, with how much it listened to words: {' '.join(words)}"


def _conclusion(explanation: Explanation) -> Iterator[str]:
    right = verdict(explanation)
    yield f"  answer: {explanation.answer} {explanation.confidence:.2f}{right and f' ({right})'}"
    others = ", ".join(f"{name} {value:.2f}" for name, value in answers(explanation)[1:])
    yield f"  runners-up: {others or 'none'}"
    yield f"  {explanation.sentence}"


def _bar(share: float) -> str:
    full = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * full + "·" * (_BAR - full)


# --- page --------------------------------------------------------------------------------


def as_page(shown: Sequence[ExplanationView]) -> str:
    """Return a page that needs nothing else: style and scenes are in it."""
    from jinja2 import Environment, FileSystemLoader

    here = Path(__file__).parent
    jinja = Environment(loader=FileSystemLoader(here), autoescape=True, trim_blocks=True)
    jinja.filters.update(title=title, percent=lambda share: f"{100 * share:.1f}%")
    return jinja.get_template("explanation.html").render(
        style=(here / "explanation.css").read_text("utf-8"),
        kinds=KINDS,
        shown=[
            {
                "scene": _data_uri(one.scene),
                "question": one.explanation,
                "place": place(one.explanation),
                "unknown": unknown(one.explanation),
                "cards": [_card(e) for e in (one.explanation, one.baseline) if e is not None],
            }
            for one in shown
        ],
    )


def _card(explanation: Explanation) -> dict[str, Any]:
    attention = explanation.caption_attention
    drawn = marks(explanation)
    around = [[m.box for m in drawn[:n]].count(mark.box) for n, mark in enumerate(drawn)]
    return {
        "e": explanation,
        "marks": [
            (mark, _widened(explanation.boxes[mark.box], _AROUND * times))
            for mark, times in zip(drawn, around, strict=True)
        ],
        "shades": [
            (box, share)
            for box, share in zip(explanation.boxes, explanation.attended, strict=True)
            if share >= _FAINT
        ],
        "lines": lines(explanation),
        "answers": answers(explanation),
        "verdict": verdict(explanation),
        "caption": list(itertools.zip_longest(explanation.caption, attention, fillvalue=0.0)),
    }


def _widened(box: Box, by: float) -> Box:
    """Return a larger box, so that several lines about one box stand around each other."""
    return (box[0] - by, box[1] - by, box[2] + by, box[3] + by)


def _data_uri(pixels: NDArray[Any]) -> str:
    from matplotlib.image import imsave

    file = BytesIO()
    imsave(file, pixels, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
