"""Saved views and links: what they are made of. That they show is for tests/browser to see."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, unquote

from made_results import FIELD, changed, learned

from pmn_cl.mlflow_mirror.views import LOW_DATA, MEANS, links, saved_views


def test_groups_follow_what_differs() -> None:
    def groups(results: list) -> list[str]:
        state = json.loads(saved_views(results, "parent")[MEANS].state)
        return [key["groupByData"] for key in state["groupBy"]["groupByKeys"]]

    assert groups(FIELD) == ["strategy"]
    other = learned("pmn", 0, 1, 1, 1)
    assert groups([*FIELD, changed(other, variant="x")]) == ["strategy", "variant"]
    assert groups([*FIELD, changed(other, fraction=10.0)]) == ["strategy", "fraction"]


def test_the_low_data_curve_has_a_line_for_each_strategy() -> None:
    state = json.loads(saved_views(FIELD, "parent")[LOW_DATA].state)
    assert state["searchFilter"] == "attributes.run_id = 'parent'"
    chart = state["compareRunCharts"][0]
    assert chart["selectedMetricKeys"] == [
        f"{name}/b.mean" for name in ("pmn", "hard_sharing", "independent", "hard_sharing_joint")
    ]
    assert chart["xAxisScaleType"] == "log"


def test_many_strategies_fit_into_a_tag() -> None:
    many = [learned(f"a_strategy_with_a_long_name_{n}", 0, 1, 1, 1) for n in range(60)]
    longest = max(len(view.value) for view in saved_views(many, "p" * 32).values())
    assert longest < 20_000  # MLflow's limit


def test_nothing_to_see_makes_no_views() -> None:
    assert saved_views([], "parent") == {}


def test_links_name_what_they_open() -> None:
    found = dict(links("http://here", "4", {MEANS: "id1"}, ["a", "b"]))
    assert found[MEANS].startswith("http://here/#/experiments/4/runs?viewStateShareKey=id1&")
    asked = parse_qs(found["Runs side by side"].split("?")[1])
    assert json.loads(unquote(asked["runs"][0])) == ["a", "b"]
    assert json.loads(unquote(asked["experiments"][0])) == ["4"]
    assert "Runs side by side" not in dict(links("http://here", "4", {}, ["a"]))
