"""From real annotations to a result: just what the comments of visual_genome_sample.yaml say."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from pmn_cl.cli.main import main
from pmn_cl.config.stream import find_stream
from pmn_cl.results.result import read_results

SAMPLES = os.environ.get("PMN_BENCH_SAMPLES")


def recipe() -> list[list[str]]:
    """The commands in the stream's comments, without their first word."""
    lines = find_stream("visual_genome_sample.yaml")[0].read_text("utf-8").splitlines()
    commented = [line.lstrip("#").strip() for line in lines if line.startswith("#   ")]
    joined = " ".join(commented).replace("\\ ", "")
    return [shlex.split(command) for command in joined.split("pmn-bench ")[1:]]


def test_the_recipe_can_be_read() -> None:
    assert [command[:2] for command in recipe()] == [
        ["prepare", "features"],
        ["prepare", "visual-genome"],
        ["prepare", "coco"],
        ["prepare", "vqa"],
        ["run", "visual_genome_sample.yaml"],
        ["report", "runs/visual_genome_sample"],
    ]


@pytest.mark.long
@pytest.mark.skipif(
    not SAMPLES or not Path(SAMPLES).is_dir(),
    reason="$PMN_BENCH_SAMPLES names no folder with real samples",
)
def test_all_six_tasks_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PMN_BENCH_DATA", raising=False)
    samples = str(Path(SAMPLES or "").resolve())
    for command in recipe():
        given = [part.replace("SAMPLES", samples) for part in command]
        result = CliRunner().invoke(main, given, catch_exceptions=False)
        assert result.exit_code == 0, f"{given}\n{result.output}"
        if given[1] == "features":
            assert "SIMULATED" in result.output
    results = read_results(Path("runs/visual_genome_sample"))
    assert {result.strategy for result in results} == {"constant", "pmn", "hard_sharing"}
    for result in results:
        assert result.status == "completed"
        assert result.tasks == ["obj", "att", "rel", "cap", "cnt", "vqa"]
        assert None not in result.matrix("test")[-1]
    given = ["answers", "runs/visual_genome_sample", "--run", "pmn", "--out", "answers.json"]
    result = CliRunner().invoke(main, given, catch_exceptions=False)
    assert "500 answers to test" in result.output  # all of the sample's val2014 questions
