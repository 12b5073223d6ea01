"""The truth of stored scenes, read back from the store.

Nothing here comes from the generator: word lists and geometry are written out again, so that
its tests can contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pmn_cl.data.store import Store

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
COLOURS = ["red", "green", "blue", "yellow", "purple", "orange"]
SIZES = ["small", "large"]
TEXTURES = ["plain", "striped", "dotted"]
ARRANGEMENTS = ["row", "column", "ring", "scatter"]
GROUNDS = ["snow", "sand", "grass", "slate"]

# The digit-colour pairs and the relation-anchor colour pairs that training does without.
NOVEL_PAIRS = {
    ("zero", "red"),
    ("one", "green"),
    ("two", "blue"),
    ("three", "yellow"),
    ("four", "purple"),
    ("five", "orange"),
    ("six", "red"),
    ("seven", "green"),
    ("eight", "blue"),
    ("nine", "yellow"),
}
NOVEL_RELATIONS = {
    ("left", "blue"),
    ("right", "yellow"),
    ("above", "purple"),
    ("below", "orange"),
    ("same digit", "red"),
    ("same colour", "green"),
    ("nearest", "blue"),
}


@dataclass(frozen=True)
class Thing:
    """One object, its properties as words."""

    digit: str
    colour: str
    size: str
    texture: str
    image: int
    box: tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels

    @property
    def centre(self) -> tuple[int, int]:
        """Return twice the centre: a whole number of half pixels."""
        return self.box[0] + self.box[2], self.box[1] + self.box[3]

    @property
    def novel(self) -> bool:
        """Whether training never shows this digit in this colour."""
        return (self.digit, self.colour) in NOVEL_PAIRS


@dataclass(frozen=True)
class Truth:
    """What one stored scene holds."""

    split: str
    number: int
    things: list[Thing]
    owners: list[int]  # the thing that each region shows, or -1
    arrangement: str
    ground: str

    def __str__(self) -> str:
        things = "; ".join(
            f"{i}: {t.size} {t.texture} {t.colour} {t.digit} {t.box}"
            for i, t in enumerate(self.things)
        )
        return f"{self.split} scene {self.number} ({self.arrangement} on {self.ground}; {things})"

    def regions_of(self, things: set[int]) -> set[int]:
        """Return the regions that show one of these things."""
        return {region for region, owner in enumerate(self.owners) if owner in things}

    def holds(self, subject: int, relation: str, other: int) -> bool:
        """Whether "subject relation other" is true."""
        one, two = self.things[subject], self.things[other]
        if subject == other:
            return False
        if relation in ("same digit", "same colour"):
            prop = relation.removeprefix("same ")
            return bool(getattr(one, prop) == getattr(two, prop))
        if relation == "nearest":
            closest = min(self._apart(s, other) for s in range(len(self.things)) if s != other)
            return self._apart(subject, other) == closest
        dx, dy = one.centre[0] - two.centre[0], one.centre[1] - two.centre[1]
        return {
            "left": -dx >= abs(dy),
            "right": dx >= abs(dy),
            "above": -dy > abs(dx),
            "below": dy > abs(dx),
        }[relation]

    def subjects(self, relation: str, other: int) -> set[int]:
        """Return every s of "s relation other"."""
        return {s for s in range(len(self.things)) if self.holds(s, relation, other)}

    def objects(self, relation: str, subject: int) -> set[int]:
        """Return every o of "subject relation o"."""
        return {o for o in range(len(self.things)) if self.holds(subject, relation, o)}

    def _apart(self, one: int, two: int) -> int:
        (x, y), (u, v) = self.things[one].centre, self.things[two].centre
        return (x - u) ** 2 + (y - v) ** 2


def read_truths(store: Store, split: str) -> list[Truth]:
    """Read the truth of every scene of a split."""
    columns = {name: column.load() for name, column in store.table(split, "scenes").items()}
    truths = []
    for number in range(len(columns["digit"])):
        row = {name: column[number].tolist() for name, column in columns.items()}
        things = [
            Thing(
                DIGITS[row["digit"][i]],
                COLOURS[row["colour"][i]],
                SIZES[row["size"][i]],
                TEXTURES[row["texture"][i]],
                row["image"][i],
                tuple(row["thing_box"][i]),
            )
            for i in range(len(row["digit"]))
            if row["digit"][i] >= 0
        ]
        owners = row["owner"][: sum(row["mask"])]
        arrangement, ground = ARRANGEMENTS[row["arrangement"]], GROUNDS[row["ground"]]
        truths.append(Truth(split, number, things, owners, arrangement, ground))
    return truths


@pytest.fixture(scope="session")
def truths(digits: Store) -> dict[str, list[Truth]]:
    """Return the truth of every scene of the small world, by split."""
    return {split: read_truths(digits, split) for split in digits.splits}


@pytest.fixture(scope="session")
def novel_relations() -> set[tuple[str, str]]:
    """Return the relations with the colour of anchor that training does without."""
    return NOVEL_RELATIONS


@pytest.fixture(scope="session")
def novel_pairs() -> set[tuple[str, str]]:
    """Return the digits with the colour that training never shows them in."""
    return NOVEL_PAIRS
