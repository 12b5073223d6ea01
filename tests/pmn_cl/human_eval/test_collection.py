"""``pmn-bench judge``: what it prints, what it writes, and who reads that afterwards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_results import FIELD
from made_rounds import made_round, saved_by

from pmn_cl.claims.table import JUDGEMENTS, read_grades
from pmn_cl.cli.main import main
from pmn_cl.human_eval.numbers import NUMBERS, judged_points, keep_numbers, read_numbers
from pmn_cl.human_eval.rounds import Round
from pmn_cl.results.folder import RESULT


@pytest.fixture
def key(tmp_path: Path) -> Round:
    (tmp_path / "results").mkdir()
    (tmp_path / "round").mkdir()
    made = made_round(tmp_path / "results")
    made.write(tmp_path / "round")
    for judge in (1, 2, 3):
        (tmp_path / f"{judge}.json").write_text(saved_by(made, judge).model_dump_json())
    return made


def run(folder: Path, *arguments: object) -> Result:
    given = ["judge", "collect", str(folder / "round"), *map(str, arguments), "--tracking", "off"]
    return CliRunner().invoke(main, given)


def test_the_table_is_printed_beside_the_papers(key: Round, tmp_path: Path) -> None:
    result = run(tmp_path, *(tmp_path / f"{judge}.json" for judge in (1, 2, 3)))
    assert result.exit_code == 0, result.output
    lines = {line[:20].strip(): line.split() for line in result.stdout.splitlines()}
    assert [lines[who][2:4] for who in ("both right", "none right")] == [
        ["20", "715"],
        ["3", "139"],
    ]
    assert lines["PMN alone right"][3:5] == ["10", "584"]
    assert lines["all"][:3] == ["all", "40", "1,600"]
    assert lines["all"][-1] == "+0.30" and "2.54" in lines["all"] and "2.24" in lines["all"]
    assert "average 2.76 (PMN) and 2.18 (baseline)" in result.stdout
    assert "clustered by question and" in result.stdout
    assert re.search(r"PMN's grades +ordinal -?0\.\d{3}, interval -?0\.\d{3}\n", result.stdout)


def test_files_that_do_not_count_are_named_and_kept(key: Round, tmp_path: Path) -> None:
    odd = tmp_path / "<script>[bold]‮.json"
    odd.write_text("{")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    result = run(tmp_path, tmp_path / "1.json", tmp_path / "2.json", odd, tmp_path / "1.json")
    assert result.exit_code == 1
    assert f"left out: {odd}: not as a judge's page saves it" in result.stdout
    assert "taken once:" in result.stdout and "no file that counts of judge 3" in result.stdout
    assert before == {path: path.read_bytes() for path in tmp_path.glob("*.json")}


def test_where_no_file_counts_nothing_is_written(key: Round, tmp_path: Path) -> None:
    result = run(tmp_path, tmp_path / "none.json")
    assert result.exit_code == 2 and result.stdout == ""
    assert "no file has grades that count:\n  " in result.stderr
    assert list((tmp_path / "results").iterdir()) == []


def test_for_programs(key: Round, tmp_path: Path) -> None:
    result = run(tmp_path, tmp_path / "1.json", "--json")
    found = json.loads(result.stdout)
    assert [row["who"] for row in found["rows"]][-1] == "all"
    assert found["rows"][-1]["paper"] == {"questions": 1600, "pmn": 2.54, "baseline": 2.24}
    assert len(found["judged"]) == 40 and found["left_out"] == []
    assert found["alpha"]["pmn"]["ordinal"] is None  # one judge agrees with nobody


def test_claims_finds_the_grades(key: Round, tmp_path: Path) -> None:
    for judge in (1, 3):  # a second collection replaces the first
        files = [tmp_path / f"{number}.json" for number in range(1, judge + 1)]
        assert run(tmp_path, *files).exit_code == 0
        found = read_grades(tmp_path / "results" / JUDGEMENTS)
        assert len({grades.judge for grades in found}) == judge
        assert len(found) == judge * 4


def test_grades_of_others_are_not_overwritten(key: Round, tmp_path: Path) -> None:
    path = tmp_path / "results" / JUDGEMENTS
    row = {"judge": "ann", "split": "novel", "group": "both right", "questions": 3}
    path.write_text(json.dumps([{**row, "pmn": 3.0, "baseline": 2.0}]))
    assert run(tmp_path, tmp_path / "1.json").exit_code == 0
    assert "ann" in {grades.judge for grades in read_grades(path)}  # on another split
    path.write_text(path.read_text("utf-8").replace('"novel"', '"test"'))
    before = path.read_bytes()
    result = run(tmp_path, tmp_path / "1.json")
    assert result.exit_code == 2 and path.read_bytes() == before
    assert "already has grades on test of others (ann)" in result.stderr
    assert "both right" in result.stdout  # the table is there all the same


def test_results_that_have_moved(key: Round, tmp_path: Path) -> None:
    (tmp_path / "results").rename(tmp_path / "moved")
    result = run(tmp_path, tmp_path / "1.json")
    assert result.exit_code == 2 and "name the one with the results" in result.stderr
    there = run(tmp_path, tmp_path / "1.json", "--results", tmp_path / "moved")
    assert there.exit_code == 0 and (tmp_path / "moved" / JUDGEMENTS).exists()


def test_the_same_numbers_again_are_no_news(tmp_path: Path) -> None:
    keep_numbers(tmp_path, "test", "r", {"all/pmn.mean": 2.5})
    first = list(judged_points(tmp_path))
    assert [(point.name, point.value) for point in first] == [("judges/test/all/pmn.mean", 2.5)]
    keep_numbers(tmp_path, "test", "r", {"all/pmn.mean": 2.5})
    assert list(judged_points(tmp_path)) == first
    keep_numbers(tmp_path, "novel", "s", {"all/pmn.mean": 1.5})
    assert set(read_numbers(tmp_path)) == {"test", "novel"}
    keep_numbers(tmp_path, "test", "r", {"all/pmn.mean": 3.0})
    assert {point.value for point in judged_points(tmp_path)} == {1.5, 3.0}


def test_mlflow_shows_them_on_the_run_of_the_stream(key: Round, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    from pmn_cl.mlflow_mirror.mirror import sync

    results = tmp_path / "results"
    for result in FIELD[:2]:
        (results / result.key).mkdir()
        (results / result.key / RESULT).write_text(result.model_dump_json())
        event = {"event": "started", "time": 1767323045.0}
        (results / result.key / "journal.jsonl").write_text(json.dumps(event) + "\n")
    files = [str(tmp_path / f"{judge}.json") for judge in (1, 2, 3)]
    done = CliRunner().invoke(main, ["judge", "collect", str(tmp_path / "round"), *files])
    assert done.exit_code == 0, done.output
    parent = sync(results).parent
    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    metrics = client.get_run(parent).data.metrics
    kept = json.loads((results / NUMBERS).read_text("utf-8"))["test"]["numbers"]
    assert {n: v for n, v in metrics.items() if n.startswith("judges/")} == {
        f"judges/test/{name}": pytest.approx(value) for name, value in kept.items()
    }
    assert len(client.get_metric_history(parent, "judges/test/all/pmn.mean")) == 1


def test_help_teaches() -> None:
    for arguments, words in (
        (["judge"], ("make", "collect", "Table 5")),
        (["judge", "make"], ("--stratify", "--per-question", "round.json", "1600")),
        (["judge", "collect"], ("--allow-incomplete", "judgements.json", "two browsers")),
    ):
        shown = CliRunner().invoke(main, [*arguments, "--help"])
        assert shown.exit_code == 0
        assert all(word in shown.stdout for word in words)
