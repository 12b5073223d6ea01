"""The digit world as data: repeatable, split without leaks, balanced, hard enough, padded.

What single rows say about their scene is checked in ``test_truth`` and ``test_questions``.
"""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.worlds.digit_scenes import world
from benchmarks.worlds.digit_scenes.world import DigitOptions, DigitScenes
from pmn_cl.data.store import Store

if TYPE_CHECKING:
    from tests.benchmarks.worlds.digit_scenes.conftest import Truth

TINY = {"train": 4, "val": 2, "test": 3, "novel": 3}
TINY_DIGEST = "975501873c0c78ec06d8914cf2b50049f0dbac4beea8dbdef1aed791b45521cd"
USUAL = ("train", "val", "test")  # the splits that need nothing novel

COLOURS = ["red", "green", "blue", "yellow", "purple", "orange"]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DIGIT_OF = {f"{digit}s": digit for digit in DIGITS if digit != "six"} | {"sixes": "six"}
DIGIT_OF |= {digit: digit for digit in DIGITS}
RELATION_WORDS = {
    "left": "left of",
    "right": "right of",
    "above": "above|over",
    "below": "below|under",
    "same digit": "(?:with|showing) the same digit as",
    "same colour": "(?:with|showing) the same colour as",
    "nearest": "(?:nearest|closest) to",
}
_LOOK = rf"small|large|plain|striped|dotted|{'|'.join(COLOURS)}"
_NOUN = rf"{'|'.join(DIGIT_OF)}|symbols|symbol"
_THING = rf"\b(?:(?:{_LOOK}) )*(?:{_NOUN})\b"


def build(folder: Path, scenes: dict[str, int], seed: int = 0) -> Store:
    """Build a world of this many scenes."""
    options = DigitOptions.model_validate({"seed": seed, "scenes": scenes})
    return DigitScenes(options).prepare(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return the world whose digest is pinned."""
    return build(tmp_path_factory.mktemp("tiny"), TINY)


@pytest.fixture(scope="module")
def larger(cache: Path) -> Store:
    """Return a world with enough scenes to measure shares and to train a classifier."""
    return build(cache, {"train": 800, "val": 100, "test": 300, "novel": 150})


def column(store: Store, name: str) -> NDArray[Any]:
    """Return a column by its full name."""
    split, table, of_table = name.split("/")
    return store.table(split, table)[of_table].load()


def questions(store: Store, *splits: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield family, text and row of every question of these splits."""
    words, families = store.names["question words"], store.names["families"]
    wanted = ("scene", "question", "family", "phrasing", "novelty", "about")
    for split in splits:
        for task in ("cnt", "vqa"):
            columns = [column(store, f"{split}/{task}/{name}").tolist() for name in wanted]
            for values in zip(*columns, strict=True):
                row = dict(zip(wanted, values, strict=True))
                text = " ".join(words[word] for word in row["question"] if word)
                yield families[row["family"]], text, row


# One seed, one world.


def test_one_seed_gives_one_world_to_the_byte(tiny: Store, tmp_path: Path) -> None:
    again = build(tmp_path, TINY)
    assert again.digest == tiny.digest
    assert again.path.read_bytes() == tiny.path.read_bytes()
    assert again.verify()


def test_another_seed_gives_another_world(tiny: Store, tmp_path: Path) -> None:
    other = build(tmp_path, TINY, seed=1)
    assert other.digest != tiny.digest
    for name in ("train/scenes/digit", "train/scenes/regions", "novel/vqa/question"):
        assert not np.array_equal(column(other, name), column(tiny, name)), name


def test_the_world_is_the_one_that_results_were_made_with(tiny: Store) -> None:
    assert tiny.digest == TINY_DIGEST, (
        "the same options give other data than before; if that is on purpose, raise "
        "DigitScenes.version and update TINY_DIGEST"
    )


def test_scenes_do_not_depend_on_how_many_there_are(tiny: Store, digits: Store) -> None:
    for split in tiny.splits:
        assert tiny.tasks(split) == digits.tasks(split)
        for table in ("scenes", *tiny.tasks(split)):
            for name in tiny.table(split, table):
                few = column(tiny, f"{split}/{table}/{name}")
                many = column(digits, f"{split}/{table}/{name}")
                np.testing.assert_array_equal(few, many[: len(few)], f"{split}/{table}/{name}")


# Memory.


def _peak_of_building(folder: Path, scenes: int) -> int:
    tracemalloc.start()
    try:
        build(folder, {"train": scenes, "val": 1, "test": 1, "novel": 1})
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_scenes(
    tmp_path: Path, digits: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With ``digits`` built, whatever is worked out once for all scenes is there already.
    monkeypatch.setattr(world, "_CHUNK", 20)
    few, many = _peak_of_building(tmp_path, 40), _peak_of_building(tmp_path, 160)
    assert many < 1.25 * few, f"{few / 1e6:.1f} MB for 40 scenes, {many / 1e6:.1f} MB for 160"


# Splits.


def test_handwriting_is_not_shared_between_training_validation_and_test(
    truths: dict[str, list[Truth]],
) -> None:
    images = {
        split: {thing.image for truth in of_split for thing in truth.things}
        for split, of_split in truths.items()
    }
    assert not images["train"] & images["val"]
    assert not (images["train"] | images["val"]) & (images["test"] | images["novel"])
    assert len(images["novel"] & images["test"]) > 0.8 * len(images["novel"])  # of one share


def test_no_scene_occurs_twice(truths: dict[str, list[Truth]]) -> None:
    scenes = Counter(tuple(truth.things) for of_split in truths.values() for truth in of_split)
    assert len(scenes) == 800 and max(scenes.values()) == 1


def test_only_the_novel_split_shows_novel_pairs(truths: dict[str, list[Truth]]) -> None:
    for split in USUAL:
        for truth in truths[split]:
            assert not any(thing.novel for thing in truth.things), truth
    for truth in truths["novel"]:
        assert any(thing.novel for thing in truth.things), truth


def named_pairs(family: str, text: str) -> set[tuple[str, str]]:
    """Return each digit with each colour that a question names in one description."""
    # "Is the seven red" speaks of a red seven as well.
    described = [text] if family == "verify" else re.findall(_THING, text)
    return {
        (DIGIT_OF[digit], colour)
        for words in map(str.split, described)
        for digit in set(words) & set(DIGIT_OF)
        for colour in set(words) & set(COLOURS)
    }


def named_relations(text: str) -> set[tuple[str, str]]:
    """Return the relation with the colours that a question describes the thing related to by."""
    return {
        (relation, colour)
        for relation, words in RELATION_WORDS.items()
        for anchor in re.findall(rf"\b(?:{words}) the ({_THING})", text)
        for colour in set(anchor.split()) & set(COLOURS)
    }


@pytest.mark.parametrize("split", USUAL)
def test_no_usual_question_needs_anything_novel(
    split: str, digits: Store, novel_pairs: set[Any], novel_relations: set[Any]
) -> None:
    for family, text, row in questions(digits, split):
        assert row["novelty"] == 0, text
        assert not named_pairs(family, text) & novel_pairs, text
        assert not named_relations(text) & novel_relations, text


def test_every_novel_question_needs_something_novel(
    digits: Store, novel_pairs: set[Any], novel_relations: set[Any]
) -> None:
    """That ``novelty`` says the truth is checked in ``test_questions``."""
    reasons: Counter[str] = Counter()
    for family, text, row in questions(digits, "novel"):
        assert row["novelty"] != 0, text
        named = bool(named_pairs(family, text) & novel_pairs)
        relation = bool(named_relations(text) & novel_relations)
        reasons.update({"named": named, "relation": relation, "only seen": not named | relation})
    assert min(reasons.values()) > 100, reasons  # each reason occurs


def test_every_novel_relation_query_has_a_novel_end(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    ends = [column(digits, f"novel/rel/{name}").tolist() for name in ("scene", "box", "target")]
    for scene, box, target in zip(*ends, strict=True):
        truth = truths["novel"][scene]
        owners = truth.owners[box], truth.owners[target]
        assert any(truth.things[owner].novel for owner in owners), f"{box} to {target}: {truth}"


def test_training_shows_each_part_of_what_is_novel(
    digits: Store,
    truths: dict[str, list[Truth]],
    novel_pairs: set[Any],
    novel_relations: set[Any],
) -> None:
    shown = {(t.digit, t.colour) for truth in truths["train"] for t in truth.things}
    assert shown == {(d, c) for d in DIGITS for c in COLOURS} - novel_pairs
    related = set()
    for _, text, _ in questions(digits, "train"):
        related |= named_relations(text)
    assert related == {(r, c) for r in RELATION_WORDS for c in COLOURS} - novel_relations


# Wording.


def phrasing_of(text: str) -> str:
    """Return a question without its content: things, relations, properties and values."""
    for words in RELATION_WORDS.values():
        text = re.sub(rf"\b(?:to the )?(?:{words}) the (?={_THING})", "R the ", text)
    text = re.sub(rf"\b(a|an) (?={_THING})", "a ", text)
    text = re.sub(_THING, "D", text)
    return re.sub(rf"\b(?:{_LOOK})\b", "V", re.sub(r"\b(?:colour|digit|size|texture)\b", "P", text))


def phrasings(store: Store, split: str) -> dict[str, set[tuple[int, str]]]:
    """Return the phrasings of each family: stored number, words."""
    found: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
    for family, text, row in questions(store, split):
        found[family].add((row["phrasing"], phrasing_of(text)))
    return found


def test_two_phrasings_of_each_family_are_kept_for_test(digits: Store) -> None:
    train, val, test, novel = (phrasings(digits, split) for split in digits.splits)
    assert set(test) == set(train) == set(digits.names["families"])
    for family, used in test.items():
        numbers, texts = {n for n, _ in used}, {text for _, text in used}
        assert len(numbers) == len(texts) == len(used), used  # numbers and words go together
        assert len(used) >= 6, family
        assert train[family] < used and len(used - train[family]) == 2, (used, train[family])
        assert val[family] <= train[family], family
        assert novel[family] <= used, family


def test_every_word_of_a_test_question_is_known_from_training(digits: Store) -> None:
    known, needed = set(), set()
    for _, text, _ in questions(digits, "train"):
        known.update(text.split())
    for _, text, _ in questions(digits, "val", "test", "novel"):
        needed.update(text.split())
    assert not needed - known
    assert needed == set(digits.names["question words"]) - {""}


def test_captions_need_few_words_and_use_them_all(digits: Store) -> None:
    words = digits.names["caption words"]
    assert len(words) < 100
    used = {int(word) for word in np.unique(column(digits, "train/cap/captions"))}
    assert {words[word] for word in used} == set(words) - {"<s>"}  # the start is never predicted


# Regions.


def shared(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return intersection over union of two boxes."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = float(np.prod(np.maximum(sides, 0)))
    return both / (float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - both)


def test_regions_vary_in_number_with_duplicates_and_background(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    for split in digits.splits:
        boxes = column(digits, f"{split}/scenes/boxes") * 192
        numbers, duplicates, backgrounds = [], 0, 0
        for truth, of_scene in zip(truths[split], boxes, strict=True):
            numbers.append(len(truth.owners))
            duplicates += len(truth.owners) - len(set(truth.owners))
            backgrounds += truth.owners.count(-1)
            for region, owner in enumerate(truth.owners):
                for number, thing in enumerate(truth.things):
                    iou = shared(of_scene[region], np.array(thing.box))
                    if number == owner:
                        assert iou > 0.3, f"region {region} misses its thing {owner}: {truth}"
                    else:
                        assert iou < 0.2, f"region {region} shows thing {number}: {truth}"
        assert len(set(numbers)) >= 8 and max(numbers) <= 24, split
        assert duplicates > len(numbers) and backgrounds > len(numbers), split


def test_background_shows_hardly_anything_of_an_object(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    boxes = np.rint(column(digits, "train/scenes/boxes") * 192).astype(int)
    for truth, of_scene in zip(truths["train"], boxes, strict=True):
        for region in truth.regions_of({-1}):
            x1, y1, x2, y2 = of_scene[region]
            assert min(x2 - x1, y2 - y1) >= 12, truth
            for thing in truth.things:
                assert shared(of_scene[region], np.array(thing.box)) < 0.1, truth


def test_padding_is_zero_and_masked(digits: Store) -> None:
    for split in digits.splits:
        scenes = {name: c.load() for name, c in digits.table(split, "scenes").items()}
        mask = scenes["mask"]
        assert (np.sort(mask, axis=1)[:, ::-1] == mask).all()  # regions first, then padding
        assert not scenes["regions"][~mask].any() and not scenes["boxes"][~mask].any()
        assert (scenes["owner"][~mask] == -1).all()
        assert np.isfinite(scenes["regions"]).all()
        assert (scenes["regions"][mask] != 0).any(axis=1).all()
        assert (scenes["boxes"][mask][:, :2] < scenes["boxes"][mask][:, 2:]).all()
        assert scenes["boxes"].min() >= 0 and scenes["boxes"].max() <= 1
        nothing = scenes["digit"] < 0
        for name in ("colour", "size", "texture", "image", "thing_box"):
            assert (scenes[name][nothing] == -1).all() and (scenes[name][~nothing] >= 0).all()
        per_region = [("obj", "label"), ("obj", "asked"), ("att", "attributes"), ("att", "asked")]
        per_region += [("rel", "satisfying"), ("cnt", "about"), ("vqa", "about")]
        for table, name in per_region:
            of_scene = column(digits, f"{split}/{table}/scene")
            values = column(digits, f"{split}/{table}/{name}")
            assert not values[~mask[of_scene]].any(), f"{split}/{table}/{name}"


def test_samples_follow_their_scenes(digits: Store) -> None:
    for split in digits.splits:
        scenes = len(digits.table(split, "scenes")["mask"])
        captions = 5 if split == "train" else 1  # training learns each, the others ask for one
        per_scene = {"obj": 1, "att": 1, "rel": 8, "cap": captions, "cnt": 4, "vqa": 10}
        for table, rows in per_scene.items():
            expected = np.repeat(np.arange(scenes), rows)
            np.testing.assert_array_equal(column(digits, f"{split}/{table}/scene"), expected)


def test_every_box_that_fits_is_drawn_at_times(digits: Store) -> None:
    """A relation that several boxes satisfy has each of them as a target, not always one."""
    fits = column(digits, "train/rel/satisfying")
    target = column(digits, "train/rel/target")
    two = fits.sum(axis=1) == 2
    first = fits[two].argmax(axis=1) == target[two]
    assert two.sum() > 300
    assert 0.4 < first.mean() < 0.6
    assert fits[np.arange(len(fits)), target].all()


# Difficulty.


@pytest.mark.parametrize("split", ["train", "val", "test", "novel"])
def test_a_constant_answer_earns_little(larger: Store, split: str) -> None:
    most = {"yes/no": 0.55, "number": 0.30, "other": 0.30, "plain": 0.30, "relational": 0.30}
    for task, answer in (("vqa", "answers"), ("cnt", "count")):
        kinds = column(larger, f"{split}/{task}/kind")
        answers = column(larger, f"{split}/{task}/{answer}").ravel()
        for number, kind in enumerate(larger.names[f"{task} kinds"]):
            of_kind = Counter(answers[kinds == number].tolist())
            ((commonest, times),) = of_kind.most_common(1)
            share = times / of_kind.total()
            assert share <= most[kind], f"{split} {task} {kind}: {commonest} in {share:.0%}"


def test_every_count_occurs(larger: Store) -> None:
    counts = set(column(larger, "train/cnt/count").tolist())
    assert counts == set(range(13))
    answers = {larger.names["answers"][a] for a in column(larger, "train/vqa/answers").ravel()}
    assert {str(count) for count in range(13)} <= answers


def test_a_linear_classifier_reads_most_digits_but_not_all(larger: Store) -> None:
    def regions(split: str) -> tuple[NDArray[Any], NDArray[Any]]:
        asked = column(larger, f"{split}/obj/asked")
        features = column(larger, f"{split}/scenes/regions")[asked].astype(np.float32)
        return features, column(larger, f"{split}/obj/label")[asked]

    with threadpool_limits(1):  # ten times faster where other work shares the cores
        classifier = LogisticRegression(max_iter=200).fit(*regions("train"))
    accuracy = classifier.score(*regions("test"))
    assert 0.70 <= accuracy <= 0.92, f"{accuracy:.3f}"
