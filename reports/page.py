"""The report: a folder of results as one HTML page that needs nothing else. No torch here.

`folder` reads the results, `sections` choose what to show, `svg` draws it; here it becomes
a page. Style and script are inside it, and its content policy lets it load nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from pmn_cl import __version__
from pmn_cl.errors import UserError
from pmn_cl.files import write_whole
from pmn_cl.progress import ProgressCallback
from reports.blocks import Missing, Section
from reports.folder import Gathered, read_folder
from reports.sections import SECTIONS
from reports.svg import clipped

_HERE = Path(__file__).parent
_CELL = 400  # characters: what is longer would bury the table


def write_report(
    folder: Path, out: Path | None = None, progress: ProgressCallback | None = None
) -> Path:
    """Write the report of a folder; return where it is."""
    return write_page(read_folder(folder, progress), out)


def write_page(found: Gathered, out: Path | None = None) -> Path:
    """Write the report of results that were read; return where it is."""
    place = out or found.folder / "report.html"
    if place.is_dir():
        raise UserError(f"{place}: is a folder, expected the name of a file, like report.html")
    if not place.absolute().parent.is_dir():
        raise UserError(f"{place}: no folder {place.parent}; make it first")
    write_whole(place, render(found))
    return place


def render(found: Gathered) -> str:
    """Return the page."""
    sections = [section_of(build, found) for build in SECTIONS]
    streams = dict.fromkeys(result.stream for result in found.results)
    page = _template().render(
        title=clipped(", ".join(streams) or found.folder.name, 120),
        version=__version__,
        sections=sections,
        looks=found.looks,
        style=Markup(drawing_style() + (_HERE / "page.css").read_text("utf-8")),
        script=Markup((_HERE / "page.js").read_text("utf-8")),
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # a file's name may be no text at all


def drawing_style() -> str:
    """Return the style of what is drawn."""
    return (_HERE / "drawing.css").read_text("utf-8")


def section_of(build: Callable[[Gathered], Section], found: Gathered) -> Section:
    """Build a section; results that it refuses leave the others as they are."""
    try:
        return build(found)
    except UserError as error:
        name = build.__name__
        return Section(name, name.replace("_", " ").capitalize(), [Missing(f"Not shown: {error}.")])


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    environment.filters["clipped"] = lambda text: clipped(text, _CELL)
    return environment.from_string((_HERE / "page.html").read_text("utf-8"))


def _prose(text: str) -> Markup:
    """Return a text in which what stands between `backticks` is shown as code."""
    parts = [escape(part) for part in text.split("`")]
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup("").join(parts)
