"""The command line. A command is imported when it runs, and what it needs with it: help is instant.

Exit codes: 0 done; 1 something that was asked for did not succeed; 2 the input is wrong
(a message, no traceback); 130 interrupted by Ctrl-C, with what is done kept.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from pmn_cl import __version__
from pmn_cl.console import INTERRUPTED, same_command
from pmn_cl.errors import UserError


class _Command(click.Command):
    """A line of help, and where the command is, for when it is called.

    To import all of them would take longer than to print the help.
    """

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, short_help=summary, hidden=not summary)
        self._place = place

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Import the command; it does all the rest."""
        file, function = self._place.split(".")
        command: click.Command = getattr(import_module(f"pmn_cl.cli.{file}"), function)
        return command.make_context(*given, **more)


class _Commands(click.Group):
    """A group that prints mistakes of the user's without a traceback, and lists by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for group in _GROUPS.values() for name, _, summary in group)
        for title, group in _GROUPS.items():
            listed = [(name.ljust(width), summary) for name, _, summary in group if summary]
            with formatter.section(title):
                formatter.write_dl(listed)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"pmn-bench: {error}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo(f"\npmn-bench: interrupted; go on with: {same_command()}", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pmn-bench")
def main() -> None:
    """Compare ways of learning one visual task after another.

    \b
    First steps:
      pmn-bench doctor             is this machine ready?
      pmn-bench run quick.yaml     learn a small stream, in a few minutes
      pmn-bench show stream.yaml   what is there to learn?
      pmn-bench init               a stream.yaml of your own
    """


# By what one wants to do: name, where it is, and its line of help; without one it is not listed.
_GROUPS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Start": (
        ("doctor", "start.doctor", "What is wrong with this machine, and what to do."),
        ("init", "start.init", "Write a stream.yaml to start from."),
        ("show", "worlds.show", "What is in a stream; a picture of its world."),
        ("list", "start.list_names", "What can be named in a stream's YAML."),
    ),
    "Run": (
        ("run", "run.run_stream", "Learn a stream with every strategy and seed."),
        ("sweep", "run.sweep", "Learn one task from less and less data."),
        ("ablate", "run.ablate", "The paper's ablations, and further controls."),
        ("tune", "run.tune", "Choose settings on validation, a few trials each."),
        ("plan", "run.plan", "List the runs of a stream, or write them for Slurm."),
        ("one-run", "run.one_run", ""),
    ),
    "Look": (
        ("results", "results.list_results", "What is in a folder of results."),
        ("compare", "results.compare", "Strategies side by side, with intervals."),
        ("report", "report.report", "One HTML page on a folder of results."),
        ("ui", "results.ui", "MLflow's pages on a folder of results."),
        (
            "explain",
            "explain.explain",
            "How a network came to an answer: text, picture, page, JSON.",
        ),
    ),
    "Question": (
        ("claims", "results.claims", "Which of the paper's claims hold for a folder of results."),
        (
            "faithfulness",
            "explain.faithfulness",
            "Whether explanations are true: attention, queries, gates, removal.",
        ),
        ("verify", "run.verify", "Run results again from their records."),
        (
            "judge",
            "human_eval.judge",
            "Let people grade explanations: make pages, collect grades.",
        ),
    ),
    "Data": (
        ("prepare", "prepare.prepare", "Build the data of a world once."),
        ("answers", "answers.answers", "Answers of runs as a file for an evaluation server."),
    ),
    "Share": (
        ("modules", "modules.modules", "The library of learned modules."),
        ("merge", "results.merge", "Join folders of results into one."),
        ("sync", "results.sync", "Mirror a folder of results in MLflow."),
    ),
}
for group in _GROUPS.values():
    for listed in group:
        main.add_command(_Command(*listed))


if __name__ == "__main__":
    from pmn_cl.cli.program import program

    program()
