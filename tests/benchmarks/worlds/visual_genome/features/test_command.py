"""`pmn-bench prepare features`, as people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pmn_cl.cli.main import main
from pmn_cl.data.store import Store


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["prepare", "features", *map(str, arguments)])


def test_help_teaches_the_forms() -> None:
    told = run("--help").output
    for form in ("bottom_up", "lxmert", "hdf5", "npy", "module:Class", "--vg", "--simulate"):
        assert form in told


def test_a_prepare_says_what_it_kept_and_the_digest(
    tmp_path: Path, photos: Any, writers: Any
) -> None:
    path = writers["bottom_up"](tmp_path, photos(3))
    path.write_bytes(path.read_bytes() + b"\xff<script>[b, r]\t\n")
    for again in (False, True):
        done = run(path, "--out", tmp_path / "out")
        assert done.exit_code == 0
        digest = Store(tmp_path / "out/features.h5").digest
        assert f"digest {digest}" in done.stdout and "4 images read, 3 kept" in done.stdout
        assert "1 skipped, damaged: no image id" in done.stdout
        assert ("nothing to do" in done.stdout) == again
    assert (
        "reading (MB): "
        in CliRunner()
        .invoke(main, ["prepare", "features", str(path), "--out", str(tmp_path / "other")])
        .stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no SOURCE"),
        (["missing.tsv"], "missing.tsv: no such file or folder"),
        (["--limit", "0"], "--limit"),
        (["--simulate"], "--simulate without --image-data"),
        ([__file__], "none of the known forms of features"),
        ([__file__, "--format", "lxmrt"], "did you mean 'lxmert'?"),
        ([__file__, "--format", "bottom_up"], "no image could be taken"),
        ([__file__, "--format", "hdf5"], "test_command_imgid2idx.pkl: no such file"),
        ([__file__, "--format", "npy"], "cannot be read: Not a directory"),
        ([str(Path(__file__).parent), "--format", "bottom_up"], "cannot be read: Is a directory"),
    ],
)
def test_mistakes_are_said_without_a_traceback(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2 and message in done.output
    assert isinstance(done.exception, SystemExit) and "Traceback" not in done.output
    assert not (tmp_path / "out/features.h5").exists()


def test_simulating(tmp_path: Path) -> None:
    images = tmp_path / "image_data.json"
    images.write_text(json.dumps([{"image_id": 1, "width": 640, "height": 480}]))
    done = run(
        *("--simulate", "--image-data", images, "--dimensions", 16, "--out", tmp_path / "out")
    )
    assert done.exit_code == 0
    assert "SIMULATED: features of 1 of 1 images are made up" in done.stdout
