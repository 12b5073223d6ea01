"""Worlds and streams: what there is to learn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from pmn_cl.cli.options import CACHE_HELP, STREAM_HELP, cache_type, seed_type
from pmn_cl.console import console, show_progress, status
from pmn_cl.errors import UserError


@click.group()
def prepare() -> None:
    """Build the data of a world once, so that streams on it start at once."""


@prepare.command("digits")
@click.option(
    "--seed", type=seed_type, default=0, show_default=True, help="The same seed, the same bytes."
)
@click.option("--train", type=click.IntRange(min=1), help="Scenes for training.  [default: 10000]")
@click.option("--val", type=click.IntRange(min=1), help="Scenes for validation.  [default: 1000]")
@click.option("--test", type=click.IntRange(min=1), help="Scenes for test.  [default: 2000]")
@click.option("--novel", type=click.IntRange(min=1), help="Novel test scenes.  [default: 2000]")
@click.option(
    "--noise",
    type=click.FloatRange(min=0),
    help="Added to features; more is harder.  [default: 0.1]",
)
@click.option("--cache", "--out", type=cache_type, help=CACHE_HELP)
def prepare_digits(
    seed: int,
    noise: float | None,
    cache: Path | None,
    train: int | None,
    val: int | None,
    test: int | None,
    novel: int | None,
) -> None:
    """Build the world of handwritten digits: no download needed.

    Streams with the same options find it in the cache. A store that is there already is read
    whole and checked against its digest. A thousand scenes take two to three seconds and 10 MB.
    """
    from benchmarks.worlds.digit_scenes.world import DigitScenes

    scenes = {"train": train, "val": val, "test": test, "novel": novel}
    given = {split: count for split, count in scenes.items() if count is not None}
    options: dict[str, Any] = {"seed": seed, "scenes": given}
    if noise is not None:
        if not math.isfinite(noise):  # which click's limits let through
            raise UserError(f"--noise is {noise}, expected a finite number")
        options["noise"] = noise
    world = DigitScenes(DigitScenes.Options.model_validate(options))
    there_already = world.path(cache).exists()
    with show_progress("building the world") as progress:
        store = world.prepare(cache, progress)
    if there_already and not store.verify():  # building ends with the same check
        raise UserError(f"{store.path}: does not match its digest; delete it and prepare again")
    click.echo(f"{store.path}\n{store.path.stat().st_size:,} bytes, digest {store.digest}")


@click.command(epilog=STREAM_HELP)
@click.argument("stream")
@click.option(
    "--seed",
    type=seed_type,
    default=0,
    show_default=True,
    help="Decides which samples a fraction keeps.",
)
@click.option(
    "--preview",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw some scenes, their truth and questions into this PNG file.",
)
@click.option("--cache", type=cache_type, help=CACHE_HELP)
def show(stream: str, seed: int, preview: Path | None, cache: Path | None) -> None:
    """Show what is in a stream.

    Prints each task with its level, its call list, its samples and what the best constant answer
    scores, and how common the commonest answers are. The world is built first where it has not
    been yet.
    """
    from benchmarks.overview import print_overview
    from benchmarks.stream import Stream
    from pmn_cl.config.names import make_world
    from pmn_cl.config.stream import find_stream, load_spec

    path, shipped = find_stream(stream)
    if shipped:
        click.echo(f"{stream}: no such file here, using the stream that comes with pmn-bench")
    spec = load_spec(path)
    if preview is not None:
        make_world(spec.world).check_preview(preview)  # before any waiting
    with show_progress("building the world") as progress:
        opened = Stream.open(spec, seed, cache=cache, progress=progress)
    print_overview(opened, console())
    if preview is not None:
        with status("drawing the preview"):
            opened.world.preview(opened.store, preview)
        click.echo(f"wrote {preview}")
