"""The commands, on runs that were carried through."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pmn_cl.cli.main import main
from pmn_cl.explaining.records.explanation import Explanation
from pmn_cl.explaining.records.faithfulness import read_faithfulness


def invoke(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture
def explain(runs: Path, cache: Path) -> Any:
    return lambda *args: invoke("explain", runs, "--cache", cache, *args)


def test_text_tells_calls_answer_and_sentence_with_the_baseline_beside(explain: Any) -> None:
    found = explain("--question-id", 17)
    assert found.exit_code == 0
    assert "question 17, scene 1 of test" in found.output
    assert re.search(r"step 1 +M_rel\*? +\d\.\d\d ", found.output)
    assert len(re.findall(r"so the answer is ", found.output)) == 2
    assert "beside it, independent" in found.output
    alone = explain("--question-id", 17, "--baseline", "none")
    assert "independent" not in alone.output
    assert alone.output.strip() in found.output


def test_json_is_the_record_and_pictures_and_pages_are_written(
    explain: Any, tmp_path: Path
) -> None:
    files = [tmp_path / f"a{suffix}" for suffix in (".json", ".svg", ".png", ".html")]
    outs = [arg for file in files for arg in ("--out", file)]
    found = explain("--sample", 1, "--type", "counting", "--seed", 2, *outs)
    assert found.exit_code == 0
    assert [line.removeprefix("wrote ") for line in found.stdout.splitlines()] == [*map(str, files)]
    ours, theirs = map(Explanation.model_validate, json.loads(files[0].read_text("utf-8")))
    assert (ours.strategy, theirs.strategy) == ("pmn", "independent")
    assert ours.question_id == theirs.question_id
    assert ours.sentence in files[3].read_text("utf-8").replace("&#34;", '"')
    assert files[1].read_text("utf-8").lstrip().startswith("<?xml")
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_several_questions_have_a_picture_each(explain: Any, tmp_path: Path) -> None:
    found = explain("--question-id", 1, "--question-id", 2, "--out", tmp_path / "q.svg")
    assert found.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q-1.svg", "q-2.svg"]


def test_a_question_of_ones_own_points_out_what_was_not_heard(explain: Any) -> None:
    found = explain("--question", "is there a <script>big</script> seven?", "--scene", 3)
    assert found.exit_code == 0
    assert "is there a <script>big</script> seven?" in found.output
    assert "never learned them: “script”, “big”" in found.output


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--question", "is there a seven?"], "--question and --scene go together"),
        (["--question-id", "1", "--sample", "2"], "one way to say which questions"),
        (["--out", "a.gif"], "ends in .png, .svg, .json, .html"),
        (["--out", "nowhere/a.png"], "there is no folder nowhere"),
        (["--run", "pmnn"], "no completed run 'pmnn'"),
        (["--type", "countin"], "did you mean 'counting'"),
        (["--question-id", "99999"], "expected one from 0 to 599"),
    ],
)
def test_mistakes_are_named_and_exit_with_2(explain: Any, args: list[str], problem: str) -> None:
    found = explain(*args)
    assert found.exit_code == 2
    assert problem in found.output


@pytest.fixture(scope="module")
def measured(
    runs: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("measured") / "runs"
    shutil.copytree(runs, folder)
    args = ("--cache", cache, "--questions", 60, "--json")
    return folder, invoke("faithfulness", folder, *args)


def test_faithfulness_is_measured_kept_and_told(measured: tuple[Path, Result], cache: Path) -> None:
    folder, found = measured
    assert found.exit_code == 0
    lines = {line["measure"]: line for line in json.loads(found.stdout)}
    pointing = lines["pointing"]
    assert list(pointing["strategies"]) == ["pmn", "independent"]
    by_name = {name: some["mean"] for name, some in pointing["strategies"].items()}
    apart = by_name["pmn"] - by_name["independent"]
    assert pointing["difference"]["mean"] == pytest.approx(apart)
    for run in folder.glob("*/result.json"):
        record = read_faithfulness(run.parent)
        assert record is not None
        assert record.splits["test"].values["pointing"] == by_name[record.strategy]
    assert list(lines["asked box"]["strategies"]) == ["pmn"]
    printed = invoke("faithfulness", folder, "--cache", cache, "--questions", 60)
    assert "60 questions, seeds 0" in printed.stdout
    assert f"{by_name['pmn']:.3f}" in printed.stdout


def test_what_is_measured_is_not_measured_again(measured: tuple[Path, Result]) -> None:
    folder, _ = measured
    before = {p: p.read_bytes() for p in folder.glob("*/faithfulness.json")}
    # A world that is not there could not be asked.
    nowhere = folder.parent / "empty"
    again = invoke("faithfulness", folder, "--cache", nowhere, "--questions", 60)
    assert again.exit_code == 0
    assert not nowhere.exists()
    assert before == {p: p.read_bytes() for p in folder.glob("*/faithfulness.json")}


def test_faithfulness_goes_to_mlflow_once(measured: tuple[Path, Result]) -> None:
    from pmn_cl.mlflow_mirror.mirror import connect, sync

    folder, _ = measured
    found = sync(folder)
    client = connect(folder)
    for key, run in found.runs.items():
        record = read_faithfulness(folder / key)
        assert record is not None
        mirrored = client.get_run(run).data.metrics
        values = record.splits["test"].values
        assert mirrored["test/faithfulness/pointing"] == values["pointing"]
        named = [name for name in mirrored if name.startswith("test/faithfulness/")]
        assert len(named) == len(values)
    assert sync(folder).written == []


def test_runs_of_other_budgets_are_not_averaged(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(runs, folder)
    (path,) = folder.glob("independent*/result.json")
    path.write_text(path.read_text("utf-8").replace('"budget": 2', '"budget": 3'), "utf-8")
    found = invoke("faithfulness", folder)
    assert found.exit_code == 2
    assert "differ in data, fraction or budget" in found.output


def test_where_nothing_was_kept_nothing_is_measured(runs: Path, tmp_path: Path) -> None:
    for path in runs.glob("*/result.json"):
        (tmp_path / path.parent.name).mkdir()
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    found = invoke("faithfulness", tmp_path)
    assert found.exit_code == 1
    assert "kept nothing of what they learned" in found.output
