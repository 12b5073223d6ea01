"""The command ``pmn-bench prepare features``, as people see it."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.worlds.visual_genome.features.preparation import prepare_features
from benchmarks.worlds.visual_genome.features.request import Request
from pmn_cl.console import show_progress


def features_command(request: Request, out: Path) -> None:
    """Prepare features and say what was kept, what was not, and the digest."""
    store = prepare_features(request, out, show_progress, click.echo)
    for line in store.header["lines"]:
        click.echo(line)
    click.echo(f"{store.path}: {store.path.stat().st_size:,} bytes, digest {store.digest}")
