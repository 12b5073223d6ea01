"""First steps: is all well here, and what can be named?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmn_cl.console import console, status
from pmn_cl.errors import UserError


@click.command()
def doctor() -> None:
    """Say what is wrong with this machine or installation, and what to do about it.

    Exits with 1 where something would keep pmn-bench from working.
    """
    from pmn_cl.cli.doctor import examine, print_findings

    with status("looking around (importing torch and Avalanche takes some seconds)"):
        findings = examine(Path.cwd())
    print_findings(findings, console())
    sys.exit(any(finding.state == "wrong" for finding in findings))


@click.command()
@click.argument("path", default="stream.yaml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite a file that is there already.")
def init(path: Path, force: bool) -> None:
    """Write a commented stream.yaml to start from, to PATH (default: stream.yaml)."""
    from pmn_cl.config.stream import shipped_streams

    if path.exists() and not force:
        raise UserError(f"{path}: is there already; --force overwrites it")
    try:
        path.write_text(shipped_streams()["stream.yaml"].read_text("utf-8"), "utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    click.echo(f"wrote {path}; next: pmn-bench show {path}")


@click.command("list")
@click.option("--fairness", is_flag=True, help="How the comparison of the strategies is kept fair.")
def list_names(fairness: bool) -> None:
    """List what can be named in a stream's YAML: strategies, tasks, worlds; and shipped streams."""
    if fairness:
        _print_fairness()
        return
    from pmn_cl import registry
    from pmn_cl.config.stream import shipped_streams

    known = {
        "strategies": registry.STRATEGIES,
        "tasks": registry.TASKS,
        "worlds": registry.WORLDS,
    }
    described = {
        kind: {
            name: (ref, registry.STRATEGY_SUMMARIES.get(name) or registry.load(ref).summary)
            for name, ref in names.items()
        }
        for kind, names in known.items()
    }
    described["streams"] = {name: ("", str(path)) for name, path in shipped_streams().items()}
    for kind, names in described.items():
        click.secho(kind, bold=True)
        width = 2 + max(map(len, names))
        for name, (reference, summary) in names.items():
            click.echo(f"  {name:<{width}}{summary}")
            if reference:
                click.secho(f"  {'':<{width}}{reference}", dim=True)
    click.echo("\nYour own: package.module:Name, installed or beside the YAML file.")


def _print_fairness() -> None:
    """Print what is the same for all strategies, and a table of what is not."""
    from rich.table import Table

    from pmn_cl.studies.fairness import fairness, same_for_all

    with status("importing the strategies"):
        rows, same = fairness(), same_for_all()
    click.secho("the same for all", bold=True)
    for what, how in same.items():
        click.echo(f"  {what:<11}{how}")
    table = Table(box=None, header_style="bold")
    for title in ("strategy", "sees", "further supervision", "trials", "chosen"):
        table.add_column(title)
    for row in rows:
        table.add_row(row.strategy, row.sees, row.supervision, row.search or "-", row.chosen)
    console().print(table)
