"""Explanations for people: text and page say what the record says, whatever is in it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from made_explanations import baseline, call, relational

from pmn_cl.explaining.records.explanation import Explanation, Message
from reports.explanation import ExplanationView, answers, as_page, as_text, lines, marks

SCENE = np.full((40, 40, 3), 200, dtype=np.uint8)
NASTY = {
    "script": '<script>alert("1")</script> & "quoted" {{ 7 * 7 }} $x_1$',
    "right to left": "מה הצבע של \u202eשבע",
    "long": "word" * 2_500,
    "lines": "one\ntwo\t\x1b[31mthree",
}


class Reader(HTMLParser):
    """What a browser would make of a page: elements, and what is to be read."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def page_of(ours: Explanation, theirs: Explanation | None = None) -> Reader:
    return Reader(as_page([ExplanationView(ours, theirs, SCENE)]))


def nasty(text: str) -> Explanation:
    """An explanation that has a text everywhere where data may put one."""
    return relational(
        **{"question": text, "answer": text, "truth": text, "runners_up": [(text, 0.1)]},
        **{"regions": [text] * 3, "caption": [text, "ring"], "unknown_words": [text]},
        **{"run": text, "strategy": text},
        calls=[call(1, "att", 1, 0.6, reply=Message(words=text, chances={text: 0.9}))],
    )


def test_marks_are_where_it_looked_and_what_passed_between_it_and_the_relation_module() -> None:
    assert [tuple(mark) for mark in marks(relational())] == [
        ("looked", 1, "look 1: 0.81, 2: 0.81"),
        ("asked", 0, "asked 0.90"),
        ("shown", 1, "M_rel 0.90"),
    ]
    assert [tuple(mark) for mark in marks(baseline())] == [
        ("looked", 0, "look 1: 0.80"),
        ("looked", 1, "look 2: 0.80"),
    ]


def test_marks_leave_the_relation_module_out_where_it_did_not_matter() -> None:
    steps = [
        step.model_copy(update={"gates": {**step.gates, "rel": 0.1}}) for step in relational().steps
    ]
    assert {mark.kind for mark in marks(relational(steps=steps))} == {"looked"}


def test_calls_that_say_the_same_are_one_line() -> None:
    found = [(line.numbers, line.depth, line.callee, line.named) for line in lines(relational())]
    assert found[:4] == [
        ("1", 0, "Ω", False),
        ("2", 0, "M_rel", True),
        ("3–4", 1, "M_obj, M_att", False),
        ("5", 0, "M_att", True),
    ]
    assert [line.numbers for line in lines(relational())][-1] == "9"
    assert not lines(relational())[-1].named  # of the second step: the first is named


def test_answers_begin_with_the_one_given_and_are_five_at_most() -> None:
    many = [(str(n), 0.1 / (n + 1)) for n in range(9)]
    found = answers(relational(runners_up=many))
    assert found == [("green", 0.75), *many[:4]]


def test_text_has_the_whole_execution() -> None:
    text = as_text(relational(), baseline())
    for expected in (
        "what colour is the symbol left of the red seven?",
        "(question 31, scene 3 of test)",
        "0.90 █████████·",
        "answer: green 0.75 (right)",
        "runners-up: blue 0.20, red 0.05",
        relational().sentence,
        "beside it, independent [independent-seed0-2]",
        "answer: red 0.40 (wrong, the truth is green)",
        baseline().sentence,
    ):
        assert expected in text


def test_text_shows_the_words_that_were_listened_to() -> None:
    steps = [s.model_copy(update={"listened": [0.1, 0.8, 0.1, 0.0]}) for s in relational().steps]
    assert "words: a ring [0.80] of symbols" in as_text(relational(steps=steps))


def test_a_page_has_both_side_by_side_with_all_that_is_known() -> None:
    read = page_of(relational(), baseline())
    assert [tag for tag, _ in read.elements].count("article") == 2
    for expected in (relational().sentence, baseline().sentence, "pmn-seed0-1", "blue", "0.20"):
        assert expected in read.text
    kinds = [a["class"] for tag, a in read.elements if tag == "rect" and a["class"] != "region"]
    assert kinds.count("asked") == kinds.count("shown") == 1
    widths = [a["style"] for tag, a in read.elements if tag == "i" and "style" in a]
    assert "width: 75.0%" in widths
    images = [a["href"] for tag, a in read.elements if tag == "image"]
    assert all(href.startswith("data:image/png;base64,") for href in images)


def test_a_page_needs_nothing_from_elsewhere() -> None:
    read = page_of(relational(), baseline())
    fetched = [a for _, a in read.elements for name in ("src", "href") if name in a]
    assert all(str(a.get("href", a.get("src"))).startswith("data:") for a in fetched)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in read.elements}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_words_of_the_data_are_words_on_the_page(text: str) -> None:
    read = page_of(nasty(text), nasty(text))
    usual = [tag for tag, _ in page_of(nasty("x"), nasty("x")).elements]
    assert [tag for tag, _ in read.elements] == usual  # no element more, whatever the words
    assert text in read.text
    headings = [a for tag, a in read.elements if tag == "h1"]
    assert headings == [{"dir": "auto"}]


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_words_of_the_data_are_words_in_the_terminal(text: str) -> None:
    shown = as_text(nasty(text), nasty(text))
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == len(as_text(nasty("x"), nasty("x")).splitlines())
    assert "".join(c if c.isprintable() else " " for c in text) in shown
