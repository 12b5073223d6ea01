"""What the preview shows: chooses scenes, and puts what the store holds of them into sentences.

Nothing here draws; ``preview`` does, and ``layout`` finds room for labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.worlds.digit_scenes.concepts import (
    ARRANGEMENTS,
    COLOUR_NAMES,
    COLOURS,
    GROUND_NAMES,
    GROUNDS,
)
from benchmarks.worlds.digit_scenes.layout import SIDE, Arrow, Link, Note, lay_out, text_width, wrap
from benchmarks.worlds.digit_scenes.phrasing import RELATION_PHRASES
from benchmarks.worlds.digit_scenes.rows import read_scene
from benchmarks.worlds.digit_scenes.scenes import BACKGROUND, Scene, Thing
from pmn_cl.data.store import Store

TEXT_SIZE = 16.5
TAG_WIDTH = 84  # of what stands before a question
BOLDER = 1.15  # how much wider bold letters are

# Which scenes are chosen, by split and arrangement; the first has the widest choice.
_SLOTS = (
    ("novel", "ring"),
    ("test", "row"),
    ("test", "ring"),
    ("test", "scatter"),
    ("test", "column"),
    ("novel", "scatter"),
)
_LOOKED_AT = 200  # scenes of a split to choose from
_USUAL_CROWD = 7  # enough to ask about, few enough to label


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question as it is shown."""

    kind: str
    text: str
    answer: str
    link: Link | None = None  # the relation by which one thing is sought
    never_asked: str = ""  # the composition that no question in training has


@dataclass(frozen=True, slots=True)
class Panel:
    """One scene with everything that is written about it."""

    split: str
    scene: Scene
    caption: str
    asked: tuple[AskedQuestion, ...]
    arrow: Arrow | None
    notes: tuple[Note, ...]

    @property
    def relation(self) -> str:
        """Return the relation that the arrow shows, or nothing."""
        link = self.asked[-1].link
        return "" if link is None else link.name

    @property
    def flaws(self) -> int:
        """Return how far this is from a good example, whatever else is shown."""
        scene, things = self.scene, len(self.scene.things)
        duplicates = len(scene.owners) - things - scene.owners.count(BACKGROUND)
        novelties = len({(t.digit, t.colour) for t in scene.things if t.novel})
        return (
            60 * (things + 1 - len(self.notes))
            + 90 * (self.arrow is None)
            + 4 * (duplicates < 2)
            + 4 * (BACKGROUND not in scene.owners)
            + 4 * max(0, novelties - 1)
            + 2 * abs(things - _USUAL_CROWD)
            + 2 * sum(_is_faint(thing, scene.ground) for thing in scene.things)
            + 5 * (self.split == "novel" and not self.asked[-1].never_asked)
            + 2 * sum(len(lines_of(asked)) > 1 for asked in self.asked)
        )


def sentence(words: list[str], *, statement: bool = False) -> str:
    """Write words as people do: ``["is", "it", "red"]`` is ``Is it red?``."""
    text = " ".join(words)
    mark = "." if statement or words[0] in ("count", "tell") else "?"
    return text[:1].upper() + text[1:] + mark


def choose_panels(store: Store) -> list[Panel]:
    """Choose scenes that differ and have room for what is written on them, novel ones last."""
    numbers = {s: range(min(_LOOKED_AT, len(store.table(s, "obj")["scene"]))) for s, _ in _SLOTS}
    known = {s: [_read_panel(store, s, number) for number in numbers[s]] for s in numbers}
    chosen: list[Panel] = []
    for split, arrangement in _SLOTS:
        left = [panel for panel in known[split] if panel not in chosen]
        if left:
            misfit = partial(_misfit, arrangement=arrangement, chosen=tuple(chosen))
            chosen.append(min(left, key=misfit))
    return sorted(chosen, key=lambda panel: panel.split == "novel")


def _misfit(panel: Panel, arrangement: str, chosen: tuple[Panel, ...]) -> int:
    """Return how badly a panel suits a place: its flaws, and what others already show."""
    grounds = sum(
        1 + 14 * (panel.split == other.split)
        for other in chosen
        if panel.scene.ground == other.scene.ground
    )
    relations = sum(panel.relation == other.relation for other in chosen)
    elsewhere = ARRANGEMENTS[panel.scene.arrangement] != arrangement
    return panel.flaws + 6 * grounds + 30 * relations + 60 * elsewhere


def lines_of(asked: AskedQuestion) -> list[str]:
    """Break a question into lines that leave room for its answer."""
    room = SIDE - TAG_WIDTH - 16 - text_width(asked.answer, TEXT_SIZE * BOLDER)
    return wrap(asked.text, room, TEXT_SIZE)


def _is_faint(thing: Thing, ground: int) -> bool:
    """Whether a thing is hard for people to see on the ground, as green is on grass."""
    return math.dist(COLOURS[COLOUR_NAMES[thing.colour]], GROUNDS[GROUND_NAMES[ground]]) < 150


def _read_panel(store: Store, split: str, number: int) -> Panel:
    scene = read_scene(store, split, number)
    asked = tuple(_read_questions(store, split, number, scene))
    arrow, notes = lay_out(scene, asked[-1].link)
    return Panel(split, scene, _read_caption(store, split, number), asked, arrow, notes)


def _read_caption(store: Store, split: str, number: int) -> str:
    """Return the longest caption that fits on a line, else the first."""
    words = store.names["caption words"]
    written = store.table(split, "cap")["captions"].array[number].tolist()
    marks = ("", "<s>", "</s>")
    captions = [
        sentence([words[i] for i in ids if words[i] not in marks], statement=True)
        for ids in written
    ]
    short = [text for text in captions if len(wrap(f"“{text}”", SIDE, TEXT_SIZE)) == 1]
    return max(short, key=len, default=captions[0])


def _read_questions(store: Store, split: str, number: int, scene: Scene) -> Iterator[AskedQuestion]:
    """Yield a question of each type, and last, where there is one, that the arrow belongs to."""
    by_kind: dict[str, list[AskedQuestion]] = {}
    for row in (store.table(split, "vqa")["scene"].array == number).nonzero()[0].tolist():
        asked = _read_question(store, split, row, scene)
        by_kind.setdefault(asked.kind, []).append(asked)
    for kind in (*store.names["vqa kinds"], "relation"):
        if kind in by_kind:
            short = [asked for asked in by_kind[kind] if len(lines_of(asked)) == 1]
            several = short or by_kind[kind]
            yield several[number % len(several)]  # not always of the same family


def _read_question(store: Store, split: str, row: int, scene: Scene) -> AskedQuestion:
    names = store.names
    values = {name: column.array[row] for name, column in store.table(split, "vqa").items()}
    text = sentence([names["question words"][i] for i in values["question"].tolist() if i])
    answer = names["answers"][values["answers"][0]]
    if names["families"][values["family"]] != "query_related":
        return AskedQuestion(names["vqa kinds"][values["kind"]], text, answer)
    given = scene.owners[values["ask_box"]]
    (sought,) = {scene.owners[region] for region in values["about"].nonzero()[0]} - {given}
    phrase = RELATION_PHRASES[values["ask_relation"]][0]
    name = phrase.removeprefix("with the ").removesuffix(" as")
    novel = f"“{phrase} something {COLOUR_NAMES[scene.things[given].colour]}”"
    never_asked = novel if values["novelty"] & 2 else ""
    return AskedQuestion("relation", text, answer, Link(name, given, sought), never_asked)
