"""Every question of 800 scenes, answered again and read again by other code.

Two things are independent of the generator here: an evaluator that runs a question's program on
the stored truth, and a reader that turns its English back into a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pmn_cl.data.store import Store

if TYPE_CHECKING:
    from tests.benchmarks.worlds.digit_scenes.conftest import Truth

VALUES = {
    "size": ("small", "large"),
    "texture": ("plain", "striped", "dotted"),
    "colour": ("red", "green", "blue", "yellow", "purple", "orange"),
    "digit": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
}
PROPERTY_OF = {value: prop for prop, values in VALUES.items() for value in values}
SINGULAR = {
    "zeros": "zero",
    "ones": "one",
    "twos": "two",
    "threes": "three",
    "fours": "four",
    "fives": "five",
    "sixes": "six",
    "sevens": "seven",
    "eights": "eight",
    "nines": "nine",
    "symbols": "symbol",
}
RELATION_WORDS = {
    "to the left of": "left",
    "left of": "left",
    "to the right of": "right",
    "right of": "right",
    "above": "above",
    "over": "above",
    "below": "below",
    "under": "below",
    "with the same digit as": "same digit",
    "showing the same digit as": "same digit",
    "with the same colour as": "same colour",
    "showing the same colour as": "same colour",
    "nearest to": "nearest",
    "closest to": "nearest",
}


class WrongError(Exception):
    """A program that cannot be run, or a sentence that cannot be read."""


# Programs.

Node = tuple[str, list[Any]]  # a call: its name, its arguments (calls or words)


def parse(program: str) -> Node:
    """Read a nested call such as ``count(find(red symbol))``."""
    tokens = [t.strip() for t in re.findall(r"[^(),]+|[(),]", program)]

    def expression() -> Any:
        name = tokens.pop(0)
        if not tokens or tokens[0] != "(":
            return name
        tokens.pop(0)
        arguments = []
        while tokens[0] != ")":
            arguments.append(expression())
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)
        return name, arguments

    call = expression()
    if tokens or isinstance(call, str):
        raise WrongError(f"not one call: {program}")
    return call  # type: ignore[no-any-return]


def telling(description: str) -> bool:
    """Whether a description names a digit or a colour."""
    return any(PROPERTY_OF.get(word) in ("digit", "colour") for word in description.split())


@dataclass
class Run:
    """Runs a program on a scene, and notes what it looked at and what it named."""

    truth: Truth
    looked: set[int] = field(default_factory=set)
    recognised: set[int] = field(default_factory=set)  # whose digit or colour matters
    named: list[set[str]] = field(default_factory=list)  # the words of each description
    anchor: int | None = None
    anchor_words: set[str] = field(default_factory=set)
    relation: str | None = None

    def describe(self, description: str) -> set[int]:
        """Return the things that a description fits."""
        words = set(description.split()) - {"symbol"}
        self.named.append(words)
        return {
            i
            for i, thing in enumerate(self.truth.things)
            if all(getattr(thing, PROPERTY_OF[word]) == word for word in words)
        }

    def unique(self, argument: Any) -> int:
        """Return the only thing that fits."""
        found = self.describe(argument) if isinstance(argument, str) else self.things(argument)
        if len(found) != 1:
            raise WrongError(f"unique({argument}) fits the things {sorted(found)}")
        self.looked |= found
        if isinstance(argument, str) and telling(argument):
            self.recognised |= found
        return next(iter(found))

    def things(self, node: Node) -> set[int]:
        """Run a call that gives things."""
        match node:
            case ("find", [str(description)]):
                found = self.describe(description)
                self.recognised |= found if telling(description) else set()
            case ("relate", [str(relation), ("unique", [str(description)])]):
                self.anchor, self.relation = self.unique(description), relation
                self.anchor_words = set(description.split())
                found = self.truth.subjects(relation, self.anchor)
                if relation in ("same digit", "same colour"):
                    self.recognised |= {self.anchor, *found}
            case ("filter", [str(description), inner]):
                among = self.things(inner)
                self.recognised |= among if telling(description) else set()
                found = self.describe(description) & among
                self.name_what_is_implied(description)
            case _:
                raise WrongError(f"gives no things: {node}")
        self.looked |= found
        return found

    def name_what_is_implied(self, description: str) -> None:
        """Note that a red symbol with the same digit as a zero is a red zero."""
        if self.anchor is not None and self.relation in ("same digit", "same colour"):
            shared = getattr(self.truth.things[self.anchor], self.relation.split()[1])
            self.named.append({*description.split(), shared})

    def ask(self, prop: str, *things: int) -> list[str]:
        """Return a property of some things."""
        if prop in ("digit", "colour"):
            self.recognised |= set(things)
        return [str(getattr(self.truth.things[thing], prop)) for thing in things]

    def answer(self, node: Node) -> str:
        """Run a call that gives an answer."""
        things = self.truth.things
        match node:
            case ("exist", [inner]):
                return "yes" if self.things(inner) else "no"
            case ("count", [inner]):
                return str(len(self.things(inner)))
            case ("more", [first, second]):
                return "yes" if len(self.things(first)) > len(self.things(second)) else "no"
            case ("verify", [str(prop), str(value), ("unique", [str(description)])]):
                if value not in VALUES[prop]:
                    raise WrongError(f"{value} is no {prop}")
                found = self.unique(description)
                self.named.append({*description.split(), value})
                return "yes" if self.ask(prop, found) == [value] else "no"
            case ("same", [str(prop), ("unique", [first]), ("unique", [second])]):
                one, two = self.unique(first), self.unique(second)
                if one == two:
                    raise WrongError("compares a thing with itself")
                return "yes" if len(set(self.ask(prop, one, two))) == 1 else "no"
            case ("query", [str(prop), ("unique", [inner])]):
                return self.ask(prop, self.unique(inner))[0]
        self.looked |= set(range(len(things)))
        match node:
            case ("arrangement", []):
                return self.truth.arrangement
            case ("ground", []):
                return self.truth.ground
            case ("majority", ["colour"]):
                colours = [thing.colour for thing in things]
                most = max(VALUES["colour"], key=colours.count)
                if colours.count(most) * 2 <= len(colours):
                    raise WrongError("no colour has the majority")
                return most
        raise WrongError(f"gives no answer: {node}")


# English.

_ONE_OF = {prop: "|".join(values) for prop, values in VALUES.items()}
_LOOK = "".join(rf"(?:(?:{_ONE_OF[prop]}) )?" for prop in ("size", "texture", "colour"))
_ONE = rf"{_LOOK}(?:{_ONE_OF['digit']}|symbol)\b"
_MANY = rf"{_LOOK}(?:{'|'.join(SINGULAR)})\b"
_CONTENT = re.compile(
    rf"\b(?:(?P<relation>{'|'.join(RELATION_WORDS)})(?= the {_ONE})"
    rf"|(?P<many>{_MANY})"
    rf"|(?:(?P<article>an|a|the) )(?P<one>{_ONE})"
    rf"|(?P<prop>colour|digit|size|texture)"
    rf"|(?P<value>{'|'.join(PROPERTY_OF)}))\b"
)


@dataclass
class Sentence:
    """The content of a question, by kind and in order; the other words apart."""

    definite: list[str] = field(default_factory=list)  # "the large seven"
    indefinite: list[str] = field(default_factory=list)  # "a red symbol"
    plural: list[str] = field(default_factory=list)  # "red sevens", as singular
    relations: list[str] = field(default_factory=list)
    props: set[str] = field(default_factory=set)
    values: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)


def read(text: str) -> Sentence:
    """Take a question apart."""
    sentence = Sentence()
    for match in _CONTENT.finditer(text):
        found = {kind: words for kind, words in match.groupdict().items() if words}
        if "relation" in found:
            sentence.relations.append(RELATION_WORDS[found["relation"]])
        elif "many" in found:
            *look, noun = found["many"].split()
            sentence.plural.append(" ".join([*look, SINGULAR[noun]]))
        elif "one" in found:
            sounds_open = found["one"].startswith(("orange", "eight"))  # "one" sounds like "won"
            if found["article"] == ("a" if sounds_open else "an"):
                raise WrongError(f"wrong article: {match[0]}")
            (sentence.definite if found["article"] == "the" else sentence.indefinite).append(
                found["one"]
            )
        elif "prop" in found:
            sentence.props.add(found["prop"])
        else:
            sentence.values.append(found["value"])
    sentence.others = set(_CONTENT.sub("", text).split())
    return sentence


def program_of(text: str) -> tuple[str, str]:
    """Return the family and the program that a question's English asks for."""
    said = read(text)
    others = said.others
    counts, no_prop = bool(others & {"many", "number", "count"}), not said.props
    match said:
        case Sentence([], [], [one, two], [], _, []) if {"more", "than"} <= others and no_prop:
            return "more", f"more(find({one}), find({two}))"
        case Sentence([of], [], ["symbol"], [r], _, []) if counts and no_prop:
            return "count_related", f"count(relate({r}, unique({of})))"
        case Sentence([], [], [what], [], _, []) if counts and no_prop:
            return "count", f"count(find({what}))"
        case Sentence([of], [what], [], [r], _, []) if no_prop:
            return "exist_related", f"exist(filter({what}, relate({r}, unique({of}))))"
        case Sentence([], [what], [], [], _, []) if no_prop:
            return "exist", f"exist(find({what}))"
        case Sentence(["symbol", of], [], [], [r], _, []) if "what" in others or "tell" in others:
            return "query_related", f"query({only(said.props)}, unique(relate({r}, unique({of}))))"
        case Sentence([one, two], [], [], [], _, []) if "same" in others:
            return "same", f"same({only(said.props)}, unique({one}), unique({two}))"
        case Sentence([of], [], [], [], _, []) if others & {"what", "tell"}:
            return "query", f"query({only(said.props)}, unique({of}))"
        case Sentence([of], [], [], [], _, [value]) if no_prop:
            return "verify", f"verify({PROPERTY_OF[value]}, {value}, unique({of}))"
        case Sentence([], [], ["symbol"], [], _, []) if "most" in others:
            return "majority", f"majority({only(said.props)})"
        case Sentence([], [], ["symbol"], [], _, []) if no_prop:
            if others & {"lie", "lying", "under"}:
                return "ground", "ground()"
            if others & {"form", "shape", "placed"}:
                return "arrangement", "arrangement()"
    raise WrongError(f"cannot be read: {said}")


def only(props: set[str]) -> str:
    """Return the one property that a sentence asks for."""
    if len(props) != 1:
        raise WrongError(f"asks for {sorted(props)}, expected one property")
    return next(iter(props))


# The tests.


@dataclass
class Asked:
    """One stored question with everything found out about it."""

    task: str
    truth: Truth
    row: dict[str, Any]
    text: str
    program: str
    run: Run
    answer: str  # what the program gives, or why it gives nothing
    stored: str

    def say(self, what: str, expected: object, found: object) -> str:
        """Return what is wrong with this question."""
        return (
            f"{self.task}, {what}: expected {expected}, found {found}\n"
            f"  question: {self.text}\n  program:  {self.program}\n  scene:    {self.truth}"
        )


def _ask_again(store: Store, truths: dict[str, list[Truth]]) -> Iterator[Asked]:
    words, answers = store.names["question words"], store.names["answers"]
    for split in store.splits:
        for task in ("cnt", "vqa"):
            columns = {name: c.load().tolist() for name, c in store.table(split, task).items()}
            for values in zip(*columns.values(), strict=True):
                row = dict(zip(columns, values, strict=True))
                truth = truths[split][row["scene"]]
                program = row["program"].decode()
                run = Run(truth)
                try:
                    answer = run.answer(parse(program))
                except WrongError as error:
                    answer = str(error)
                text = " ".join(words[word] for word in row["question"] if word)
                stored = str(row["count"]) if task == "cnt" else answers[row["answers"][0]]
                yield Asked(task, truth, row, text, program, run, answer, stored)


@pytest.fixture(scope="module")
def questions(digits: Store, truths: dict[str, list[Truth]]) -> list[Asked]:
    """Return every counting and every other question of the small world, asked again."""
    return list(_ask_again(digits, truths))


def assert_none(wrong: list[str]) -> None:
    """Fail with the first few of what is wrong."""
    assert not wrong, f"{len(wrong)} wrong, among them\n" + "\n".join(wrong[:5])


def test_every_scene_is_asked_about(digits: Store, questions: list[Asked]) -> None:
    scenes = sum(len(digits.table(split, "obj")["scene"]) for split in digits.splits)
    assert scenes == 800
    assert len(questions) == 800 * (4 + 10)
    assert {q.truth.number for q in questions if q.truth.split == "train"} == set(range(300))


def test_every_program_gives_the_stored_answer(questions: list[Asked]) -> None:
    wrong = [q.say("the answer", q.answer, q.stored) for q in questions if q.answer != q.stored]
    assert_none(wrong)


def test_every_question_says_in_english_what_its_program_says(
    digits: Store, questions: list[Asked]
) -> None:
    wrong = []
    for q in questions:
        try:
            family, program = program_of(q.text)
        except WrongError as error:
            family, program = "none", str(error)
        stored = digits.names["families"][q.row["family"]]
        if (family, program) != (stored, q.program):
            wrong.append(q.say("the English", f"{family} {program}", f"{stored} {q.program}"))
    assert_none(wrong)


def test_words_are_followed_by_nothing_but_padding(questions: list[Asked]) -> None:
    for q in questions:
        length = len(q.text.split())
        assert length > 0 and not any(q.row["question"][length:]), q.text


def test_about_marks_the_regions_one_has_to_look_at(questions: list[Asked]) -> None:
    wrong = []
    for q in questions:
        expected = q.truth.regions_of(q.run.looked)
        found = {region for region, marked in enumerate(q.row["about"]) if marked}
        if found != expected:
            wrong.append(q.say("about", sorted(expected), sorted(found)))
    assert_none(wrong)


def test_relational_questions_name_their_anchor_and_relation(
    digits: Store, questions: list[Asked]
) -> None:
    wrong = []
    for q in questions:
        box, relation = q.row["ask_box"], q.row["ask_relation"]
        if q.run.anchor is None:
            expected: tuple[Any, Any] = (-1, -1)
            found: tuple[Any, Any] = (box, relation)
        else:
            expected = (f"a box of thing {q.run.anchor}", q.run.relation)
            found = (
                f"a box of thing {q.truth.owners[box]}" if box >= 0 else box,
                digits.names["relations"][relation] if relation >= 0 else relation,
            )
        if found != expected:
            wrong.append(q.say("the query", expected, found))
        anchors = set() if q.run.anchor is None else {q.run.anchor}
        boxes = {region for region, marked in enumerate(q.row["ask_boxes"]) if marked}
        if boxes != q.truth.regions_of(anchors):
            wrong.append(q.say("the boxes to ask about", q.truth.regions_of(anchors), boxes))
        sought = digits.names["directions"][q.row["ask_direction"]]
        if sought != "subject" and anchors:  # "the symbol left of it" is the one that is left of it
            wrong.append(q.say("the end sought", "subject", sought))
    assert_none(wrong)


def test_kinds_hops_and_scores_follow_from_program_and_answer(
    digits: Store, questions: list[Asked]
) -> None:
    wrong = []
    for q in questions:
        relational = "relate(" in q.program
        if q.task == "cnt":
            expected: tuple[Any, ...] = ("relational" if relational else "plain",)
            found: tuple[Any, ...] = (digits.names["cnt kinds"][q.row["kind"]],)
        else:
            yes_no, number = q.answer in ("yes", "no"), q.answer.isdigit()
            kind = "yes/no" if yes_no else "number" if number else "other"
            expected = (kind, 2 if relational else 1, [1.0])
            found = (digits.names["vqa kinds"][q.row["kind"]], q.row["hops"], q.row["scores"])
        if found != expected:
            wrong.append(q.say("kind, hops, scores", expected, found))
    assert_none(wrong)


def test_novelty_says_which_novel_composition_is_needed(
    questions: list[Asked], novel_pairs: set[tuple[str, str]], novel_relations: set[tuple[str, str]]
) -> None:
    wrong = []
    for q in questions:
        seen = any(q.truth.things[thing].novel for thing in q.run.recognised)
        named = any({*pair} <= words for pair in novel_pairs for words in q.run.named)
        anchor = q.run.anchor_words
        related = any(q.run.relation == r and colour in anchor for r, colour in novel_relations)
        expected = 1 * (seen or named) + 2 * related
        if q.row["novelty"] != expected:
            wrong.append(q.say("novelty", expected, q.row["novelty"]))
    assert_none(wrong)


def test_every_family_and_both_answers_are_among_the_questions(
    digits: Store, questions: list[Asked]
) -> None:
    for split in digits.splits:
        ours = [q for q in questions if q.truth.split == split and q.task == "vqa"]
        asked = {digits.names["families"][q.row["family"]] for q in ours}
        whole = {"arrangement", "majority", "ground"}  # of the whole: nothing to compose
        missing = whole if split == "novel" else set()
        assert asked == set(digits.names["families"]) - missing, split


# The evaluator and the reader themselves, on cases worked by hand.


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("is there an orange one", "exist(find(orange one))"),
        ("is the large seven red", "verify(colour, red, unique(large seven))"),
        ("is the large seven plain", "verify(texture, plain, unique(large seven))"),
        ("count the small sixes", "count(find(small six))"),
        (
            "the symbol to the left of the two has what size",
            "query(size, unique(relate(left, unique(two))))",
        ),
        (
            "do the red symbol and the dotted two have the same size",
            "same(size, unique(red symbol), unique(dotted two))",
        ),
        (
            "do you see a nine showing the same colour as the large symbol",
            "exist(filter(nine, relate(same colour, unique(large symbol))))",
        ),
        ("what is under the symbols", "ground()"),
        ("what do the symbols form", "arrangement()"),
        ("most symbols have what colour", "majority(colour)"),
    ],
)
def test_the_reader_understands_english(text: str, program: str) -> None:
    assert program_of(text)[1] == program


@pytest.mark.parametrize("text", ["is there a orange one", "is there an one", "the seven", "red"])
def test_the_reader_refuses_what_is_no_question(text: str) -> None:
    with pytest.raises(WrongError):
        program_of(text)
