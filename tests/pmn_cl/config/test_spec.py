"""A run as one typed object: what decides its key, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from made_results import run_spec

from pmn_cl.config.spec import BenchmarkSpec, RunSpec, StreamSpec
from pmn_cl.config.stream import find_stream, load_spec, parse_stream

RUN = run_spec("pmn", variant="equal gates", options={"size": "small"})


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"study": "ablate"},
        {"rung": "M_vqa5"},
        {"splits": ["val"]},
        {"evaluate_at_end": True},
        {"matched": RUN.strategy},
        {"strategy": RUN.strategy.model_copy(update={"options": {"size": "paper"}})},
        {"strategy": RUN.strategy.model_copy(update={"matched_to": "pnn"})},
        {"stream": RUN.stream.model_copy(update={"budget": 10.0})},
        {"stream": RUN.stream.model_copy(update={"tasks": RUN.stream.tasks[:1]})},
    ],
)
def test_all_that_decides_a_result_is_in_the_key(change: dict[str, Any]) -> None:
    assert RUN.model_copy(update=change).key != RUN.key


def test_what_changes_no_score_is_not() -> None:
    renamed = RUN.stream.model_copy(update={"name": "another"})
    assert RUN.model_copy(update={"stream": renamed, "reuse": "modules"}).key == RUN.key
    assert RUN.key.startswith("pmn-equal-gates-seed0-")


def test_a_run_survives_json_but_for_the_folder_that_it_shares() -> None:
    shared = RUN.model_copy(update={"reuse": "modules"})
    again = RunSpec.model_validate_json(shared.model_dump_json())
    assert again == RUN and again.key == shared.key


def test_a_benchmark_is_a_stream_and_who_learns_it() -> None:
    spec = load_spec(find_stream("stream.yaml")[0])
    assert isinstance(spec, BenchmarkSpec) and type(spec.stream) is StreamSpec
    assert spec.stream.model_dump() == spec.model_dump(
        exclude={"strategies", "seeds", "splits", "orders", "tuned"}
    )
    plain = spec.plain("pmn")
    assert plain is not None and plain.label == "pmn" and spec.plain("nobody") is None


def test_call_lists_are_resolved_when_a_stream_is_read() -> None:
    given = {"name": "a", "world": "digits", "strategies": ["constant"], "seeds": [0]}
    tasks = ["obj", "rel", {"task": "vqa", "calls": ["obj"]}]
    spec = parse_stream({**given, "tasks": tasks})
    assert [item.calls for item in spec.tasks] == [[], ["obj"], ["obj"]]
