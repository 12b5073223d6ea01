"""Tables at several widths: every number whole, every name distinct."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from pmn_cl.console import print_table

NAMES = ["hard_sharing_joint ([b, r])", "hard_sharing_joint", "pmn"]
NUMBERS = [["0.4771", "0.8662", "394,222"], ["0.4772", "0.8663", "394,223"], ["1.0", "", "7"]]


def table(names: list[str] = NAMES, numbers: list[list[str]] = NUMBERS) -> Table:
    made = Table(box=None, title="test, after the whole stream")
    for title in ("strategy", "first task", "second", "parameters"):
        made.add_column(title)
    for name, cells in zip(names, numbers, strict=True):
        made.add_row(name, *cells)
    return made


def printed(width: int, least: tuple[str, ...] = ("parameters",), **more: bool) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    print_table(console, table(), least, more="--wide shows all", **more)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_fits_is_a_table() -> None:
    lines = printed(80).splitlines()
    assert lines[0] == "test, after the whole stream"
    assert lines[1].split() == ["strategy", "first", "task", "second", "parameters"]
    assert lines[2].split() == ["hard_sharing_joint", "([b,", "r])", "0.4771", "0.8662", "394,222"]


def test_what_matters_least_is_left_out_first_and_said() -> None:
    shown = printed(52)
    assert "394" not in shown and "0.8663" in shown
    assert "without parameters, for want of width; --wide shows all" in " ".join(shown.split())


@pytest.mark.parametrize("width", [40, 24, 52])
def test_else_rows_are_listed(width: int) -> None:
    shown = printed(width, wide=width == 52)
    assert "hard_sharing_joint ([b, r])\n" in shown
    assert "first task 0.4771" in shown and "parameters 394,223" in shown
    assert "second " not in shown.split("pmn")[1]  # an empty cell has no name either
    assert all(
        len(line) <= max(width, len("test, after the whole stream")) for line in shown.splitlines()
    )


words = st.text(st.characters(categories=["L", "N"], max_codepoint=0x17F), min_size=1, max_size=12)


@given(st.lists(words, min_size=1, max_size=4, unique=True), st.integers(10, 120), st.data())
def test_no_name_and_no_number_is_cut(names: list[str], width: int, data: st.DataObject) -> None:
    cells = st.floats(0, 1e6).map(lambda value: f"{value:.3f}")
    numbers = [data.draw(st.lists(cells, min_size=3, max_size=3)) for _ in names]
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    print_table(console, table(names, numbers))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "…" not in shown
    found = re.findall(r"(?<![\w.])\d+\.\d{3}(?![\w.])", shown)
    assert sorted(found) == sorted(cell for row in numbers for cell in row)
    assert all(name in shown for name in names)
