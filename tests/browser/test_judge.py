"""A round of judging with real browsers: three judges, their files, and the paper's table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import CliRunner
from made_rounds import made_round, models
from playwright.sync_api import Browser, BrowserContext, Page, expect

from pmn_cl.cli.main import main
from pmn_cl.human_eval.preparation import RoundPlan, make_round, who_is_right, write_folder
from pmn_cl.human_eval.rounds import Round
from pmn_cl.human_eval.sheets import Saved, collect

pytestmark = pytest.mark.browser
NAMES = ["very bad", "bad", "satisfactory", "good", "very good"]
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "</script><script>alert(3)</script>",
    "\"'`&lt;b&gt; &amp; ${alert(4)} {{ 7 * 7 }}",
    "מה משמאל ל־3? \u202eevil\u202c",
    "<b>long</b> " * 900,
]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1200, "height": 1000})
    yield found
    found.close()


def quiet(done: int, total: int) -> None:
    pass


def open_page(context: BrowserContext, path: Path) -> tuple[Page, list[str]]:
    """Open a page; return it with whatever goes wrong: errors, dialogs, requests elsewhere."""
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda said: wrong.append(f"console: {said.text}"))
    page.on("dialog", lambda dialog: (wrong.append("dialog"), dialog.dismiss()))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("data:", "blob:")) or asked.url == path.as_uri()
            else wrong.append(f"request: {asked.url}")
        ),
    )
    page.goto(path.as_uri())
    return page, wrong


def by_click(page: Page, side: str, grade: int) -> None:
    group = page.get_by_role("group", name=f"Your grade for {side}")
    group.get_by_role("radio", name=f"{grade} {NAMES[grade]}").check()


def by_key(page: Page, side: str, grade: int) -> None:
    page.keyboard.press(str(grade))


def rule(question: str, sentence: str, judge: int) -> int:
    """What a scripted judge thinks of what it reads: nothing that a letter could change."""
    return (len(question) * 7 + len(sentence) * judge + sum(map(ord, question)) * judge) % 5


def judge_all(
    page: Page, judge: int, give: Callable[[Page, str, int], None], count: int, start: int = 0
) -> None:
    for number in range(start, start + count):
        expect(page.locator("#number")).to_have_text(f"Question {number + 1} of 40")
        question = page.locator("#question").inner_text()
        for side in "AB":
            sentence = page.locator(f"#sentence-{side}").inner_text()
            give(page, side, rule(question, sentence, judge))
        if number < 39:
            page.keyboard.press("ArrowRight")


def save(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save file").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def table_by_hand(key: Round) -> dict[str, tuple[int, float, float]]:
    """Questions, PMN's and the baseline's mean grade: means over questions of means over judges."""
    found = {}
    for who in ("both right", "pmn right", "baseline right", "both wrong", "all"):
        some = [q for q in key.questions if who in (q.group, "all")]
        pmn, baseline = (
            fmean(
                fmean(rule(q.text, getattr(q, model).sentence, judge) for judge in (1, 2, 3))
                for q in some
            )
            for model in ("pmn", "baseline")
        )
        found[who] = (len(some), pmn, baseline)
    return found


def test_a_round_with_three_judges_end_to_end(
    browser: Browser, tmp_path: Path, pictures: Path
) -> None:
    results, out = tmp_path / "results", tmp_path / "round"
    results.mkdir()
    key = made_round(results)
    pages = write_folder(key, out, models(100)[0], quiet)
    files = []
    for judge, give in ((1, by_click), (2, by_key), (3, by_key)):
        context = browser.new_context(viewport={"width": 1200, "height": 1000})
        page, wrong = open_page(context, pages[judge - 1])
        if judge == 2:  # one stops in the middle, and comes back
            judge_all(page, judge, give, 17)
            page.reload()
            expect(page.locator("#count")).to_have_text("17 of 40 graded")
            judge_all(page, judge, give, 23, start=17)
        else:
            judge_all(page, judge, give, 40)
        expect(page.get_by_role("status")).to_contain_text("All questions are graded")
        expect(page.locator("#count")).to_have_text("40 of 40 graded")
        files.append(save(page, tmp_path))
        if judge == 1:
            page.screenshot(path=pictures / "judge_done.png", full_page=True)
        assert wrong == []
        context.close()
    short = key.digest[:8]
    assert [path.name for path in files] == [f"judgement-{short}-judge-{n}.json" for n in (1, 2, 3)]

    done = CliRunner().invoke(
        main, ["judge", "collect", str(out), *map(str, files), "--json", "--tracking", "off"]
    )
    assert done.exit_code == 0, done.output
    found = {
        row["who"]: (row["questions"], row["pmn"]["mean"], row["baseline"]["mean"])
        for row in json.loads(done.stdout)["rows"]
    }
    expected = table_by_hand(key)
    assert {who: pytest.approx(row) for who, row in expected.items()} == found
    printed = CliRunner().invoke(
        main, ["judge", "collect", str(out), *map(str, files), "--tracking", "off"]
    )
    labels = {"both right": "both right", "pmn right": "PMN alone right", "all": "all"}
    for who, label in labels.items():
        questions, pmn, baseline = expected[who]
        line = next(line for line in printed.stdout.splitlines() if line.startswith(label))
        numbers = re.findall(r"[\d.,]+", line.removeprefix(label))
        assert numbers[0] == str(questions)
        assert f" {pmn:.2f} ± " in line and f" {baseline:.2f} ± " in line
        assert f" {pmn - baseline:+.2f} ± " in line
    assert (results / "judgements.json").exists()


def test_hostile_texts_are_shown_as_text(
    context: BrowserContext, tmp_path: Path, pictures: Path
) -> None:
    ours, theirs = models(8, HOSTILE)
    for model in (ours, theirs):
        explain = model.explain

        def hostile(ids: Any, split: str, explain: Any = explain) -> Any:
            return [
                found.model_copy(update={"answer": found.question, "regions": [found.question] * 3})
                for found in explain(ids, split)
            ]

        model.explain = hostile  # type: ignore[method-assign]
    plan = RoundPlan(tmp_path, "<script>", '"run"', questions=8)
    key = make_round(plan, who_is_right(ours, theirs, "test"), ours, theirs, quiet)
    [path, *_] = write_folder(key, tmp_path / "round", ours, quiet)
    page, wrong = open_page(context, path)
    elements = page.evaluate("document.querySelectorAll('*').length")
    seen = set()
    sheet, questions = key.sheets[0], {question.id: question for question in key.questions}
    for number, name in enumerate(sheet.questions):
        question = questions[name]
        a, b = (question.pmn, question.baseline)[:: 1 if sheet.pmn_is_a[number] else -1]
        for selector, text in (
            *(("#question", question.text), ("#sentence-A", a.sentence)),
            *(("#answer-A", a.answer), ("#sentence-B", b.sentence), ("#answer-B", b.answer)),
        ):
            assert page.locator(selector).evaluate("e => e.textContent") == text
            assert page.locator(selector).evaluate("e => e.childElementCount") == 0
        seen.add(question.text)
        if question.text.startswith("<b>"):
            page.screenshot(path=pictures / "judge_hostile.png")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 1200  # nothing runs out of the page
        page.keyboard.press("ArrowRight")
    assert set(HOSTILE) <= seen
    assert abs(page.evaluate("document.querySelectorAll('*').length") - elements) <= 6  # boxes
    assert wrong == []


@pytest.fixture
def first_page(tmp_path: Path) -> tuple[Round, Path]:
    key = made_round(tmp_path)
    return key, write_folder(key, tmp_path / "round", models(100)[0], quiet)[0]


def test_where_nothing_can_be_kept_it_says_so_and_goes_on_from_a_file(
    context: BrowserContext, tmp_path: Path, first_page: tuple[Round, Path]
) -> None:
    key, path = first_page
    frame = tmp_path / "round" / "frame.html"  # a sandboxed frame has no storage, really
    frame.write_text('<iframe sandbox="allow-scripts allow-downloads" src="judge-1.html">')
    outer = context.new_page()
    outer.goto(frame.as_uri())
    inner = outer.frame_locator("iframe")
    expect(inner.get_by_role("alert")).to_contain_text("does not keep your grades")
    inner.locator("#question").press("3")
    inner.locator("#question").press("0")
    expect(inner.locator("#count")).to_have_text("1 of 40 graded")
    with outer.expect_download() as download:
        inner.get_by_role("button", name="Save file").click()
    file = tmp_path / "saved.json"
    download.value.save_as(file)
    saved = Saved.model_validate_json(file.read_bytes())
    [(name, marks)] = saved.marks.items()
    assert (name, marks.A, marks.B) == (key.sheets[0].questions[0], 3, 0)
    assert saved.checksum == saved.expected_checksum()

    page, wrong = open_page(context, path)
    expect(page.locator("#warning")).to_be_hidden()
    page.get_by_text("No file appeared").click()
    page.get_by_label("Go on from a file").set_input_files(file)
    expect(page.get_by_role("status")).to_have_text("Took the grades of 1 questions.")
    expect(page.locator("#count")).to_have_text("1 of 40 graded")
    again = Saved.model_validate_json(save(page, tmp_path).read_bytes())
    assert again.token == saved.token  # the same judge, not another
    foreign = tmp_path / "foreign.json"
    foreign.write_text(json.dumps({"round": "x", "judge": 1, "marks": {}}))
    page.get_by_label("Go on from a file").set_input_files(foreign)
    expect(page.get_by_role("status")).to_have_text("That file is not of this round and judge.")
    assert wrong == []


def test_the_text_to_copy_is_the_file(
    context: BrowserContext, tmp_path: Path, first_page: tuple[Round, Path]
) -> None:
    key, path = first_page
    page, wrong = open_page(context, path)
    for keys in ("4", "1"):
        page.keyboard.press(keys)
    page.get_by_text("No file appeared").click()
    page.get_by_role("button", name="Copy the text").click()
    expect(page.get_by_role("status")).to_have_text(re.compile("Copied|selected"))
    copied = tmp_path / "copied.json"
    copied.write_text(page.get_by_label("Your grades as text").input_value())
    found = collect(key, [copied], allow_incomplete=True)
    assert not found.left_out and len(found.judged) == 1 and wrong == []


def test_keys_windows_and_the_way_back(
    context: BrowserContext, first_page: tuple[Round, Path]
) -> None:
    _, path = first_page
    page, wrong = open_page(context, path)
    radio = page.get_by_role("group", name="Your grade for A").get_by_role("radio")
    page.keyboard.press("2")
    expect(radio.nth(2)).to_be_checked()
    page.keyboard.press("a")  # back to A, which a second key would not grade
    page.keyboard.press("4")
    expect(radio.nth(4)).to_be_checked()
    radio.nth(4).focus()
    page.keyboard.press("ArrowRight")  # goes on, and changes no grade
    expect(page.locator("#number")).to_have_text("Question 2 of 40")
    page.keyboard.press("ArrowLeft")
    expect(radio.nth(4)).to_be_checked()
    page.keyboard.press("Control+3")
    expect(page.locator("#count")).to_have_text("0 of 40 graded")
    other, _ = open_page(context, path)  # a second window sees what the first one does
    page.bring_to_front()
    page.keyboard.press("b")
    page.keyboard.press("1")
    expect(other.locator("#count")).to_have_text("1 of 40 graded")
    other.get_by_role("button", name="To the next without grades").click()
    expect(other.locator("#number")).to_have_text("Question 2 of 40")
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_cut_off(
    browser: Browser, first_page: tuple[Round, Path], pictures: Path, scheme: Any
) -> None:
    _, path = first_page
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page, wrong = open_page(context, path)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.screenshot(path=pictures / f"judge_phone_{scheme}.png", full_page=True)
    assert wrong == []
    context.close()
