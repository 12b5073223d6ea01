"""The report as a document: one Markdown page, its figures as SVG files in a folder beside it.

What it says comes from results alone; what experiments say about them is added from `notes.md` in
the folder of results, under the name of the section that it belongs to (``## claims``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import escape

from pmn_cl.errors import UserError
from pmn_cl.files import write_whole
from reports.blocks import Block, Commands, Facts, Figure, Missing, Section, Table, Text
from reports.folder import Gathered
from reports.page import drawing_style, section_of
from reports.sections import DOCUMENT
from reports.svg import PlotPanel

NOTES = "notes.md"
_LINE = 20  # pixels of a line of a key


def write_document(found: Gathered, place: Path) -> Path:
    """Write the page and its figures; return where the page is."""
    if not place.absolute().parent.is_dir():
        raise UserError(f"{place}: no folder {place.parent}; make it first")
    for path, text in document(found, place).items():
        if path.parent.exists() and not path.parent.is_dir():
            raise UserError(f"{path.parent}: is a file, but figures go into a folder of that name")
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text)
    return place


def document(found: Gathered, place: Path) -> dict[Path, str]:
    """Return the page's text and those of its figures, by where they belong."""
    files: dict[Path, str] = {}
    sections = [section_of(build, found) for build in DOCUMENT]
    notes = read_notes(found.folder / NOTES, sections)
    folder = place.with_name(f"{place.stem}_figures")
    streams = dict.fromkeys(result.stream for result in found.results)
    lines = [f"# Results: {', '.join(streams)}", "", "Made by a command from results; see its end."]
    for section in sections:
        lines += ["", f"## {section.title}"]
        for number, block in enumerate(section.blocks, start=1):
            if isinstance(block, Figure):
                panels = [*block.panels, *([key_of(block)] if block.key else ())]
                for at, panel in enumerate(panels, start=1):
                    figure = folder / f"{section.name}-{number}-{at}.svg"
                    files[figure] = standalone(panel)
                    alt = panel.title.replace("]", ")").replace("[", "(")
                    lines += ["", f"![{alt}]({quote(f'{folder.name}/{figure.name}')})"]
            lines += ["", *_lines(block)]
        if section.name in notes:
            lines += ["", notes[section.name]]
    said = f"pmn-bench report {found.shown_folder} --out {shlex.quote(str(place))}"
    lines += ["", "## How this page is made", "", "```", said, "```", ""]
    return {place: "\n".join(lines), **files}


def read_notes(path: Path, sections: Sequence[Section]) -> dict[str, str]:
    """Return what a file says of each section, by the section's name."""
    if not path.exists():
        return {}
    before, *parts = re.split(r"^## (.+)$", path.read_text("utf-8"), flags=re.MULTILINE)
    if before.strip():
        raise UserError(
            f"{path}: begins with {before.split()[0]!r}, expected ## and a section's name"
        )
    notes = {name.strip(): text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    known = [section.name for section in sections]
    for name in notes:
        if name not in known:
            raise UserError(f"{path}: no section {name!r}, expected some of {', '.join(known)}")
    return notes


def key_of(figure: Figure) -> PlotPanel:
    """Return what is drawn how, a line for each: a page has this beside the figure."""
    lines = [
        f'<g class="{look.colour}" transform="translate(0 {_LINE * at + _LINE / 2:g})">'
        f'<path class="line" stroke-dasharray="{look.dashes}" d="M4 0H40"/>'
        f'<path class="mark" transform="translate(22 0)" d="{look.marker}"/>'
        f'<text x="48" y="4">{escape(look.label)}</text></g>'
        for at, (look, _) in enumerate(figure.key)
    ]
    title = f"{figure.caption}: what is drawn"
    labels = ", ".join(look.label for look, _ in figure.key)
    return PlotPanel(title, labels, 320, _LINE * len(lines), "".join(lines))


def standalone(panel: PlotPanel) -> str:
    """Return a panel as a file that needs no page: with its style, on white."""
    drawn = str(panel.svg("figure"))
    head, _, rest = drawn.partition(">")
    style = drawing_style().replace("color-scheme: light dark", "color-scheme: light")
    back = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{back}{rest}\n'


def _lines(block: Block) -> Iterator[str]:
    """Yield a block as Markdown."""
    match block:
        case Text():
            yield f"**{block.text}**" if block.lead else block.text
        case Table():
            yield f"*{block.caption}*"
            yield ""
            yield _row(block.columns)
            yield _row(["---"] * len(block.columns))
            yield from (_row(row.cells) for row in block.rows)
        case Figure():
            if block.note:
                yield block.note
                yield ""
            yield from _lines(block.data)
        case Missing():
            yield " ".join([block.text, *(f"`{command}`" for command in block.commands)])
        case Facts():
            yield from (f"- **{name}**: {value}" for name, value in block.facts)
        case Commands():
            yield "```"
            yield from (f"{line}  # {does}" if does else line for line, does in block.lines)
            yield "```"


def _row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
