"""Programs executed: each operation by hand, and every question of a world on its stored truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.worlds.digit_scenes.programs.executor import (
    DigitExecutor,
    Execution,
    count_question,
)
from benchmarks.worlds.digit_scenes.programs.operations import Count, parse
from benchmarks.worlds.digit_scenes.programs.things import SeenScenes, SeenThings
from pmn_cl.data.programs import NOT_EXECUTED, NoOracle, SeenRegions
from pmn_cl.data.store import Store

COLOURS = ["red", "green", "blue", "yellow", "purple", "orange"]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
OTHERS = ["small", "large", "plain", "striped", "dotted"]
SURE = 30.0  # a logit


def seen(*things: str, boxes: Sequence[Sequence[float]]) -> SeenRegions:
    """Return one scene whose regions are described in words, such as "large plain red seven"."""
    objects, attributes = np.zeros((1, len(things), 11)), np.zeros((1, len(things), 11))
    for i, thing in enumerate(things):
        for word in thing.split():
            if word in DIGITS:
                objects[0, i, 1 + DIGITS.index(word)] = SURE
            elif word == "background":
                objects[0, i, 0] = SURE
            else:
                attributes[0, i, [*COLOURS, *OTHERS].index(word)] = SURE
    return SeenRegions(
        objects, attributes, np.array([boxes], float), np.ones((1, len(things)), bool)
    )


def at(x: float, y: float, side: float = 0.1) -> list[float]:
    return [x - side / 2, y - side / 2, x + side / 2, y + side / 2]


# A red seven in the middle, a blue seven to its left and a bit above, a green two far above, which
# is shown twice, a red two to the right; and a box that shows nothing.
SCENE = seen(
    *("large plain red seven", "small striped blue seven", "large dotted green two"),
    *("large dotted green two", "small plain red two", "background"),
    boxes=[at(0.5, 0.5), at(0.3, 0.4), at(0.55, 0.1), at(0.56, 0.11), at(0.9, 0.6), at(0.1, 0.9)],
)


def things() -> SeenThings:
    return SeenScenes(SCENE)[0]


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("exist(find(red seven))", "yes"),
        ("exist(find(blue two))", "no"),
        ("verify(size, large, unique(red seven))", "yes"),
        ("verify(colour, red, unique(striped symbol))", "no"),
        ("same(digit, unique(green symbol), unique(red two))", "yes"),
        ("same(texture, unique(green symbol), unique(red two))", "no"),
        ("more(find(red symbol), find(green symbol))", "yes"),
        ("more(find(two), find(seven))", "no"),  # two and two
        ("count(find(two))", "2"),
        ("count(find(orange symbol))", "0"),
        ("count(find(symbol))", "4"),
        ("count(relate(left, unique(red seven)))", "1"),
        ("count(relate(above, unique(red seven)))", "1"),
        ("count(relate(same colour, unique(large red seven)))", "1"),
        ("count(relate(below, unique(green two)))", "3"),
        ("exist(filter(seven, relate(left, unique(red seven))))", "yes"),
        ("exist(filter(two, relate(left, unique(red seven))))", "no"),
        ("exist(filter(blue symbol, relate(nearest, unique(red seven))))", "yes"),
        ("query(colour, unique(dotted symbol))", "green"),
        ("query(size, unique(red two))", "small"),
        ("query(digit, unique(relate(right, unique(red seven))))", "two"),
        ("query(texture, unique(relate(same digit, unique(red seven))))", "striped"),
        ("query(colour, unique(relate(nearest, unique(red two))))", "red"),
        ("majority(colour)", "red"),
        ("arrangement()", "scatter"),
        ("ground()", None),
    ],
)
def test_a_scene_by_hand(program: str, answer: str | None) -> None:
    assert Execution(things(), NoOracle(), 0, ()).answer(parse(program)) == answer


def test_who_is_meant_need_not_look_as_described() -> None:
    """The description was true of something: the likeliest thing is taken."""
    assert (
        Execution(things(), NoOracle(), 0, ()).answer(parse("query(colour, unique(striped seven))"))
        == "blue"
    )
    # There is no dotted seven: of dotted twos and other sevens, none is likelier than the first.
    assert (
        Execution(things(), NoOracle(), 0, ()).answer(
            parse("query(digit, unique(dotted purple symbol))")
        )
        == "two"
    )


def test_where_nothing_is_seen_there_is_nothing_to_ask_about() -> None:
    empty = SeenScenes(seen("background", boxes=[at(0.5, 0.5)]))[0]
    answers = {
        "count(find(two))": "0",
        "exist(find(two))": "no",
        "more(find(two), find(seven))": "no",
        "query(colour, unique(two))": None,
        "count(relate(left, unique(two)))": None,
        "majority(colour)": None,
        "arrangement()": None,
    }
    for program, answer in answers.items():
        assert Execution(empty, NoOracle(), 0, ()).answer(parse(program)) == answer


@pytest.mark.parametrize(
    ("box", "relation", "direction", "found"),
    [
        (0, 0, 1, {1}),  # what is left of the red seven
        (1, 0, 0, {0, 4}),  # what the blue seven is left of
        (0, 4, 0, {1}),  # the same digit
        (3, 4, 1, {4}),  # of a duplicate
        (4, 5, 0, {0}),  # the same colour
        (4, 6, 1, {0}),  # nearest to the red two
        (0, 6, 0, {1, 4}),  # what the red seven is nearest to
        (5, 2, 1, {1, 2, 3}),  # above what was taken for background: it shows something
    ],
)
def test_related_boxes_by_hand(box: int, relation: int, direction: int, found: set[int]) -> None:
    asked = {"scene": 0, "box": box, "relation": relation, "direction": direction}
    columns = {name: np.array([value]) for name, value in asked.items()}
    [region] = DigitExecutor().predict("rel", columns, SCENE, NoOracle())
    assert region in found


class Contrary:
    """Says that only the last regions are related, and that there are always five."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def related(self, scene: int, region: int, relation: int) -> NDArray[Any]:
        self.asked.append((scene, region, relation))
        return np.array([0.1, 0.2, 0.1, 0.9, 0.6, 1.0])

    def counted(self, scene: int, question: Sequence[int]) -> int:
        self.asked.append((scene, *question))
        return 5


def test_an_oracle_is_asked_for_relations_and_counts() -> None:
    oracle = Contrary()
    execution = Execution(things(), oracle, 3, (7, 8))
    query = parse("query(colour, unique(relate(left, unique(red seven))))")
    assert execution.answer(query) == "green"  # the thing whose duplicate has 0.9
    assert oracle.asked == [(3, 0, 0)]
    exist = parse("exist(filter(blue symbol, relate(left, unique(red seven))))")
    assert execution.answer(exist) == "no"  # 0.2 is less than even
    oracle.asked.clear()
    assert execution.answer(parse("count(find(two))")) == "5"
    assert oracle.asked == [(3, 7, 8)]  # in the words of the question
    more = parse("more(find(two), find(red symbol))")
    assert execution.answer(more) == "no"  # five and five
    assert len(oracle.asked) == 3 and oracle.asked[1] != oracle.asked[2]


def test_a_count_is_asked_for_in_words_that_training_knows(digits: Store) -> None:
    program = parse("count(find(large red six))")
    assert isinstance(program, Count)
    question = count_question(program.of.description)  # type: ignore[union-attr]
    words = [digits.names["question words"][number] for number in question]
    assert " ".join(words).strip() == "how many large red sixes are there"
    assert len(question) == digits.table("train", "vqa")["question"].shape[1]


def true_things(store: Store, split: str) -> SeenRegions:
    """Return the true things of a split as if each were a region that is seen rightly."""
    names = ("digit", "colour", "size", "texture", "thing_box")
    truth = {name: store.table(split, "scenes")[name].load().astype(int) for name in names}
    there = truth["digit"] >= 0
    objects = SURE * np.eye(11)[np.where(there, truth["digit"] + 1, 0)]
    looks = (truth["colour"], 6 + truth["size"], 8 + truth["texture"])
    attributes = SURE * np.sum([np.eye(11)[look] for look in looks], axis=0)
    return SeenRegions(objects, attributes, truth["thing_box"] / 192, there)


@pytest.mark.parametrize("split", ["train", "val", "test", "novel"])
@pytest.mark.parametrize("task", ["cnt", "vqa"])
def test_on_the_truth_every_answer_is_the_stored_one(digits: Store, split: str, task: str) -> None:
    columns = {name: column.load() for name, column in digits.table(split, task).items()}
    executor = DigitExecutor()
    found = executor.predict(task, columns, true_things(digits, split), NoOracle())
    right = columns["count"] if task == "cnt" else columns["answers"][:, 0]
    executed = executor.executes(task, columns)
    assert (found[executed] == right[executed]).all()
    assert (found[~executed] == NOT_EXECUTED).all()
    family = np.array(digits.names["families"])[columns["family"]]
    assert set(family[~executed]) <= {"ground"} and "ground" not in family[executed]


@pytest.mark.parametrize("split", ["val", "novel"])
def test_on_the_truth_every_related_box_fits(digits: Store, split: str) -> None:
    """Duplicates and background are among the regions here, whose boxes are jittered."""
    scenes = {n: c.load() for n, c in digits.table(split, "scenes").items() if n != "regions"}
    owner = np.clip(scenes["owner"], 0, None).astype(int)
    looks = {
        name: np.take_along_axis(scenes[name].astype(int), owner, 1)
        for name in ("digit", "colour", "size", "texture")
    }
    objects = SURE * np.eye(11)[np.where(scenes["owner"] < 0, 0, looks["digit"] + 1)]
    rows = (looks["colour"], 6 + looks["size"], 8 + looks["texture"])
    attributes = SURE * np.sum([np.eye(11)[row] for row in rows], axis=0)
    regions = SeenRegions(objects, attributes, scenes["boxes"], scenes["mask"])
    columns = {name: column.load() for name, column in digits.table(split, "rel").items()}
    found = DigitExecutor().predict("rel", columns, regions, NoOracle())
    fits = columns["satisfying"][np.arange(len(found)), found]
    # Jittered centres move things across a diagonal, or nearer than another.
    assert fits.mean() > 0.95
    same = np.isin(columns["relation"], (4, 5))
    assert fits[same].all()
