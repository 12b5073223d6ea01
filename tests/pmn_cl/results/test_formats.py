"""Tables as text: for LaTeX by its rules, for spreadsheets also of runs that have hardly begun."""

from __future__ import annotations

import csv

from made_results import learned, result

from pmn_cl.results.formats import as_csv, as_latex, as_markdown
from pmn_cl.results.table import as_text


def test_what_latex_would_stumble_over_is_written_as_it_wants_it() -> None:
    text = as_latex(["a_b", "c"], [["62 → 64 %", "±1 & <2"], ["Ω {x}", "50\\"]])
    assert text.splitlines()[2:7] == [
        r"a\_b & c \\",
        r"\midrule",
        r"62 $\to$ 64 \% & $\pm$1 \& $<$2 \\",
        r"$\Omega$ \{x\} & 50\textbackslash{} \\",
        r"\bottomrule",
    ]


def test_markdown_and_csv_by_hand() -> None:
    assert as_markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert as_csv([{"a": 1, "b": None}, {"a": 2, "c": "x, y"}]) == 'a,b,c\n1,,\n2,,"x, y"\n'


def test_a_run_that_was_cut_off_in_its_first_task_is_listed() -> None:
    cut = result("pmn", 0, [], status="interrupted", scores={"test": []})
    rows = list(
        csv.DictReader(as_text([cut, learned("pnn", 1, 0.8, 0.4, 0.6)], "csv").splitlines())
    )
    of_cut = [row["metric"] for row in rows if row["strategy"] == "pmn"]
    assert of_cut == ["CPU-s"]
    values = {row["metric"]: row["value"] for row in rows if row["strategy"] == "pnn"}
    assert values["a"] == "0.4" and float(values["forgetting"]) == 0.4
    assert values["parameters"] == "7"
