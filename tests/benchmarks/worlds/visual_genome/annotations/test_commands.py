"""The three commands as a user types them, on the real samples."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pmn_cl.cli.main import main


def bench(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["prepare", *map(str, arguments)])


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A folder with features alone."""
    shutil.copy(prepared / "features.h5", tmp_path)
    return tmp_path


def test_all_three_and_once_more(samples: Path, folder: Path) -> None:
    out = ("--out", folder)
    genome = ("visual-genome", samples / "visual_genome", "--vocab", samples / "vocab", *out)
    vqa, coco = ("vqa", samples / "vqa_v2", *out), ("coco", samples / "coco_captions", *out)
    refused = bench(*genome)
    assert refused.exit_code == 2 and "coco_id" in refused.output
    assert "Traceback" not in refused.output and not (folder / "genome.h5").exists()
    for arguments, figure in (
        ((*genome, "--skip-leakage-check"), "(paper: 200,000)"),
        ((*vqa, "--min-answers", "2"), "(paper: about 89,000)"),
        ((*coco, "--min-words", "1"), "words of captions"),
    ):
        made, again = bench(*arguments), bench(*arguments)
        assert made.exit_code == 0, made.output
        assert figure in made.output and "digest" in made.output and "SIMULATED" in made.output
        assert again.exit_code == 0 and "is there already" in again.output
    assert {p.name for p in folder.iterdir()} == {"features.h5", "genome.h5", "vqa.h5", "coco.h5"}


def test_what_is_missing_is_said(samples: Path, folder: Path, tmp_path: Path) -> None:
    nowhere = bench("coco", tmp_path / "nowhere", "--out", folder)
    assert nowhere.exit_code == 2 and "not there, expected the folder with" in nowhere.output
    wrong = bench("vqa", samples / "coco_captions", "--out", folder)
    assert wrong.exit_code == 2 and "needed by cnt and vqa" in wrong.output
    empty = bench("coco", samples / "coco_captions", "--out", tmp_path / "empty")
    assert empty.exit_code == 2 and "pmn-bench prepare features" in empty.output
    glove = bench("vqa", samples / "vqa_v2", "--out", folder, "--glove", tmp_path / "none.txt")
    assert glove.exit_code == 2 and "expected a GloVe text file" in glove.output


@pytest.mark.parametrize("command", ["visual-genome", "vqa", "coco"])
def test_help_teaches(command: str) -> None:
    shown = bench(command, "--help")
    assert shown.exit_code == 0 and "Examples:" in shown.output and "SOURCE" in shown.output
