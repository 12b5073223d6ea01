"""Short forms of YAML: each is written out once, and mistakes are shown where they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pmn_cl.config.short_forms import as_written, written_out
from pmn_cl.config.stream import load_spec
from pmn_cl.errors import UserError

SHORT: dict[str, Any] = {
    "world": "digits",
    "tasks": ["obj", {"task": "att", "fraction": 5}],
    "strategies": ["pmn", {"name": "pnn", "width": 8, "variant": "narrow", "matched_to": "pmn"}],
}


def test_names_become_mappings_and_the_rest_options() -> None:
    assert written_out(SHORT) == {
        "world": {"name": "digits", "options": {}},
        "tasks": [{"task": "obj"}, {"task": "att", "fraction": 5}],
        "strategies": [
            {"name": "pmn", "options": {}},
            {"name": "pnn", "variant": "narrow", "matched_to": "pmn", "options": {"width": 8}},
        ],
    }


def test_what_is_matched_has_a_label_unless_it_has_one_of_its_own() -> None:
    [given] = written_out({"strategies": [{"name": "pnn", "matched_to": "pmn"}]})["strategies"]
    assert given["variant"] == "matched-pmn"


@pytest.mark.parametrize("odd", [{"world": 5}, {"tasks": "obj"}, {"strategies": [None, 3]}, {}])
def test_what_has_no_right_shape_stays_as_it_is(odd: dict[str, Any]) -> None:
    assert written_out(odd) == odd


def test_places_are_those_of_the_file() -> None:
    assert as_written(("world", "name"), SHORT) == ("world",)
    assert as_written(("tasks", 0, "task"), SHORT) == ("tasks", 0)
    assert as_written(("tasks", 1, "task"), SHORT) == ("tasks", 1, "task")
    assert as_written(("tasks", 1, "calls", 0), SHORT) == ("tasks", 1, "calls", 0)  # not there


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            "{name: pnn, variant: matched-pmn}",
            "5:35: strategies[0].variant: found 'matched-pmn' (text): a variant is a label and "
            "changes nothing, expected `matched_to: pmn`",
        ),
        (
            "{name: pnn, matched_to: pnm}",
            "5:38: strategies[0].matched_to: unknown strategy 'pnm', expected one of ",
        ),
        ("{name: pnn, matched_to: 3}", "5:38: strategies[0].matched_to: found 3 (a whole number)"),
        ("{name: pnn, matched_too: pmn}", "5:26: strategies[0].matched_too: unknown key"),
        (
            "pnn, {name: pnn, variant: ''}",
            "5:19: strategies[1]: 'pnn' is given twice, expected once",
        ),
        ("{variant: a}", "5:14: strategies[0].name: missing, expected the name of a strategy"),
    ],
)
def test_a_label_changes_nothing_and_a_match_is_checked(
    strategy: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "stream.yaml"
    path.write_text(
        f"name: a\nworld: digits\ntasks: [obj]\nseeds: [0]\nstrategies: [{strategy}]\n", "utf-8"
    )
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}:{message}")
