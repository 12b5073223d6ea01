"""Writes the help of every command into the page of commands, while the site is built."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from pmn_cl.cli.main import main

_PLACE = "<!-- help of all commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help in its place; what MkDocs calls for every page."""
    return markdown.replace(_PLACE, "\n".join(_helps(main, ["pmn-bench"])))


def _helps(command: click.Command, words: list[str]) -> list[str]:
    said = CliRunner().invoke(main, [*words[1:], "--help"], prog_name="pmn-bench").output
    found = [
        f"{'#' * min(len(words) + 1, 4)} {' '.join(words)}",
        "",
        "```text",
        said.rstrip(),
        "```",
        "",
    ]
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            if inner is not None and not inner.hidden:
                context = inner.make_context(name, [], resilient_parsing=True)
                found += _helps(context.command, [*words, name])
    return found
