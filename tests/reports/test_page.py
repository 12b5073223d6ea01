"""The page as a whole, read as a browser would: it is complete, alone, and shows text as text."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from made_folder import NASTY, ablated, made, nasty, plain, swept, trouble, write

import reports
from pmn_cl.cli.report import report
from pmn_cl.errors import UserError
from pmn_cl.results.result import Result
from reports.folder import Gathered
from reports.page import _prose, render, write_report
from reports.sections import SECTIONS

HERE = Path("runs/claims")
ALL = [*plain(), *swept(), *ablated(), *trouble()]


class Page(HTMLParser):
    """Elements with their attributes, and all text that is no style or script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("style", "script"):
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def values(self, name: str) -> list[str]:
        return [value for _, attrs in self.elements if (value := attrs.get(name)) is not None]

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def page(*results: Result) -> Page:
    return Page(render(Gathered(HERE, results)))


def test_it_is_whole_and_its_parts_refer_to_each_other() -> None:
    found = page(*ALL)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    named = [name for value in found.values("aria-labelledby") for name in value.split()]
    named += found.values("aria-describedby")
    named += [value[1:] for value in found.values("href")]
    assert set(named) <= set(ids)
    assert found.count("section") == len(SECTIONS)
    assert found.count("h1") == found.count("main") == found.count("nav") == 1
    assert found.values("lang") == ["en"]


def test_the_best_of_a_column_is_marked_and_shown() -> None:
    text = render(Gathered(HERE, plain()))
    best = re.findall(r'<td class="best">([^<]*)</td>', text)
    assert len(best) >= 6 and all(re.match(r"\d\.\d{3}", cell) for cell in best)


def test_it_loads_nothing() -> None:
    found = page(*ALL)
    policy = next(v for v in found.values("content") if "default-src" in v)
    assert policy.startswith("default-src 'none'")
    assert not found.values("src")
    assert all(value.startswith("#") for value in found.values("href"))
    assert {"link", "img", "iframe", "object", "base"}.isdisjoint(tag for tag, _ in found.elements)
    for name in ("drawing.css", "page.css"):
        style = (Path(reports.__file__).parent / name).read_text("utf-8")
        assert not re.search(r"url\(|@import|@font-face", style)


def test_strategies_can_be_hidden_in_tables_and_figures() -> None:
    found = page(*ALL)
    assert found.values("data-toggle") == ["0", "1", "2", "3"]
    hidden = {tag for tag, attrs in found.elements if attrs.get("data-s") == "1"}
    assert hidden == {"tr", "g", "div", "li"}


@pytest.mark.parametrize("name", NASTY.values(), ids=NASTY)
def test_text_from_data_is_shown_as_text(name: str) -> None:
    everywhere = made(
        *(name, 0, 0.5),
        variant=name,
        stream=name,
        key=name[:50],
        tasks=[name, "vqa"],
        metrics=[name, name],
        device=name,
        revision=name,
        data=name,
        versions={name: name},
        options={name: name},
        world={"name": name, "options": {name: name}},
        calls={name: [], "vqa": [name]},
        curves={name: [{"step": 1, "loss": 1.0, "score": 0.5}]},
        secondary={"test": [{}, {"vqa": {name: 0.5, f"gate {name}": 0.5}}]},
    )
    failed = made("pnn", 0, 0.5, status="failed", error={"kind": name, "message": name})
    plainly, found = page(*plain(), failed), page(everywhere, failed)
    for tag in ("script", "b", "style", "iframe"):
        assert found.count(tag) == plainly.count(tag)
    assert not [
        attribute for _, attrs in found.elements for attribute in attrs if attribute[:2] == "on"
    ]
    assert name[:20] in found.text
    assert f"{name} ({name})" in found.text  # in full, once at least


def test_a_name_of_10000_characters_does_not_bury_the_page() -> None:
    assert len(render(Gathered(HERE, nasty()))) < len(render(Gathered(HERE, plain()))) + 600_000


def test_backticks_in_sentences_become_code_and_nothing_else_does() -> None:
    assert _prose("a `b<` & `c") == "a <code>b&lt;</code> &amp; <code>c</code>"


def test_the_same_results_give_the_same_page() -> None:
    assert render(Gathered(HERE, ALL)) == render(Gathered(HERE, ALL))


def test_results_that_cannot_be_judged_leave_the_other_sections_as_they_are() -> None:
    twice = made("pmn", 0, 0.6, key="again")
    found = page(*plain(), twice)
    assert "is here twice" in found.text
    assert "pmn (settings 2)" in found.text


@settings(deadline=None, max_examples=8)
@given(st.sets(st.integers(0, len(ALL) - 1)), st.integers(0, 2**32))
def test_no_part_of_a_folder_is_too_odd(chosen: set[int], seed: int) -> None:
    chance = random.Random(seed)
    some = [ALL[n] for n in sorted(chosen)]
    for place, result in enumerate(some):
        if chance.random() < 0.3:
            empty = chance.choice(
                ["scores", "secondary", "constant", "samples", "curves", "versions"]
            )
            some[place] = result.model_copy(update={empty: {}})
        elif chance.random() < 0.2:
            nothing = {"costs": [], "parameters": {"total": [], "trainable": []}}
            some[place] = result.model_copy(update=nothing)
        elif chance.random() < 0.2 and result.scores:
            lost = [[math.nan] * len(result.tasks)] * len(result.tasks)
            some[place] = result.model_copy(update={"scores": {"test": lost}})
    found = page(*some)
    assert found.count("section") == len(SECTIONS)
    drawn = " ".join(found.values("d") + found.values("x") + found.values("transform"))
    assert "nan" not in drawn and "inf" not in drawn


def test_it_is_made_without_torch(tmp_path: Path) -> None:
    write(ALL, tmp_path)
    code = (
        "import sys; from pathlib import Path; from reports.page import write_report; "
        f"write_report(Path({str(tmp_path)!r})); "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    root = Path(reports.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert not {"torch", "avalanche", "mlflow", "pandas", "matplotlib"} & loaded
    assert not {"strategies", "baselines", "benchmarks"} & loaded
    assert (tmp_path / "report.html").stat().st_size > 100_000


# --- the command ---------------------------------------------------------------------------


def test_the_command_writes_where_it_is_told(tmp_path: Path) -> None:
    folder = write(ALL, tmp_path / "results")
    done = CliRunner().invoke(report, [str(folder)])
    assert done.exit_code == 0 and f"wrote {folder / 'report.html'}" in done.output
    elsewhere = tmp_path / "page.html"
    assert CliRunner().invoke(report, [str(folder), "--out", str(elsewhere)]).exit_code == 0
    assert elsewhere.read_bytes() == (folder / "report.html").read_bytes()


def test_places_that_cannot_be_written_are_refused_in_words(tmp_path: Path) -> None:
    folder = write(plain(), tmp_path / "results")
    with pytest.raises(UserError, match="no folder"):
        write_report(folder, tmp_path / "nowhere" / "page.html")
    with pytest.raises(UserError, match="is a folder"):
        write_report(folder, folder)


def test_a_folder_whose_name_is_no_text_is_named_all_the_same(tmp_path: Path) -> None:
    folder = write(plain(), tmp_path / "results")
    odd = folder / "odd\udcff"
    odd.mkdir()
    (odd / "result.json").write_text("{")
    text = write_report(folder).read_text("utf-8")
    assert "odd?" in text
