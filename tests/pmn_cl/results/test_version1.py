"""Records of version 1: what their labels and flattened fields said becomes the run they were."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pmn_cl.errors import UserError
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import older_runs, read_result, read_results

REFERENCE = Path(__file__).parents[3] / "benchmarks" / "reference"
OLD: dict[str, Any] = {
    **{"version": 1, "key": "pmn-x", "status": "completed", "stream": "s", "strategy": "pmn"},
    **{"variant": "", "seed": 3, "fraction": 25.0, "budget": 12.0, "threads": 1, "device": "cpu"},
    "options": {"size": "small", "rate": 3.0},
    "spec": {
        "world": {"name": "digits", "seed": 0},
        "tasks": [
            {"task": "obj", "calls": None, "fraction": None, "extra": None},
            {"task": "rel", "calls": None, "fraction": 50.0, "extra": None},
            {"task": "vqa", "calls": ["obj"], "fraction": None, "extra": "rel"},
        ],
    },
    "asked": {
        **{"options": {"rate": 3.0}, "matched": []},
        **{"judged_on": ["test"], "judged_at_end": True},
    },
    **{"tasks": ["obj", "rel", "vqa"], "metrics": ["m"] * 3, "scores": {}, "secondary": {}},
    **{"constant": {}, "samples": {}, "validation": {}, "costs": [], "weights": [], "data": "d"},
    **{"parameters": {"total": [], "trainable": []}, "versions": {}, "revision": None},
    **{"started": "2026-01-01T00:00:00+00:00", "seconds": 1.0},
}


def read(folder: Path, **changes: Any) -> Any:
    path = folder / OLD["key"] / RESULT
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**OLD, **changes}, indent=1), "utf-8")
    return read_result(path)


def test_the_run_has_all_that_the_record_said(tmp_path: Path) -> None:
    found = read(tmp_path)
    run = found.run
    assert (found.version, found.key, found.incomplete) == (2, "pmn-x", None)
    assert (run.stream.name, run.seed, run.stream.budget, run.stream.fraction) == ("s", 3, 12, 25)
    assert run.stream.world.model_dump() == {"name": "digits", "options": {"seed": 0}}
    # The paper's call lists, as far as they were learned, where the stream said none.
    assert [item.calls for item in run.stream.tasks] == [[], ["obj"], ["obj"]]
    assert (run.stream.tasks[1].fraction, run.stream.tasks[2].extra) == (50, "rel")
    assert (run.splits, run.evaluate_at_end) == (["test"], True)
    assert run.strategy.options == {"lr_scale": 3.0}
    assert found.options == {"size": "small", "lr_scale": 3.0}


@pytest.mark.parametrize(
    ("label", "study", "rung", "matched_to"),
    [
        ("", "run", None, None),
        ("my own", "run", None, None),
        ("low-data", "sweep", None, None),
        ("trial", "tune", None, None),
        ("M_vqa5 [b, r]", "ablate", "M_vqa5 [b, r]", None),
        ("matched-pnn", "run", None, "pnn"),
    ],
)
def test_what_a_label_meant(
    label: str, study: str, rung: str | None, matched_to: str | None, tmp_path: Path
) -> None:
    run = read(tmp_path, variant=label).run
    assert (run.study, run.rung, run.strategy.matched_to) == (study, rung, matched_to)
    assert run.strategy.variant == label


def test_a_folder_says_which_runs_it_has_under_older_keys(tmp_path: Path) -> None:
    run = read(tmp_path).run
    assert older_runs(tmp_path) == [run.key] != ["pmn-x"]


def test_what_it_was_matched_to_is_kept(tmp_path: Path) -> None:
    others = [{"name": "pnn", "variant": "big", "width": 99}]
    others += [{"name": "pnn", "rate": 2.0, "width": 20}]  # the plain one counted
    matched = {**OLD["asked"], "matched": others}
    run = read(tmp_path, variant="matched-pnn", asked=matched).run
    assert run.matched is not None and run.matched.name == "pnn"
    assert run.matched.options == {"lr_scale": 2.0, "width": 20}


def test_a_record_from_before_options_were_kept_as_given_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, asked=None, scores={"test": []})
    assert found.incomplete == "the options as they were given"
    assert found.run.splits == ["test"]


def test_the_committed_records_are_of_the_studies_that_made_them() -> None:
    """235 of version 1: 40 of `run`, 60 of `sweep`, 27 rungs with 5 seeds of `ablate`."""
    found = read_results(REFERENCE)
    assert Counter(result.run.study for result in found) == {"run": 40, "sweep": 60, "ablate": 135}
    assert len({result.run.rung for result in found}) == 1 + 27
    assert all(result.upgraded_from == 1 and result.incomplete is None for result in found)


@pytest.mark.parametrize("broken", [{"spec": {}}, {"spec": 3}, {"variant": None}, {"seed": "x"}])
def test_what_is_no_record_is_refused(broken: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no (whole )?result"):
        read(tmp_path, **broken)
