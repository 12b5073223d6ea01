"""Journals: whatever was cut off, every whole line is there and no half line is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmn_cl.errors import UserError
from pmn_cl.results.folder import JOURNAL
from pmn_cl.runs.journal import Journal, read_journal


def write(folder: Path, *events: str) -> bytes:
    journal = Journal(folder)
    for number, event in enumerate(events):
        journal.write(event, number=number, text="ä\n")
    journal.close()
    return (folder / JOURNAL).read_bytes()


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, "started", "experience")
    events = read_journal(tmp_path / JOURNAL)
    assert [(e["event"], e["number"], e["text"]) for e in events] == [
        ("started", 0, "ä\n"),
        ("experience", 1, "ä\n"),
    ]
    assert Journal(tmp_path).events == events


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    whole = write(folder, "started", "experience", "experience")
    kept = whole[: cut % (len(whole) + 1)]
    (folder / JOURNAL).write_bytes(kept)
    lines = kept.count(b"\n")
    assert len(read_journal(folder / JOURNAL)) == lines
    again = Journal(folder)
    again.write("completed")
    again.close()
    found = [event["event"] for event in read_journal(folder / JOURNAL)]
    assert found == [*["started", "experience", "experience"][:lines], "completed"]


def test_what_is_no_journal_is_refused_with_its_line(tmp_path: Path) -> None:
    whole = write(tmp_path, "started")
    (tmp_path / JOURNAL).write_bytes(whole + b"garbage\n")
    with pytest.raises(UserError, match=r"journal.jsonl:2: is no line of a journal: b'garbage'"):
        read_journal(tmp_path / JOURNAL)


def test_what_json_cannot_say_is_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        journal.write("experience", score=float("nan"))
    assert read_journal(tmp_path / JOURNAL) == []
