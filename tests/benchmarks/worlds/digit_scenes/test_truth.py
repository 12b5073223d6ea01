"""Scenes, regions, relations and captions of 800 scenes against truth worked out again.

Questions have a file of their own, ``test_questions``.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pmn_cl.data.store import Store

if TYPE_CHECKING:
    from tests.benchmarks.worlds.digit_scenes.conftest import Truth

CANVAS = 192  # pixels on a side
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
COLOURS = ["red", "green", "blue", "yellow", "purple", "orange"]
ATTRIBUTES = [*COLOURS, "small", "large", "plain", "striped", "dotted"]


def rows_of(store: Store, split: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values."""
    columns = {name: column.load().tolist() for name, column in store.table(split, table).items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def marked(row: list[bool]) -> set[int]:
    """Return where a row is true."""
    return {at for at, value in enumerate(row) if value}


def assert_none(wrong: list[str]) -> None:
    """Fail with the first few of what is wrong."""
    assert not wrong, f"{len(wrong)} wrong, among them\n" + "\n".join(wrong[:5])


@pytest.fixture(scope="module")
def scenes(truths: dict[str, list[Truth]]) -> list[Truth]:
    """Return the scenes of all splits."""
    return [truth for of_split in truths.values() for truth in of_split]


# What is in a scene.


def test_the_names_in_the_store_are_those_expected_here(digits: Store) -> None:
    assert digits.names["objects"] == ["background", *DIGITS]
    assert digits.names["attributes"] == ATTRIBUTES
    assert digits.names["directions"] == digits.names["rel kinds"] == ["object", "subject"]


def test_digits_are_what_their_handwriting_was_labelled(scenes: list[Truth]) -> None:
    labels = load_digits().target
    wrong = [
        f"{scene}: a {thing.digit} drawn by image {thing.image}, a {DIGITS[labels[thing.image]]}"
        for scene in scenes
        for thing in scene.things
        if DIGITS[labels[thing.image]] != thing.digit
    ]
    assert_none(wrong)


def test_things_are_squares_as_large_as_they_are_called_inside_the_canvas(
    scenes: list[Truth],
) -> None:
    for scene in scenes:
        assert 4 <= len(scene.things) <= 12, scene
        for thing in scene.things:
            x1, y1, x2, y2 = thing.box
            assert x2 - x1 == y2 - y1, scene
            assert x2 - x1 in ((12, 13, 14) if thing.size == "small" else (18, 19, 20, 21)), scene
            assert min(thing.box) >= 0 and max(thing.box) <= CANVAS, scene


def test_things_never_overlap(scenes: list[Truth]) -> None:
    for scene in scenes:
        canvas = np.zeros((CANVAS, CANVAS), dtype=int)
        for thing in scene.things:
            x1, y1, x2, y2 = thing.box
            canvas[y1:y2, x1:x2] += 1
        assert canvas.max() == 1, scene


def test_arrangements_can_be_told_from_the_boxes(scenes: list[Truth]) -> None:
    wrong = []
    for scene in scenes:
        xs, ys = zip(*((t.centre[0] / 2, t.centre[1] / 2) for t in scene.things), strict=True)
        wide, high = max(xs) - min(xs), max(ys) - min(ys)
        radii = [math.dist((x, y), (CANVAS / 2, CANVAS / 2)) for x, y in zip(xs, ys, strict=True)]
        if high < 15:
            found = "row"
        elif wide < 15:
            found = "column"
        else:  # boxes lie on whole pixels: a ring is round up to one of them
            found = "ring" if max(radii) - min(radii) <= 2 * math.sqrt(2) else "scatter"
        if found != scene.arrangement:
            wrong.append(f"{scene}: looks like a {found}")
    assert_none(wrong)


def test_the_first_region_of_a_thing_always_exists(scenes: list[Truth]) -> None:
    for scene in scenes:
        shown = set(scene.owners) - {-1}
        assert shown == set(range(len(scene.things))), scene


# Recognition: what each region shows.


def test_object_labels_follow_from_owner_and_truth(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    wrong = []
    for split in digits.splits:
        for row in rows_of(digits, split, "obj"):
            truth = truths[split][row["scene"]]
            shown = [0 if o < 0 else 1 + DIGITS.index(truth.things[o].digit) for o in truth.owners]
            expected = shown + [0] * (len(row["label"]) - len(shown))
            if row["label"] != expected:
                wrong.append(f"{truth}: labels {row['label']}, expected {expected}")
    assert_none(wrong)


def test_attributes_follow_from_owner_and_truth(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    wrong = []
    for split in digits.splits:
        for row in rows_of(digits, split, "att"):
            truth = truths[split][row["scene"]]
            for region, attributes in enumerate(row["attributes"]):
                owner = truth.owners[region] if region < len(truth.owners) else -1
                thing = truth.things[owner]
                expected = set() if owner < 0 else {thing.colour, thing.size, thing.texture}
                found = {ATTRIBUTES[at] for at in marked(attributes)}
                if found != expected:
                    wrong.append(f"{truth}: region {region} is {found}, expected {expected}")
    assert_none(wrong)


def test_all_regions_are_asked_about_or_in_the_novel_split_the_novel_ones(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    for split in digits.splits:
        for table in ("obj", "att"):
            for row in rows_of(digits, split, table):
                truth = truths[split][row["scene"]]
                novel = {i for i, thing in enumerate(truth.things) if thing.novel}
                everything = set(range(len(truth.owners)))
                expected = truth.regions_of(novel) if split == "novel" else everything
                assert marked(row["asked"]) == expected, truth
                assert expected, truth


# Relations.


def test_relation_queries_have_complete_and_exact_answers(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    wrong = []
    for split in digits.splits:
        for row in rows_of(digits, split, "rel"):
            truth = truths[split][row["scene"]]
            relation = digits.names["relations"][row["relation"]]
            direction = digits.names["directions"][row["direction"]]
            asked = f"{truth}: box {row['box']}, {relation}, the {direction} is sought"
            given = truth.owners[row["box"]]
            if given < 0:
                wrong.append(f"{asked}, but the box shows background")
                continue
            sought = (truth.objects if direction == "object" else truth.subjects)(relation, given)
            expected = truth.regions_of(sought)
            if marked(row["satisfying"]) != expected:
                found = sorted(marked(row["satisfying"]))
                wrong.append(f"{asked}: satisfied by {found}, expected {sorted(expected)}")
            if row["target"] not in expected:
                wrong.append(f"{asked}: target {row['target']} is not among {sorted(expected)}")
            if row["kind"] != row["direction"]:
                wrong.append(f"{asked}: of kind {row['kind']}, expected {row['direction']}")
    assert_none(wrong)


def test_relation_queries_ask_for_every_relation_in_both_directions(digits: Store) -> None:
    for split in digits.splits:
        rows = rows_of(digits, split, "rel")
        asked = {(row["relation"], row["direction"]) for row in rows}
        assert asked == {(relation, end) for relation in range(7) for end in range(2)}, split


# Captions.


def facts_of(caption: str) -> dict[str, str]:
    """Return what a caption says; a fact is missing where it says nothing about it."""
    words = caption.split()
    said: dict[str, list[str]] = {
        "arrangement": [w for w in words if w in ("row", "column", "ring", "scatter")],
        "ground": [b for a, b in pairwise(words) if a == "on" and b != "the"],
        "majority": [w for w in words if w in COLOURS],
        "leftmost": [w for w in words if w in (*DIGITS, "symbol")],
    }
    if "many colours" in caption:
        said["majority"].append("many colours")
    elif not {"most", "mostly"} & set(words):
        said["majority"] = []  # a colour, but not said to be of the majority
    if not {"left", "leftmost"} & set(words):
        assert not said["leftmost"], f"a digit that is nowhere: {caption}"
    assert all(len(found) <= 1 for found in said.values()), f"two of a kind: {caption}"
    return {fact: found[0] for fact, found in said.items() if found}


def true_facts(truth: Truth) -> dict[str, str]:
    """Return what a caption of a scene may say."""
    colours = [thing.colour for thing in truth.things]
    majority = [c for c in COLOURS if colours.count(c) > len(colours) / 2]
    edge = min(thing.centre[0] for thing in truth.things)
    leftmost = [thing.digit for thing in truth.things if thing.centre[0] == edge]
    return {
        "arrangement": truth.arrangement,
        "ground": truth.ground,
        "majority": majority[0] if majority else "many colours",
        "leftmost": leftmost[0] if len(leftmost) == 1 else "symbol",
    }


def test_captions_say_what_is_true_and_enough_of_it(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    vocabulary, wrong = digits.names["caption words"], []
    for split in digits.splits:
        for row in rows_of(digits, split, "cap"):
            truth = truths[split][row["scene"]]
            expected = true_facts(truth)
            least = {fact: expected[fact] for fact in ("arrangement", "ground", "majority")}
            named_leftmost = 0
            for ids in row["captions"]:
                caption = " ".join(vocabulary[word] for word in ids if word)
                found = facts_of(caption.removesuffix(" </s>"))
                named_leftmost += "leftmost" in found
                if found != (expected if "leftmost" in found else least):
                    wrong.append(f"{truth}\n  {caption}\n  says {found}, expected {expected}")
            if named_leftmost < 3:
                wrong.append(f"{truth}: only {named_leftmost} captions name the leftmost digit")
    assert_none(wrong)


def test_captions_are_five_different_sentences_that_end_once(digits: Store) -> None:
    vocabulary = digits.names["caption words"]
    for split in digits.splits:
        for row in rows_of(digits, split, "cap"):
            texts = [" ".join(vocabulary[word] for word in ids) for ids in row["captions"]]
            assert len(set(texts)) == 5, texts
            for text in texts:
                sentence, end, padding = text.partition(" </s>")
                assert end and not padding.strip(), text
                assert len(sentence.split()) >= 8 and "<s>" not in sentence.split(), text
                vowels = ("an eight", "an orange")
                for article, noun in pairwise(text.split()):
                    if article in ("a", "an"):
                        assert (article == "an") == (f"an {noun}" in vowels), text


def test_ties_for_the_far_left_occur_and_are_called_a_symbol(scenes: list[Truth]) -> None:
    # Otherwise the rule for ties would go untested above.
    assert any(true_facts(scene)["leftmost"] == "symbol" for scene in scenes)
    assert any(true_facts(scene)["majority"] == "many colours" for scene in scenes)
