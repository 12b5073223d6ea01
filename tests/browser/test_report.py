"""The report as people use it: opened from disk in a real browser, by mouse, keyboard and axe."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from made_folder import NASTY, ablated, nasty, plain, swept, trouble, write
from playwright.sync_api import Browser, Locator, Page, expect

from reports.page import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = [*plain(), *swept(), *ablated(), *trouble(), *nasty()]
    return write_report(write(results, tmp_path_factory.mktemp("report")))


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    """The page, freshly opened; what it complains about or asks for fails the test."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    yield page
    assert trouble == []
    assert [url for url in asked if not url.startswith("blob:")] == [report.as_uri()]
    context.close()


def table(page: Page, caption: str) -> Locator:
    return page.locator("[data-table]").filter(has=page.get_by_text(caption, exact=True)).first


def column(part: Locator, number: int) -> list[str]:
    cells = part.locator(f"tbody tr > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_tables_are_sorted_by_click_and_by_keyboard(page: Page) -> None:
    part = table(page, "Strategies after the whole stream, test")
    obj = part.get_by_role("columnheader", name="obj")
    expect(obj).to_have_attribute("aria-sort", "none")
    obj.get_by_role("button").click()
    expect(obj).to_have_attribute("aria-sort", "ascending")
    rising = [float(text.split()[0]) for text in column(part, 4)]
    assert rising == sorted(rising) and rising[0] == 0.1
    obj.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(obj).to_have_attribute("aria-sort", "descending")
    assert column(part, 1)[0] == "hard_sharing_joint"
    part.get_by_role("columnheader", name="strategy").get_by_role("button").click()
    expect(obj).to_have_attribute("aria-sort", "none")
    assert column(part, 1)[-1] == "שלום עולם (שלום עולם)"


def test_numbers_are_sorted_as_numbers_and_nothing_comes_last(page: Page) -> None:
    part = table(page, "All results")
    fraction = part.get_by_role("columnheader", name="% of the data")
    fraction.get_by_role("button").click()
    shares = [float(text) for text in column(part, 5)]
    assert shares == sorted(shares) and shares[0] == 25 and shares[-1] == 100
    error = part.get_by_role("columnheader", name="error")
    for _ in range(2):  # both ways
        error.get_by_role("button").click()
        errors = column(part, 9)
        assert errors[0].startswith("ValueError") and set(errors[1:]) == {""}


def test_a_table_is_filtered_by_words(page: Page) -> None:
    part = table(page, "All results")
    part.get_by_label("Filter").fill("hard_sharing COMPLETED joint")
    expect(part.locator("tbody tr:visible")).to_have_count(3)
    expect(part.locator("output")).to_have_text("3 of 50 rows")
    part.get_by_label("Filter").fill("")
    expect(part.locator("tbody tr:visible")).to_have_count(50)


def test_a_strategy_is_hidden_everywhere_and_comes_back(page: Page) -> None:
    of_pmn = page.locator("main [data-s='0']:visible")
    others = page.locator("main [data-s='1']:visible").count()
    before = of_pmn.count()
    assert before > 20
    box = page.get_by_role("checkbox", name="pmn", exact=True)
    box.focus()
    page.keyboard.press("Space")
    expect(of_pmn).to_have_count(0)
    assert page.locator("main [data-s='1']:visible").count() == others
    box.check()
    expect(of_pmn).to_have_count(before)
    page.get_by_role("button", name="Hide all").click()
    expect(page.locator("main [data-s]:visible")).to_have_count(0)
    page.get_by_role("button", name="Show all").click()
    expect(of_pmn).to_have_count(before)


def test_the_numbers_of_a_figure_are_downloaded(page: Page, tmp_path: Path) -> None:
    figure = page.locator("figure").filter(has_text="Low data: what is gained on vqa").first
    figure.locator("summary").click()
    with page.expect_download() as waiting:
        figure.get_by_role("button", name="Download CSV").click()
    waiting.value.save_as(tmp_path / "data.csv")
    with (tmp_path / "data.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert rows[0]["% of the data"] == "25" and rows[0]["gain"] == "+0.0200"


def test_names_in_a_download_are_no_formulas(page: Page, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        table(page, "Forgetting of each task (max − last)").locator(".csv").click()
    waiting.value.save_as(tmp_path / "data.csv")
    with (tmp_path / "data.csv").open(encoding="utf-8", newline="") as file:
        names = [row["strategy"] for row in csv.DictReader(file)]
    assert "'=1+1 (=1+1)" in names and "pmn" in names
    assert any(name.startswith('"it\'s"') for name in names)


def test_a_drawing_is_downloaded_with_its_colours(page: Page, tmp_path: Path) -> None:
    button = page.get_by_role("button", name="Download SVG: pmn", exact=True)
    with page.expect_download() as waiting:
        button.click()
    waiting.value.save_as(tmp_path / "pmn.svg")
    root = ElementTree.parse(tmp_path / "pmn.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    shades = {rect.get("style", "").split(";")[0] for rect in root.iter(f"{space}rect")}
    assert shades == {"fill: rgb(19, 75, 134)", "fill: none"}


def test_the_theme_follows_the_system_or_the_button(page: Page) -> None:
    def back() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    assert back() == light
    page.emulate_media(color_scheme="dark")
    assert back() == dark
    for words, colour in (("light", light), ("dark", dark), ("as the system", dark)):
        page.get_by_role("button", name="Theme").click()
        expect(page.get_by_role("button", name="Theme")).to_have_text(f"Theme: {words}")
        assert back() == colour


def test_the_keyboard_reaches_the_report_at_once(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the report")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_it_fits_a_narrow_window_and_prints_without_its_controls(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 400
    page.emulate_media(media="print", color_scheme="dark")
    for control in ("nav", "#theme", ".tools >> nth=0", ".save >> nth=0", "details >> nth=0"):
        expect(page.locator(control)).to_be_hidden()
    expect(page.locator("figure svg").first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", NASTY.values(), ids=NASTY)
def test_names_are_shown_as_text(page: Page, name: str) -> None:
    assert page.locator("script").count() == 1
    assert page.locator("b").count() == 0
    shown = page.locator("fieldset.key span").all_inner_texts()
    assert any(text.startswith(name[:39]) for text in shown)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.locator("summary").first.click()  # the others are built alike
    found = Axe().run(page)
    serious = [
        (violation["id"], [node["target"] for node in violation["nodes"]][:3])
        for violation in found.response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found.response["passes"]) > 20
