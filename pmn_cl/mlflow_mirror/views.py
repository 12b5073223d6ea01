"""Views of a stream's runs for MLflow's own pages, and the links that open them.

A saved view is a tag of the experiment (MLflow 3.17; the format is not documented, which is why
MLflow is pinned and a browser looks at the pages in the tests). Grouped charts show means over
seeds; where a strategy's runs differ in variant or fraction, they are groups of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pmn_cl.results.result import Result

MEANS, FORGETTING, LOW_DATA = "Mean over seeds", "Forgetting", "Low-data curve"
PARAMETERS, COST = "Parameters against score", "Cost"

Chart = dict[str, Any]


@dataclass(frozen=True)
class SavedView:
    """One entry of the Views menu."""

    id: str
    title: str
    state: str
    place: int  # in the menu, which has the newest first

    @property
    def tag(self) -> str:
        """Return the name of the tag that holds it."""
        return f"mlflow.sharedViewState.{self.id}"

    @property
    def value(self) -> str:
        """Return the tag's value."""
        now = int(1000 * (time.time() - self.place))
        about = {"name": self.title, "createdAt": now, "updatedAt": now}
        return json.dumps({**about, "state": self.state})


def saved_views(results: Sequence[Result], parent: str, suffix: str = "") -> dict[str, SavedView]:
    """Return the views that compare a folder's results, by title."""
    tasks = max((result.tasks for result in results), key=len, default=[])
    if not tasks:
        return {}
    last = tasks[-1]
    names = list(dict.fromkeys(r.name for r in results if r.status == "completed"))
    children = f"tags.`mlflow.parentRunId` = '{parent}'"
    grouped = {"searchFilter": children, "groupBy": _groups(results)}
    over_experiences = [_line(f"test/{task}") for task in tasks]
    shown: dict[str, dict[str, Any]] = {
        MEANS: {
            **grouped,
            "charts": [_bar("test/average"), _bar("test/forgetting"), _bar("novel/average")]
            + [_bar(f"test/{task}") for task in tasks],
        },
        FORGETTING: {
            **grouped,
            "charts": [_bar("test/forgetting"), _bar("test/bwt"), *over_experiences],
        },
        LOW_DATA: {  # on the parent, whose steps are percents of the data
            "searchFilter": f"attributes.run_id = '{parent}'",
            "charts": [
                _line(*(f"{name}/{measure}.mean" for name in names), percent=True, title=title)
                for measure, title in ((last, f"{last}, % of the data"), ("average", "average"))
            ],
        },
        PARAMETERS: {
            **grouped,
            "charts": [_scatter("parameters/total", f"test/{what}") for what in ("average", last)],
        },
        COST: {
            **grouped,
            "charts": [
                _bar("cost/whole run cpu_seconds"),
                _bar("cost/samples_seen"),
                _bar("cost/learn_peak_bytes"),
                _scatter("cost/whole run cpu_seconds", "test/average"),
            ],
        },
    }
    return {
        title: SavedView(f"pmn{n}{parent[:12]}", title + suffix, _state(tasks, **given), n)
        for n, (title, given) in enumerate(shown.items(), start=1)
    }


def _groups(results: Sequence[Result]) -> dict[str, Any]:
    keys = ["strategy"]
    keys += ["variant"] if any(result.variant for result in results) else []
    keys += ["fraction"] if len({result.fraction for result in results}) > 1 else []
    by = [{"mode": "param", "groupByData": key} for key in keys]
    return {"aggregateFunction": "average", "groupByKeys": by}


def _state(
    tasks: Sequence[str],
    charts: Sequence[Chart],
    searchFilter: str,  # noqa: N803  # MLflow's name
    groupBy: Mapping[str, Any] | None = None,  # noqa: N803
) -> str:
    columns = ["params.`strategy`", "params.`variant`", "params.`seed`", "metrics.`test/average`"]
    columns += ["metrics.`test/forgetting`", *(f"metrics.`test/{task}`" for task in tasks)]
    columns += ["metrics.`parameters/total`"]
    cards = [
        {**chart, "uuid": f"chart{n}", "metricSectionId": "s"} for n, chart in enumerate(charts)
    ]
    section = {"uuid": "s", "name": "Comparison", "display": True, "isReordered": False}
    state = {
        "searchFilter": searchFilter,
        "orderByKey": "metrics.`test/average`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": cards,
        "compareRunSections": [{**section, "deleted": False, "isGenerated": False}],
        "isAccordionReordered": True,
        "groupBy": groupBy,
        "useGroupedValuesInCharts": groupBy is not None,
    }
    return json.dumps(state, separators=(",", ":"))


def _card(kind: str, **given: Any) -> Chart:
    return {
        "type": kind,
        "runsCountToCompare": 100,
        "deleted": False,
        "isGenerated": False,
        **given,
    }


def _bar(metric: str) -> Chart:
    return _card("BAR", metricKey=metric)


def _line(*metrics: str, percent: bool = False, title: str | None = None) -> Chart:
    named = {"displayName": title} if title else {}
    return _card(
        "LINE",
        metricKey=metrics[0] if metrics else "",
        selectedMetricKeys=list(metrics),
        xAxisKey="step",
        xAxisScaleType="log" if percent else "linear",
        scaleType="linear",
        lineSmoothness=0,
        displayPoints=True,
        useGlobalXaxisKey=False,
        useGlobalLineSmoothing=False,
        **named,
    )


def _scatter(x: str, y: str) -> Chart:
    return _card("SCATTER", xaxis={"key": x, "type": "METRIC"}, yaxis={"key": y, "type": "METRIC"})


def links(
    base: str, experiment: str, views: Mapping[str, str], runs: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield titles and addresses: the saved views, and MLflow's comparison of single runs."""
    place, kind = f"{base}/#/experiments/{experiment}/runs", "workflowType=machine_learning"
    for title, view in views.items():
        yield title, f"{place}?viewStateShareKey={view}&compareRunsMode=CHART&{kind}"
    if MEANS in views:
        yield (
            "Table of runs",
            f"{place}?viewStateShareKey={views[MEANS]}&compareRunsMode=TABLE&{kind}",
        )
    if len(runs) > 1:
        asked = (
            f"runs={quote(json.dumps(list(runs)))}&experiments={quote(json.dumps([experiment]))}"
        )
        yield "Runs side by side", f"{base}/#/compare-runs?{asked}"
