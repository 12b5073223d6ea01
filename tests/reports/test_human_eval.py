"""The judge's page as a file: what is in it, and that data stays data."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from typing import Any

import pytest

from reports.human_eval import GRADES, judge_page

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</script ><script >alert(2)</script/>",  # ends that need no plain ">" right after the name
    "<!--<script> <!--<script ",
    "<img src=x onerror=alert(3)>",
    "\"'`${alert(4)} {{ 7 * 7 }} {% raw %} &lt;b&gt; &amp;",
    "מה משמאל ל־3? ‮evil‬",
    "line\nbreak\u2028separator\u2029\x00\x1b[31m",
    "long " * 2000,
]


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text within scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside.append("")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.inside[-1] += data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.found, self.inside, strict=True)
        return [(attributes, text) for (name, attributes), text in pairs if name == tag]


def content(text: str = "how many?") -> dict[str, Any]:
    side = {"sentence": text, "answer": text, "boxes": [[3, 0.1, 0.2, 0.3, 0.4]]}
    question = {"id": "q0001", "text": text, "picture": 0, "A": side, "B": side}
    return {
        **{"format": "pmn-bench judge 1", "round": "ab" * 32, "judge": 2},
        **{"questions": [question], "pictures": ["data:image/webp;base64,AA=="]},
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_data_is_there_as_it_was_and_is_no_markup(text: str) -> None:
    usual, hostile = Elements(judge_page(content())), Elements(judge_page(content(text)))
    assert hostile.found == usual.found  # the same elements and attributes, whatever the data
    [(_, kept), (_, script)] = hostile.of("script")
    assert json.loads(kept) == content(text)
    assert script == usual.of("script")[1][1]
    # Browsers see ends of scripts where this parser does not: none may stand in the data.
    between = judge_page(content(text)).split('id="content">')[1].rsplit("</script>\n<script>")[0]
    assert not set(between) & set("<>&\u2028\u2029")


def test_only_its_own_script_and_style_may_run() -> None:
    text = judge_page(content())
    policy = next(a["content"] for a, _ in Elements(text).of("meta") if "http-equiv" in a) or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        inside = text.rsplit(f"<{tag}>", 1)[1].split(f"</{tag}>")[0]
        digest = hashlib.sha256(inside.encode()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_it_needs_nothing_from_elsewhere() -> None:
    page = Elements(judge_page(content()))
    for tag, attributes in page.found:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "style"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert "http:" not in judge_page(content()) and "https:" not in judge_page(content())


def test_the_papers_scale_and_what_it_means() -> None:
    assert [name for name, _ in GRADES.values()] == [
        *("very bad", "bad", "satisfactory", "good", "very good")
    ]
    page = judge_page(content())
    for name, meaning in GRADES.values():
        assert name in page and meaning in page
    radios = [a for a, _ in Elements(page).of("input") if a["type"] == "radio"]
    assert [(a["name"], a["value"]) for a in radios] == [
        (f"grade-{side}", str(grade)) for side in "AB" for grade in range(5)
    ]
