"""What people see in MLflow's own pages, looked at with a real browser.

The format of saved views is MLflow's own affair and may change with any minor version: these
tests say whether what we write still shows. They leave a picture of every page that they see.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tiny_streams import TINY

from pmn_cl.config.stream import load_spec
from pmn_cl.mlflow_mirror.mirror import Mirrored, sync
from pmn_cl.mlflow_mirror.server import server
from pmn_cl.mlflow_mirror.views import COST, FORGETTING, LOW_DATA, MEANS, PARAMETERS
from pmn_cl.runs.driver import Driver
from pmn_cl.runs.plan import plan_runs
from pmn_cl.studies.run import mirror_links

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def mirrored(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mirrored]:
    out = tmp_path_factory.mktemp("pages")
    Driver(out, workers=2, cache=cache).run(plan_runs(load_spec(TINY)))
    return out, sync(out)


@pytest.fixture(scope="module")
def links(mirrored: tuple[Path, Mirrored]) -> Iterator[dict[str, str]]:
    out, found = mirrored
    with server(out, port=0) as (address, _):
        few = Mirrored(
            found.experiment, found.parent, dict(list(found.runs.items())[:4]), found.views
        )
        yield dict(mirror_links(few, address))


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1600, "height": 1100})
    # MLflow's assistant opens itself on a first visit, over the page.
    seen = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
    context.add_init_script(seen)
    yield context.new_page()
    context.close()


def visit(page: Page, address: str) -> None:
    page.goto("about:blank")  # so that another place on the same page is a new visit
    page.goto(address)


def test_means_over_seeds_are_grouped_by_strategy(
    page: Page, links: dict[str, str], pictures: Path
) -> None:
    visit(page, links[MEANS])
    expect(page.get_by_text("Group by: strategy")).to_be_visible()
    for strategy in ("constant", "pmn", "hard_sharing"):
        group = page.get_by_text(f"Group: {strategy}", exact=True)
        expect(group.first).to_be_visible()
    for chart in ("test/average", "test/forgetting", "novel/average", "test/cnt"):
        expect(page.get_by_text(chart, exact=True).first).to_be_visible()
    bars = page.locator(".js-plotly-plot .bars .point")
    expect(bars.first).to_be_visible()
    assert bars.count() >= 3 * 3  # a bar for each strategy in each of the charts in sight
    page.screenshot(path=pictures / "means.png")


def test_the_views_menu_has_them_all(page: Page, links: dict[str, str], pictures: Path) -> None:
    visit(page, links[MEANS])
    page.get_by_role("button", name=MEANS).click()
    for title in (MEANS, FORGETTING, LOW_DATA, PARAMETERS, COST):
        expect(page.get_by_role("menu").get_by_text(title)).to_be_visible()
    page.screenshot(path=pictures / "views_menu.png")


@pytest.mark.parametrize(
    ("view", "drawn"),
    [
        (FORGETTING, ".js-plotly-plot .scatterlayer .lines"),
        (LOW_DATA, ".js-plotly-plot .scatterlayer .point"),
        (PARAMETERS, ".js-plotly-plot .scatterlayer .point"),
        (COST, ".js-plotly-plot .bars .point"),
    ],
)
def test_every_view_draws_its_charts(
    view: str, drawn: str, page: Page, links: dict[str, str], pictures: Path
) -> None:
    visit(page, links[view])
    expect(page.get_by_text("Comparison", exact=False).first).to_be_visible()
    page.locator(drawn).first.wait_for(state="attached")
    page.screenshot(path=pictures / f"{view.lower().replace(' ', '_')}.png")


def test_the_page_that_compares_four_runs(
    page: Page, links: dict[str, str], mirrored: tuple[Path, Mirrored], pictures: Path
) -> None:
    visit(page, links["Runs side by side"])
    expect(page.get_by_text("Comparing 4 Runs from 1 Experiment")).to_be_visible()
    for name in ("constant 0", "constant 1", "hard_sharing 0", "hard_sharing 1"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    page.screenshot(path=pictures / "compare.png")


def test_the_table_of_runs(page: Page, links: dict[str, str], pictures: Path) -> None:
    visit(page, links["Table of runs"])
    for title in ("test/average", "test/forgetting", "seed", "strategy"):
        expect(page.get_by_role("columnheader", name=title).first).to_be_visible()
    for name in ("pmn 0", "pmn 1", "hard_sharing 0", "hard_sharing 1"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    page.screenshot(path=pictures / "table.png")
