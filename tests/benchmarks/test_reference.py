"""The results behind docs/claims.md: small, of one code, and still what the code gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from pmn_cl.claims.claims import CLAIMS
from pmn_cl.claims.evidence import Evidence
from pmn_cl.claims.rule import check_claims
from pmn_cl.claims.table import (
    FROZEN,
    JUDGEMENTS,
    as_markdown,
    basis_of,
    gather,
    read_frozen,
    read_grades,
)
from pmn_cl.explaining.records.faithfulness import FAITHFULNESS
from pmn_cl.results.folder import RESULT
from pmn_cl.results.result import Result, read_results
from pmn_cl.runs.learned import runnable
from pmn_cl.runs.worker import finish

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "benchmarks" / "reference"
SEEDS = {0, 1, 2, 3, 4}


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return read_results(REFERENCE)


def test_they_are_records_alone_and_small() -> None:
    files = [path for path in REFERENCE.rglob("*") if path.is_file()]
    assert {path.name for path in files} <= {RESULT, FAITHFULNESS, FROZEN}
    assert sum(path.stat().st_size for path in files) < 5_000_000


def test_all_are_completed_and_of_one_code_and_world(results: list[Result]) -> None:
    assert {result.status for result in results} == {"completed"}
    assert len({(result.data, result.revision, result.budget) for result in results}) == 1
    frozen = read_frozen(REFERENCE / FROZEN)
    assert frozen is not None and (results[0].revision or "").startswith(frozen)
    by_setting: dict[tuple[str, float], set[int]] = {}
    for result in results:
        by_setting.setdefault((result.name, result.fraction), set()).add(result.seed)
    assert all(seeds == SEEDS for seeds in by_setting.values())


def test_the_claims_in_the_documents_are_those_of_the_results(results: list[Result]) -> None:
    evidence = Evidence(gather(REFERENCE), read_grades(REFERENCE / JUDGEMENTS))
    basis = basis_of(results, evidence, read_frozen(REFERENCE / FROZEN))
    text = (ROOT / "docs" / "claims.md").read_text("utf-8")
    assert as_markdown(basis, check_claims(evidence, CLAIMS)).strip() in text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for the default world, which takes half a minute to build."""
    return tmp_path_factory.mktemp("world")


def test_what_needs_no_training_is_the_same_when_it_is_run_again(
    results: list[Result], world: Path, tmp_path: Path
) -> None:
    """Networks learn otherwise than when these were recorded (docs/claims.md says how)."""
    [recorded] = [r for r in results if r.name == "constant" and r.seed == 0]
    run = runnable(REFERENCE / recorded.key, recorded)
    (tmp_path / run.key).mkdir()
    again = finish(run, tmp_path / run.key, world, "cpu", 60.0, lambda: False)
    assert again.status == "completed", again.error
    assert again.data == recorded.data
    assert again.parameters == recorded.parameters
    for split, rows in recorded.scores.items():
        assert again.scores[split][-1] == pytest.approx(rows[-1], abs=0.0), split
