from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from benchmarks.ladder import RUNGS, TABLES, main


def test_the_rungs_are_the_rows_of_the_papers_tables() -> None:
    """Tables 1 to 3: what each module calls, lower modules alone."""
    below = {"obj", "att"}
    calls = {name: set(rung.tasks[-1][1]) for name, rung in RUNGS.items() if rung.tasks}
    expected = {
        **{"rel0": set(), "rel1": below, "cap0": set(), "cap1": below},
        **{"cnt0": set(), "cnt1": below, "cnt2": {*below, "rel"}},
        **{"vqa0": set(), "vqa1": below, "vqa2": {*below, "rel"}, "vqa3": {*below, "cnt"}},
        **{"vqa4": {*below, "rel", "cnt"}, "vqa5": {*below, "rel", "cnt", "cap"}},
    }
    assert {name: calls[name] for name in expected} == expected
    # M_vqa3 calls M_cnt1, M_vqa4 and 5 call M_cnt2.
    counting = {n: set(dict(RUNGS[n].tasks)["cnt"]) for n in ("vqa3", "vqa4", "vqa5")}
    assert counting == {"vqa3": below, "vqa4": {*below, "rel"}, "vqa5": {*below, "rel"}}
    assert {name for names in TABLES.values() for name in names} == set(RUNGS) - {"obj"}


def result(rung: str, seed: int, test: float) -> dict[str, Any]:
    scores = {"test": {"rel": {"accuracy": test}}}
    return {"rung": rung, "seed": seed, "task": "rel", "metric": "accuracy", "scores": scores}


def test_the_table_pairs_differences_by_seed(tmp_path: Path) -> None:
    """0.5, 0.7 and 0.6, 0.9: means 0.6 and 0.75, deviations √0.02 and √0.045, gains 0.1 and 0.2."""
    for rung, seed, test in (
        ("rel0", 0, 0.5),
        ("rel0", 1, 0.7),
        ("rel1", 0, 0.6),
        ("rel1", 1, 0.9),
    ):
        path = tmp_path / f"{rung} seed {seed}.json"
        path.write_text(json.dumps(result(rung, seed, test)), "utf-8")
    shown = CliRunner().invoke(main, ["show", str(tmp_path)]).stdout.splitlines()
    [base] = [line for line in shown if line.startswith("  rel0")]
    [ours] = [line for line in shown if line.startswith("  rel1")]
    assert "0.600 ± 0.141  over the first +0.000  by seed +0.000 +0.000" in base
    assert "0.750 ± 0.212  over the first +0.150  by seed +0.100 +0.200" in ours
