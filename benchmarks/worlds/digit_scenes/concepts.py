"""Everything a scene can contain or a sentence can mention, by name, and what training never shows.

This file holds facts only: no randomness, no drawing.
"""

from __future__ import annotations

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGITS_PLURAL = tuple("sixes" if word == "six" else f"{word}s" for word in DIGITS)

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (225, 45, 45),
    "green": (50, 190, 75),
    "blue": (50, 105, 240),
    "yellow": (245, 205, 25),
    "purple": (165, 70, 215),
    "orange": (250, 135, 20),
}
COLOUR_NAMES = tuple(COLOURS)

SIZES: dict[str, tuple[int, ...]] = {"small": (12, 13, 14), "large": (18, 19, 20, 21)}  # pixels
SIZE_NAMES = tuple(SIZES)
SIDES = tuple(side for sides in SIZES.values() for side in sides)

TEXTURES = ("plain", "striped", "dotted")
ARRANGEMENTS = ("row", "column", "ring", "scatter")
GROUNDS: dict[str, tuple[int, int, int]] = {
    "snow": (238, 240, 243),
    "sand": (222, 204, 168),
    "grass": (58, 84, 62),
    "slate": (72, 78, 92),
}
GROUND_NAMES = tuple(GROUNDS)

RELATIONS = ("left", "right", "above", "below", "same digit", "same colour", "nearest")
LEFT, RIGHT, ABOVE, BELOW, SAME_DIGIT, SAME_COLOUR, NEAREST = range(7)

# The direction of a relation query, as in the paper: a triplet is "subject relation object",
# and the query gives one of its two ends.
DIRECTIONS = ("object", "subject")  # which end is sought

OBJECT_CLASSES = ("background", *DIGITS)
ATTRIBUTES = (*COLOUR_NAMES, *SIZE_NAMES, *TEXTURES)

CANVAS = 192  # pixels on a side
FEWEST_OBJECTS, MOST_OBJECTS = 4, 12
MOST_IN_A_LINE = 8  # more would overlap in a row or a column
MOST_REGIONS = 24  # objects, duplicates and background boxes of one scene


def is_novel_pair(digit: int, colour: int) -> bool:
    """Whether no scene outside the novel split shows this digit in this colour.

    One colour per digit (a red zero, a green one, …), so every digit is seen in five colours
    and every colour on eight or nine digits.
    """
    return digit % len(COLOUR_NAMES) == colour


def is_novel_relation(relation: int, anchor_colour: int) -> bool:
    """Whether no question outside the novel split relates something to a thing so coloured.

    One colour per relation ("left of the blue …"): both are asked about often, never together.
    """
    return (relation + 2) % len(COLOUR_NAMES) == anchor_colour
