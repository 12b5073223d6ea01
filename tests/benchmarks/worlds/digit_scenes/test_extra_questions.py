"""Questions made of relations: read again, answered again and counted again from the truth.

The reader of sentences and the search for descriptions are written out here: nothing comes from
the generator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.stream import Stream
from benchmarks.worlds.digit_scenes.extra_questions import extra_counts, extra_questions
from pmn_cl.config.spec import StreamSpec
from pmn_cl.config.stream import load_spec, parse_stream
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError

if TYPE_CHECKING:
    from tests.benchmarks.worlds.digit_scenes.conftest import Truth

Columns = dict[str, np.ndarray]

SCENES = {"train": 300, "val": 50, "test": 250, "novel": 200}
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PLUGIN = Path(__file__).parents[3] / "plugin" / "parity.yaml"
RELATION_WORDS = {
    r"(?:to the )?left of": "left",
    r"(?:to the )?right of": "right",
    r"above|over": "above",
    r"below|under": "below",
    r"(?:with|showing) the same digit as": "same digit",
    r"(?:with|showing) the same colour as": "same colour",
    r"nearest to|closest to": "nearest",
}
PROPERTIES = ("size", "texture", "colour", "digit")


@dataclass(frozen=True)
class Read:
    """A question as it reads, and what the truth says to it."""

    truth: Truth
    row: dict[str, Any]
    text: str
    relation: str
    prop: str  # that is asked for
    named: frozenset[str]  # the words that describe what the relation is to
    answer: str  # that is stored

    @property
    def anchors(self) -> set[int]:
        """The things that have every property named."""
        return {i for i, t in enumerate(self.truth.things) if self.named <= looks(t)}

    @property
    def triplet(self) -> tuple[int, int, str, int]:
        """Scene, subject, relation and object, where both are the only ones."""
        (anchor,) = self.anchors
        (subject,) = self.truth.subjects(self.relation, anchor)
        return self.truth.number, subject, self.relation, anchor


def looks(thing: Any) -> set[str]:
    """The words that are true of a thing."""
    return {getattr(thing, prop) for prop in PROPERTIES}


def read(store: Store, truths: list[Truth], columns: Columns) -> Iterator[Read]:
    """Take every sentence apart."""
    words, answers = store.names["question words"], store.names["answers"]
    for i in range(len(columns["scene"])):
        row = {name: column[i].tolist() for name, column in columns.items()}
        text = " ".join(words[word] for word in row["question"]).strip()
        tried = {
            relation: re.fullmatch(rf"(.*)\bthe symbol (?:{phrase}) the (.*)", text)
            for phrase, relation in RELATION_WORDS.items()
        }
        ((relation, (before, rest)),) = [(r, m.groups()) for r, m in tried.items() if m]
        noun = re.search(rf"\b(symbol|{'|'.join(store.names['digit'])})\b", rest)
        assert noun, text
        named = frozenset(rest[: noun.end()].split()) - {"symbol"}
        frame = f"{before} {rest[noun.end() :]}"
        (prop,) = re.findall(r"\b(?:colour|digit|size|texture)\b", frame)
        answer = answers[row["answers"][0]]
        yield Read(truths[row["scene"]], row, text, relation, prop, named, answer)


@pytest.fixture(scope="module")
def columns(digits: Store) -> Columns:
    return extra_questions(digits)


@pytest.fixture(scope="module")
def asked(digits: Store, truths: dict[str, list[Truth]], columns: Columns) -> list[Read]:
    return list(read(digits, truths["train"], columns))


def given_triplets(digits: Store, truths: dict[str, list[Truth]]) -> set[tuple[int, int, str, int]]:
    """The triplets that the relation task is trained on."""
    table = {name: column.load().tolist() for name, column in digits.table("train", "rel").items()}
    found = set()
    for i, number in enumerate(table["scene"]):
        owners = truths["train"][number].owners
        ends = [owners[table["box"][i]], owners[table["target"][i]]]
        if digits.names["directions"][table["direction"][i]] == "subject":
            ends.reverse()  # the object is given, the subject is the target
        subject, other = ends
        found.add((number, subject, digits.names["relations"][table["relation"][i]], other))
    return found


def test_every_answer_is_true_and_the_only_one(asked: list[Read]) -> None:
    assert len(asked) > 500
    for q in asked:
        number, subject, *_ = q.triplet  # which fails where anything fits twice, or nothing
        assert getattr(q.truth.things[subject], q.prop) == q.answer, f"{q.text}: {q.truth}"
        assert number == q.row["scene"]
    assert {q.prop for q in asked} == set(PROPERTIES)
    assert {q.relation for q in asked} == set(RELATION_WORDS.values())


def test_the_answer_is_not_given_away_by_the_relation(asked: list[Read]) -> None:
    assert not [q.text for q in asked if q.relation == f"same {q.prop}"]


def test_every_question_is_a_triplet_of_the_relation_task_and_none_is_asked_twice(
    digits: Store, truths: dict[str, list[Truth]], asked: list[Read]
) -> None:
    triplets = [q.triplet for q in asked]
    assert set(triplets) <= given_triplets(digits, truths)
    assert len(set(triplets)) == len(triplets)


def sound_descriptions(
    truth: Truth, anchor: int, relation: str, held_out: set[tuple[str, str]]
) -> list[bool]:
    """Of the descriptions that fit a thing alone, up to one word more than needed: is it sound?"""
    own = [getattr(truth.things[anchor], prop) for prop in PROPERTIES]
    sound: list[bool] = []
    for length in (1, 2, 3):
        for words in combinations(own, length):
            if sum(set(words) <= looks(thing) for thing in truth.things) == 1:
                sound.append(not any((relation, word) in held_out for word in words))
        if sound and length > shortest_of(truth, anchor):
            break
    return sound


def shortest_of(truth: Truth, anchor: int) -> int:
    """How many words it takes to describe a thing that nothing else fits; 4 if three do not do."""
    own = [getattr(truth.things[anchor], prop) for prop in PROPERTIES]
    for length in (1, 2, 3):
        for words in combinations(own, length):
            if sum(set(words) <= looks(thing) for thing in truth.things) == 1:
                return length
    return 4


def test_every_triplet_that_can_be_asked_about_is_and_no_other(
    digits: Store,
    truths: dict[str, list[Truth]],
    asked: list[Read],
    novel_relations: set[tuple[str, str]],
) -> None:
    triplets, reasons = {q.triplet for q in asked}, Counter[str]()
    for number, subject, relation, anchor in given_triplets(digits, truths):
        truth = truths["train"][number]
        sound = sound_descriptions(truth, anchor, relation, novel_relations)
        found = (number, subject, relation, anchor) in triplets
        if truth.subjects(relation, anchor) != {subject}:
            reason = "not the only one"
        elif not sound:
            reason = "cannot be described"
        elif not any(sound):
            reason = "held out"
        elif all(sound):
            reason = "asked"
        else:
            continue  # a sound description is drawn nearly always
        assert found == (reason == "asked"), f"{reason}: {subject} {relation} {anchor} in {truth}"
        reasons[reason] += 1
    assert min(reasons[r] for r in ("not the only one", "cannot be described", "asked")) > 20
    assert reasons["held out"] > 3


def test_no_composition_that_training_does_without(
    asked: list[Read], novel_relations: set[tuple[str, str]], novel_pairs: set[tuple[str, str]]
) -> None:
    for q in asked:
        assert not any((q.relation, word) in novel_relations for word in q.named), q.text
        assert not any({digit, colour} <= q.named for digit, colour in novel_pairs), q.text
        assert not any(thing.novel for thing in q.truth.things)
        assert q.row["novelty"] == 0


def test_words_and_phrasings_are_those_of_the_worlds_own_training_questions(
    digits: Store, columns: Columns
) -> None:
    own = {name: column.load() for name, column in digits.table("train", "vqa").items()}
    family = digits.names["families"].index("query_related")
    alike = own["family"] == family
    assert set(columns["family"].tolist()) == {family}
    for name in ("phrasing", "hops", "kind", "scores", "ask_direction"):
        assert np.unique(columns[name]).tolist() == np.unique(own[name][alike]).tolist()
    assert set(columns["question"].ravel()) <= set(own["question"].ravel())
    assert set(columns["answers"].ravel()) <= set(own["answers"].ravel())


def test_the_columns_are_those_of_the_table(digits: Store, columns: Columns) -> None:
    table = digits.table("train", "vqa")
    assert list(columns) == list(table)
    for name, column in table.items():
        assert columns[name].dtype == column.dtype
        assert columns[name].shape == (len(columns["scene"]), *column.shape[1:])


def test_what_to_ask_and_look_at_is_marked(digits: Store, asked: list[Read]) -> None:
    for q in asked:
        _, subject, relation, anchor = q.triplet
        marked = {
            name: {i for i, m in enumerate(q.row[name]) if m} for name in ("ask_boxes", "about")
        }
        assert marked["ask_boxes"] == q.truth.regions_of({anchor})
        assert marked["about"] == q.truth.regions_of({anchor, subject})
        assert q.row["ask_box"] in marked["ask_boxes"]
        assert digits.names["relations"][q.row["ask_relation"]] == relation
        assert q.row["program"].decode().startswith(f"query({q.prop}, unique(relate({relation},")


def test_the_same_store_gives_the_same_questions(digits: Store, columns: Columns) -> None:
    again = extra_questions(Store(digits.path))
    assert all(np.array_equal(again[name], column) for name, column in columns.items())


def test_every_digit_of_a_scene_is_counted_once(
    digits: Store, truths: dict[str, list[Truth]]
) -> None:
    columns, words = extra_counts(digits), digits.names["question words"]
    plurals = {f"{digit}es" if digit == "six" else f"{digit}s": digit for digit in DIGITS}
    asked: Counter[tuple[int, str]] = Counter()
    values = (columns[name].tolist() for name in ("scene", "question", "count"))
    for number, question, count in zip(*values, strict=True):
        text = [words[word] for word in question if word]
        (digit,) = [plurals[word] for word in text if word in plurals]
        assert {"many", "number", "count"} & set(text), text
        assert count == sum(thing.digit == digit for thing in truths["train"][number].things)
        asked[number, digit] += 1
    shown = {(n, thing.digit) for n, truth in enumerate(truths["train"]) for thing in truth.things}
    assert asked == Counter(shown)
    assert columns.keys() == digits.table("train", "cnt").keys()
    assert (columns["ask_relation"] == -1).all() and not columns["kind"].any()


# In a stream.


def spec(**changes: Any) -> StreamSpec:
    given = {
        "name": "with more",
        "world": {"name": "digits", "scenes": SCENES},
        "tasks": ["obj", "att", {"task": "vqa", "calls": ["obj", "att"], "extra": "rel"}],
        "strategies": ["pmn"],
        "seeds": [0],
    }
    return parse_stream({**given, **changes})


def test_a_stream_that_asks_for_them_trains_on_both(cache: Path, columns: Columns) -> None:
    plain = Stream.open(spec(tasks=["obj", "att", "vqa"]), 0, cache=cache).tasks[2].splits
    stream = Stream.open(spec(), 0, cache=cache)
    both = stream.tasks[2].splits
    assert len(both["train"]) == 3000 + len(columns["scene"])
    for name, column in columns.items():
        expected = np.concatenate([plain["train"].columns[name], column])
        assert np.array_equal(both["train"].columns[name], expected)
    assert [len(both[split]) for split in ("val", "test", "novel")] == [500, 2500, 2000]
    batches = stream.as_avalanche().train_stream[2].batches
    assert len(batches) == len(both["train"])
    x, y = batches[np.array([7, 3000])]  # the last of them is the first that was added
    assert x["question"][1].tolist() == columns["question"][0].tolist()
    assert y["answers"][1].tolist() == columns["answers"][0].tolist()
    assert x["question"][0].tolist() == plain["train"].columns["question"][7].tolist()
    scene = stream.store.table("train", "scenes")["boxes"].array[columns["scene"][0]]
    assert np.array_equal(x["boxes"][1].numpy(), scene)


def test_a_fraction_is_taken_of_both_and_of_the_own_as_without(
    cache: Path, columns: Columns
) -> None:
    tasks = [{"task": "vqa"}], [{"task": "vqa", "extra": "rel"}]
    plain, both = (
        Stream.open(spec(tasks=t, fraction=10.0), 3, cache=cache).tasks[0].splits["train"]
        for t in tasks
    )
    assert np.array_equal(plain.rows, both.rows)
    assert len(both) == 300 + round(len(columns["scene"]) / 10)
    added = both.columns["question"][300:].tolist()
    assert all(question in columns["question"].tolist() for question in added)


def test_what_a_world_cannot_make_is_refused(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"'digits' makes .* 'cnt' out of 'rel', .*vqa out of rel or cnt"
    ):
        Stream.open(spec(tasks=[{"task": "cnt", "extra": "rel"}]), 0, cache=cache)
    text = PLUGIN.read_text("utf-8")
    (tmp_path / "parity.py").write_text(PLUGIN.with_suffix(".py").read_text("utf-8"), "utf-8")
    asking = text.replace('["parity:ParityTask"]', '[{task: "parity:ParityTask", extra: obj}]')
    assert asking != text
    (tmp_path / "asking.yaml").write_text(asking, "utf-8")
    with pytest.raises(
        UserError, match=r"asking\.yaml:\d+:\d+: tasks\[0\]\.extra: .*'marks' makes"
    ):
        load_spec(tmp_path / "asking.yaml")
