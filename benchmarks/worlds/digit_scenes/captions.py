"""Captions: several sentences per scene about what no single region shows.

Each names the arrangement, the colour of the majority (where there is one) and the ground;
most also name the digit that stands at the far left.
"""

from __future__ import annotations

from random import Random

from benchmarks.worlds.digit_scenes.concepts import ARRANGEMENTS, COLOUR_NAMES, DIGITS, GROUND_NAMES
from benchmarks.worlds.digit_scenes.families import majority_colour
from benchmarks.worlds.digit_scenes.phrasing import with_article
from benchmarks.worlds.digit_scenes.questions import View

REFERENCES = 5
LONGEST_CAPTION = 16  # words, the paper's T

_WITH_MAJORITY = (
    "a {shape} of mostly {colour} symbols on {ground} with {digit} on the left",
    "mostly {colour} symbols form a {shape} on {ground} and {digit} is leftmost",
    "on {ground} there is a {shape} of mostly {colour} symbols",
    "a {shape} of symbols lies on {ground} and most are {colour}",
    "most symbols in this {shape} on {ground} are {colour} and {digit} is leftmost",
    "{digit} is at the left of a {shape} of mostly {colour} symbols on {ground}",
    "most symbols are {colour} in a {shape} on {ground} with {digit} on the left",
)
_WITHOUT_MAJORITY = (
    "a {shape} of symbols in many colours on {ground} with {digit} on the left",
    "symbols in many colours form a {shape} on {ground} and {digit} is leftmost",
    "on {ground} there is a {shape} of symbols in many colours",
    "a {shape} of symbols lies on {ground} and they have many colours",
    "symbols in this {shape} on {ground} have many colours and {digit} is leftmost",
    "{digit} is at the left of a {shape} on {ground} with many colours",
    "symbols have many colours in a {shape} on {ground} with {digit} on the left",
)


def leftmost_digit(view: View) -> int | None:
    """Return the digit at the far left; None where two things are equally far left."""
    # Twice the centre, to stay with whole numbers.
    by_place = sorted((t.box[0] + t.box[2], t.digit) for t in view.things)
    return None if by_place[0][0] == by_place[1][0] else by_place[0][1]


def write_captions(view: View, rng: Random) -> list[str]:
    """Write ``REFERENCES`` different captions of a scene."""
    colour, digit = majority_colour(view), leftmost_digit(view)
    templates = _WITHOUT_MAJORITY if colour is None else _WITH_MAJORITY
    chosen = rng.sample(templates, REFERENCES)
    slots = {
        "shape": ARRANGEMENTS[view.scene.arrangement],
        "ground": GROUND_NAMES[view.scene.ground],
        "colour": "" if colour is None else COLOUR_NAMES[colour],
        # Two equally far left: "a symbol on the left" is all that is surely true.
        "digit": with_article("symbol" if digit is None else DIGITS[digit]),
    }
    return [template.format_map(slots) for template in chosen]


def caption_vocabulary() -> tuple[str, ...]:
    """Return every word a caption may hold, sorted, behind padding, start and end marks."""
    words = {"a", "an", "symbol", *ARRANGEMENTS, *GROUND_NAMES, *COLOUR_NAMES, *DIGITS}
    for template in (*_WITH_MAJORITY, *_WITHOUT_MAJORITY):
        words.update(word for word in template.split() if "{" not in word)
    return ("", "<s>", "</s>", *sorted(words))
