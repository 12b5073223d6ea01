"""The report as a document: what it says, its figures as files of their own, and notes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_folder import ablated, plain, swept, trouble, write

from pmn_cl.cli.report import report
from pmn_cl.errors import UserError
from reports.document import document, write_document
from reports.folder import Gathered, read_folder

ALL = [*plain(), *swept(), *ablated(), *trouble()]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(ALL, tmp_path / "claims")


def test_every_figure_is_a_file_of_its_own_that_the_page_shows(folder: Path) -> None:
    place = folder.parent / "results.md"
    write_document(read_folder(folder), place)
    text = place.read_text("utf-8")
    shown = re.findall(r"!\[[^\]]+\]\((results_figures/[\w-]+\.svg)\)", text)
    kept = sorted((folder.parent / "results_figures").iterdir())
    assert sorted(shown) == [f"results_figures/{path.name}" for path in kept] != []
    for path in kept:
        root = ET.fromstring(path.read_text("utf-8"))
        style = root.find(f"{SVG}style")
        assert root.tag == f"{SVG}svg" and style is not None and style.text is not None
        used = {name for e in root.iter() for name in (e.get("class") or "").split()}
        assert all(f".{name}" in style.text for name in used - {"tick"})
        assert "color-scheme: light dark" not in style.text  # readers' themes do not reach it


def test_the_page_has_claims_ladder_and_low_data_with_whole_tables(folder: Path) -> None:
    place = Path("results.md")
    text = document(read_folder(folder), place)[place]
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {"Summary", "The paper's claims", "Ablation ladder", "Low data"} <= {*titles}
    assert "| M_vqa2 | 0.310 ± 0.025 |" in text
    widths: list[set[int]] = [set()]
    for line in text.splitlines():
        if line.startswith("|"):
            widths[-1].add(len(re.findall(r"(?<!\\)\|", line)))
        elif widths[-1]:
            widths.append(set())
    assert all(len(some) == 1 for some in widths if some)


def test_the_same_results_make_the_same_page(folder: Path) -> None:
    place = Path("results.md")
    assert document(read_folder(folder), place) == document(read_folder(folder), place)


def test_notes_stand_at_the_end_of_their_section(folder: Path) -> None:
    place = Path("results.md")
    (folder / "notes.md").write_text("## claims\n\nBecause | of it.\n", "utf-8")
    text = document(read_folder(folder), place)[place]
    before, _, after = text.partition("Because | of it.")
    assert before.rfind("## The paper's claims") > before.rfind("## Summary") > 0
    assert after.lstrip().startswith("## ")
    (folder / "notes.md").write_text("## claim\n\nBecause.\n", "utf-8")
    with pytest.raises(
        UserError, match="no section 'claim', expected some of summary, aggregates, claims"
    ):
        document(read_folder(folder), place)
    (folder / "notes.md").write_text("What we found.\n\n## claims\n", "utf-8")
    with pytest.raises(UserError, match="begins with 'What', expected ## and a section's name"):
        document(read_folder(folder), place)


def test_any_name_will_do_but_one_that_a_file_has(folder: Path) -> None:
    place = folder.parent / "my report.md"
    write_document(read_folder(folder), place)
    text = place.read_text("utf-8")
    assert "(my%20report_figures/" in text and f"--out '{place}'" in text
    (folder.parent / "plain_figures").write_text("", "utf-8")
    with pytest.raises(UserError, match="is a file, but figures go into a folder"):
        write_document(read_folder(folder), folder.parent / "plain.md")


def test_the_command_writes_it(folder: Path) -> None:
    place = folder.parent / "results.md"
    found = CliRunner().invoke(report, [str(folder), "--out", str(place)])
    assert found.exit_code == 0, found.output
    assert "its figures in a folder" in found.output and place.exists()
    with pytest.raises(UserError, match="make it first"):
        write_document(Gathered(folder, ALL), folder / "none" / "results.md")
