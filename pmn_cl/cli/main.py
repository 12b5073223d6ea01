"""The command line. Each command imports what it needs when it runs, so that help is instant.

Exit codes: 0 done; 1 something that was asked for did not succeed; 2 the input is wrong
(a message, no traceback).
"""

from __future__ import annotations

from typing import Any

import click

from pmn_cl import __version__
from pmn_cl.cli import (
    answers,
    explain,
    human_eval,
    modules,
    prepare,
    report,
    results,
    run,
    start,
    worlds,
)
from pmn_cl.errors import UserError
from pmn_cl.mlflow_mirror.exit import leave


class _Commands(click.Group):
    """A group that prints mistakes of the user's without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"pmn-bench: {error}", err=True)
            ctx.exit(2)


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


for command in (
    *(start.doctor, start.init, start.list_names, worlds.prepare, worlds.show),
    *(run.run_stream, run.plan, run.one_run, run.sweep, run.ablate),
    *(run.tune, run.verify),
    *(results.list_results, results.compare, results.merge, results.claims),
    *(results.sync, results.ui, report.report, modules.modules, human_eval.judge),
    *(explain.explain, explain.faithfulness, answers.answers),
):
    main.add_command(command)
worlds.prepare.add_command(prepare.features)
for part in (prepare.visual_genome, prepare.vqa, prepare.coco):
    worlds.prepare.add_command(part)


def program() -> None:
    """Run the command line as a program of its own."""
    try:
        main()
    except SystemExit as ending:
        leave(int(ending.code or 0))
        raise


if __name__ == "__main__":
    program()
